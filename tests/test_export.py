"""Tables as files and on the page: what LaTeX and spreadsheets read is what the pages show."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from otflam.commands.tools import Export
from otflam.core.errors import UserError
from otflam.report.export import as_latex, parse_tables
from otflam.report.page import count_names, find_tables, make_page
from otflam.report.tables import CAPTIONS, TABLES

RECORDS = Path(__file__).parents[1] / "results" / "records"


def test_every_table_is_written(tmp_path: Path) -> None:
    Export(tmp_path, RECORDS).run()
    shown = parse_tables(TABLES["lam"](RECORDS, "laptop"))[0]
    with (tmp_path / "lam-laptop.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == shown
    with (tmp_path / "transfer-laptop-1.csv").open(newline="", encoding="utf-8") as file:
        row = next(csv.DictReader(file))
    assert float(row["target nMSE"]) > float(row["target nMSE ±"]) > 0
    latex = (tmp_path / "lam-laptop.tex").read_text(encoding="utf-8")
    assert latex.count(r"\\") == len(shown) and "lapo-256" in latex
    assert latex.splitlines()[:2] == [f"% {CAPTIONS['lam']}", r"\begin{tabular}{llrrrrrrr}"]
    assert "%" not in (tmp_path / "transfer-laptop-2.csv").read_text(encoding="utf-8")
    assert (tmp_path / "transfer-laptop-2.tex").read_text(encoding="utf-8").startswith(f"% {CAPTIONS['transfer']}\n")
    assert {"transfer-laptop-1.csv", "transfer-laptop-2.tex", "control-laptop.csv", "alignment.svg", "health.png"} <= {
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


def test_every_table_says_what_it_shows() -> None:
    """What its rows are and what ± is; beside the paper's values also how far they can be compared."""
    assert list(CAPTIONS) == list(TABLES)
    for name, caption in CAPTIONS.items():
        assert caption.startswith("Rows: ") and caption.endswith(".") and "\n" not in caption
        made = TABLES[name](RECORDS, "laptop")
        assert ("paper" in made) == ("far larger than ours" in caption), name
        assert "±" not in made or "±: half of the 95 % interval" in caption, name
    assert all("32 labelled trajectories" in CAPTIONS[name] for name in ("baselines", "vocabulary"))
    assert "16 to 128" in CAPTIONS["supervision"] and "held-out episodes" in CAPTIONS["alignment"]


def test_captions_stand_on_the_page() -> None:
    notes = {parts[0].title: {part.note for part in parts} for parts in find_tables(RECORDS, "laptop")}
    assert notes["Does a vocabulary of motion transfer to another body?"] == {CAPTIONS["transfer"]}
    assert len(notes) > 6 and all(len(each) == 1 for each in notes.values())


def test_names_of_rows() -> None:
    rows = [["data", "labels", "method", "R²", "MSE"], ["a", "8", "otf", "0.1 ± 0.2", "1"], ["b", "8", "x", "–", "2"]]
    assert count_names(rows) == 3
    assert count_names([["method", "told"], ["flam", "a long sentence about what was found inside of it"]]) == 1
    assert count_names([["return"], ["1.5"]]) == 1


def test_a_page_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otflam.report.page.sketch_figures", lambda records, size: [])
    (tmp_path / "records").mkdir()
    for path in RECORDS.glob("transfer-*-seed0.json"):
        shutil.copy(path, tmp_path / "records")
    text = make_page(None, tmp_path / "records", "laptop", tmp_path).read_text(encoding="utf-8")
    assert "run <code>make demo</code>" in text and 'id="grid"' not in text and "<table" in text
    with pytest.raises(UserError, match="no records of paper"):
        make_page(tmp_path / "nothing", tmp_path / "records", "paper", tmp_path)
