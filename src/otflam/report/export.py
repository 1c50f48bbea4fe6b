"""Every table as CSV and LaTeX and every figure as PNG and SVG, from the records alone."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

from otflam.core.files import write_text
from otflam.report.tables import CAPTIONS, TABLES

ESCAPES = {sign: "\\" + sign for sign in "&%#_${}"} | {"\\": r"\textbackslash{}"}
SIGNS = {"±": r"$\pm$", "→": r"$\rightarrow$", "²": r"$^2$", "–": "--", "−": "$-$", "≥": r"$\geq$", "≤": r"$\leq$"}
NUMBER = re.compile(r"[-−]?\d|–$")
"""How a cell of numbers begins."""
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
    """Numbers that a program reads: what stands behind ± has a column of its own."""
    text = io.StringIO()
    head, *body = rows
    halved = {place for row in body for place, cell in enumerate(row) if " ± " in cell}
    names = [[name, f"{name} ±"] if place in halved else [name] for place, name in enumerate(head)]
    table = [[part for parts in names for part in parts]]
    for row in body:
        split = [[*cell.split(" ± "), ""][:2] if place in halved else [cell] for place, cell in enumerate(row)]
        table.append([part for parts in split for part in parts])
    csv.writer(text, lineterminator="\n").writerows(table)
    return text.getvalue()


def as_latex(rows: Rows) -> str:
    """A tabular in the manner of booktabs."""
    head, *body = (" & ".join(escape(cell) for cell in row) + r" \\" for row in rows)
    sides = ["r" if all(map(NUMBER.match, column)) else "l" for column in zip(*rows[1:], strict=True)]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{''.join(sides)}}}",
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
    cell = "−" + cell[1:] if re.match(r"-\d", cell) else cell
    return "".join(SIGNS.get(sign, ESCAPES.get(sign, sign)) for sign in cell)
