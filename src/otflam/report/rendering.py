"""A table as a value, and its renderings: Markdown, CSV and LaTeX (HTML is in page.py)."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass

ESCAPES = {sign: "\\" + sign for sign in "&%#_${}"}
ESCAPES |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SIGNS = {"±": r"$\pm$", "→": r"$\rightarrow$", "²": r"$^2$", "–": "--", "−": "$-$", "≥": r"$\geq$", "≤": r"$\leq$"}
NUMBER = re.compile(r"[-−]?\d|–$")  # how an entry of numbers begins
VALUE = re.compile(r"[-−]?\d+\.\d")  # how a measured value begins
NAME_CHARACTERS = 60  # of the longest name; a longer entry says more than what its row is about


@dataclass(frozen=True)
class Table:
    """What a table says, made once from records."""

    title: str
    caption: str
    """What its rows are, what ± is, and how far the paper's values can be compared."""
    command: str
    """What makes its records."""
    head: list[str]
    rows: list[list[str]]

    @property
    def names(self) -> int:
        """How many of the first columns say what a row is about."""
        for place, column in enumerate(zip(*self.rows, strict=True)):
            if any(VALUE.match(entry) or "±" in entry or len(entry) > NAME_CHARACTERS for entry in column):
                return max(1, place)
        return 1


def as_markdown(*parts: Table) -> str:
    """A table for a page that has its title and its caption; further parts are headed by their titles."""
    texts = []
    for part in parts:
        lines = ["| " + " | ".join(row) + " |" for row in [part.head, ["---"] * len(part.head), *part.rows]]
        texts.append("\n".join([*([f"{part.title}:", ""] if texts else []), *lines]) + "\n")
    return "\n".join(texts)


def as_csv(table: Table) -> str:
    """Numbers that a program reads: what stands behind ± has a column of its own."""
    halved = {place for row in table.rows for place, entry in enumerate(row) if " ± " in entry}
    names = [[name, f"{name} ±"] if place in halved else [name] for place, name in enumerate(table.head)]
    lines = [[part for parts in names for part in parts]]
    for row in table.rows:
        split = [[*entry.split(" ± "), ""][:2] if place in halved else [entry] for place, entry in enumerate(row)]
        lines.append([part for parts in split for part in parts])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def as_latex(table: Table) -> str:
    """A tabular in the manner of booktabs, with the caption as a comment."""
    head, *body = (" & ".join(map(escape, row)) + r" \\" for row in [table.head, *table.rows])
    columns = zip(*table.rows, strict=True) if table.rows else [("",)] * len(table.head)
    sides = "".join("r" if all(map(NUMBER.match, column)) else "l" for column in columns)
    lines = [f"% {table.caption}", rf"\begin{{tabular}}{{{sides}}}", r"\toprule", head, r"\midrule", *body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def escape(entry: str) -> str:
    """An entry for LaTeX; a minus before a number is a minus."""
    entry = "−" + entry[1:] if re.match(r"-\d", entry) else entry
    return "".join(SIGNS.get(sign, ESCAPES.get(sign, sign)) for sign in entry)
