"""Tables as files: what LaTeX and spreadsheets read is what the pages show."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from otflam.commands.tools import Export
from otflam.core.errors import UserError
from otflam.report.export import as_latex, parse_tables
from otflam.report.tables import TABLES

RECORDS = Path(__file__).parents[1] / "results" / "records"


def test_every_table_is_written(tmp_path: Path) -> None:
    Export(tmp_path, RECORDS).run()
    shown = parse_tables(TABLES["lam"](RECORDS, "laptop"))[0]
    with (tmp_path / "lam-laptop.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == shown
    latex = (tmp_path / "lam-laptop.tex").read_text(encoding="utf-8")
    assert latex.count(r"\\") == len(shown) and "lapo-256" in latex
    assert {"transfer-laptop-1.csv", "transfer-laptop-2.tex", "control-laptop.csv"} <= {
        p.name for p in tmp_path.iterdir()
    }
    with pytest.raises(UserError, match="no records of paper"):
        Export(tmp_path, RECORDS, "paper").run()


def test_signs_are_escaped() -> None:
    latex = as_latex([["a_b %", "R² → x"], ["1 ± 2", "–"]])
    assert latex.splitlines()[2] == r"a\_b \% & R$^2$ $\rightarrow$ x \\"
    assert r"1 $\pm$ 2 & -- \\" in latex


def test_tables_stand_apart() -> None:
    page = "| a |\n| --- |\n| 1 |\n\ntext\n\n| b | c |\n| --- | --- |\n"
    assert parse_tables(page) == [[["a"], ["1"]], [["b", "c"]]]
