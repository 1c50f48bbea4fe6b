"""Every table as CSV and LaTeX, from the records alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from otflam.core.files import write_text
from otflam.report.tables import CAPTIONS, TABLES

ESCAPES = {sign: "\\" + sign for sign in "&%#_${}"} | {"\\": r"\textbackslash{}"}
SIGNS = {"±": r"$\pm$", "→": r"$\rightarrow$", "²": r"$^2$", "–": "--", "−": "$-$", "≥": r"$\geq$", "≤": r"$\leq$"}
Rows = list[list[str]]


def export_tables(records: Path, size: str, out: Path) -> Iterator[Path]:
    """Write every table that has rows, with its caption in LaTeX; one with several parts becomes several files."""
    for name, make in TABLES.items():
        parts = [rows for rows in parse_tables(make(records, size)) if len(rows) > 1]
        for number, rows in enumerate(parts):
            stem = f"{name}-{size}" + (f"-{number + 1}" if len(parts) > 1 else "")
            for suffix, text in (("csv", as_csv(rows)), ("tex", f"% {CAPTIONS[name]}\n{as_latex(rows)}")):
                write_text(out / f"{stem}.{suffix}", text)
                yield out / f"{stem}.{suffix}"


def parse_tables(page: str) -> list[Rows]:
    """The Markdown tables of a page as rows of cells, the head first."""
    tables: list[Rows] = []
    inside = False
    for line in page.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            tables.append([])
        inside = True
        row = [cell.strip() for cell in line.strip("|").split("|")]
        if set("".join(row)) != {"-"}:
            tables[-1].append(row)
    return tables


def as_csv(rows: Rows) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def as_latex(rows: Rows) -> str:
    """A tabular in the manner of booktabs."""
    head, *body = (" & ".join(escape(cell) for cell in row) + r" \\" for row in rows)
    columns = "l" * len(rows[0])
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def escape(cell: str) -> str:
    return "".join(SIGNS.get(sign, ESCAPES.get(sign, sign)) for sign in cell)
