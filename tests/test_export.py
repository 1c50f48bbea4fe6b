"""Tables as files and on the page: what LaTeX, spreadsheets and browsers read is what the Markdown pages show."""

from __future__ import annotations

import csv
import re
import shutil
from html import unescape
from pathlib import Path
from typing import get_args

import pytest

from otflam.commands.report import Export
from otflam.core.errors import UserError
from otflam.envs.world import policy_names
from otflam.evaluate import names
from otflam.policy.train import Reference
from otflam.report.page import as_html, make_page
from otflam.report.rendering import Table, as_csv, as_latex, as_markdown
from otflam.report.style import method_colours
from otflam.report.tables import TABLES, fill, tables_with_rows

RECORDS = Path(__file__).parents[1] / "results" / "records"


def table(head: list[str], *rows: list[str]) -> Table:
    return Table("Title", "Rows: some.", "otflam reproduce lam", head, list(rows))


PLAIN = table(["data & task", "R² %", "told"], ["a_b", "1.5 ± 0.2", "x → <y>"], ["–", "-2.0", "50 % {of} $3 #1 ~^\\"])


def in_markdown(text: str) -> list[list[str]]:
    head, _, *rows = (line.strip("| ").split(" | ") for line in text.splitlines())
    return [head, *rows]


def in_html(text: str) -> list[list[str]]:
    found = [re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL) for row in re.findall(r"<tr>.*?</tr>", text, re.DOTALL)]
    return [[unescape(re.sub(r"<[^>]+>", "", cell)) for cell in row] for row in found]


def in_csv(text: str) -> list[list[str]]:
    """With ± in its cell again."""
    head, *rows = csv.reader(text.splitlines())
    halves = [place for place, name in enumerate(head) if name.endswith(" ±")]
    for row in rows:
        for place in halves:
            row[place - 1] += f" ± {row[place]}" if row[place] else ""
    return [[cell for place, cell in enumerate(row) if place not in halves] for row in [head, *rows]]


def in_latex(text: str) -> list[list[str]]:
    signs = {r"$\pm$": "±", r"$\rightarrow$": "→", r"$^2$": "²", "$-$": "-", r"\textbackslash{}": "\\"}
    signs |= {r"\textasciitilde{}": "~", r"\textasciicircum{}": "^", "--": "–"}
    found = []
    for line in (line for line in text.splitlines() if line.endswith(r" \\")):
        for sign, plain in signs.items():
            line = line.replace(sign, plain)
        found.append([re.sub(r"\\([&%#_${}])", r"\1", cell) for cell in re.split(r" (?<!\\)& ", line[: -len(r" \\")])])
    return found


@pytest.mark.parametrize("shown", [PLAIN, *TABLES["lam"].make(RECORDS, "laptop")], ids=["plain", "lam", "audits"])
def test_renderers_agree(shown: Table) -> None:
    cells = [shown.head, *shown.rows]
    assert len(cells) > 2
    assert in_markdown(as_markdown(shown)) == cells
    assert in_html(as_html(shown)) == cells
    assert in_csv(as_csv(shown)) == cells
    assert in_latex(as_latex(shown)) == cells


def test_signs_are_escaped() -> None:
    latex = as_latex(table(["a_b %", "R² → x"], ["1 ± 2", "–"], ["-3", "{$#~^\\&}"]))
    assert latex.splitlines()[3] == r"a\_b \% & R$^2$ $\rightarrow$ x \\"
    assert r"1 $\pm$ 2 & -- \\" in latex
    assert r"$-$3 & \{\$\#\textasciitilde{}\textasciicircum{}\textbackslash{}\&\} \\" in latex
    assert latex.splitlines()[:3] == ["% Rows: some.", r"\begin{tabular}{rl}", r"\toprule"]
    assert r"\begin{tabular}{ll}" in as_latex(table(["a", "b"])) and "<y>" not in as_html(PLAIN)


def test_parts_are_told_by_their_titles() -> None:
    first, second = table(["a"], ["1"]), Table("Second", "", "", ["b"], [["2"]])
    assert as_markdown(first, second) == "| a |\n| --- |\n| 1 |\n\nSecond:\n\n| b |\n| --- |\n| 2 |\n"


def test_every_table_is_written(tmp_path: Path) -> None:
    Export(tmp_path, RECORDS).run()
    shown, _ = TABLES["lam"].make(RECORDS, "laptop")
    with (tmp_path / "lam-laptop-1.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [shown.head, *shown.rows]
    with (tmp_path / "transfer-laptop-1.csv").open(newline="", encoding="utf-8") as file:
        row = next(csv.DictReader(file))
    assert float(row["target nMSE"]) > float(row["target nMSE ±"]) > 0
    latex = (tmp_path / "lam-laptop-1.tex").read_text(encoding="utf-8")
    assert latex.count(r"\\") == len(shown.rows) + 1 and "lapo-256" in latex
    assert latex.splitlines()[:2] == [f"% {shown.caption}", r"\begin{tabular}{llrrrrrrr}"]
    assert "%" not in (tmp_path / "transfer-laptop-2.csv").read_text(encoding="utf-8")
    told = f"% {TABLES['transfer'].caption}\n"
    assert (tmp_path / "transfer-laptop-2.tex").read_text(encoding="utf-8").startswith(told)
    assert {"transfer-laptop-1.csv", "transfer-laptop-2.tex", "control-laptop.csv", "alignment.svg", "health.png"} <= {
        p.name for p in tmp_path.iterdir()
    }
    with pytest.raises(UserError, match="no records of paper"):
        Export(tmp_path, RECORDS, "paper").run()


def test_one_list_says_which_tables_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, Markdown pages and the report have what is listed, and nothing else."""
    only = TABLES["carrier"]
    monkeypatch.setattr("otflam.report.evidence.sketch_figures", lambda records, preset: [])
    monkeypatch.setattr("otflam.commands.report.say", lambda text: None)
    monkeypatch.setattr("otflam.report.figures.FIGURES", {})
    for name in list(TABLES):
        monkeypatch.delitem(TABLES, name)
    monkeypatch.setitem(TABLES, "digits", only)
    Export(tmp_path / "files", RECORDS).run()
    assert {path.name for path in (tmp_path / "files").iterdir()} == {"digits-laptop.csv", "digits-laptop.tex"}
    page = make_page(None, RECORDS, "laptop", tmp_path / "page").read_text(encoding="utf-8")
    assert page.count("<table data-names") == 1 and only.title in page  # the chart of the first screen is another kind
    assert "otflam reproduce carrier --preset laptop" in page
    marks = "<!-- table {} laptop -->\n<!-- end of table -->"
    assert as_markdown(*only.make(RECORDS, "laptop")) in fill(marks.format("digits"), RECORDS)
    with pytest.raises(UserError, match="digits"):
        fill(marks.format("digit"), RECORDS)


def test_every_table_says_what_it_shows() -> None:
    """What its rows are and what ± is; beside the paper's values also how far they can be compared."""
    for name, listed in TABLES.items():
        caption, made = listed.caption, as_markdown(*listed.make(RECORDS, "laptop"))
        assert caption.startswith("Rows: ") and caption.endswith(".") and "\n" not in caption
        assert ("paper" in made) == ("far larger than ours" in caption), name
        assert "±" not in made or "±: half of the 95 % interval" in caption, name
    assert all("32 labelled trajectories" in TABLES[name].caption for name in ("baselines", "vocabulary"))
    assert "16 to 128" in TABLES["supervision"].caption and "held-out episodes" in TABLES["alignment"].caption
    titles = [listed.title for listed in TABLES.values()]
    assert len(set(titles)) == len(titles)


def test_captions_stand_with_every_part() -> None:
    found = dict(tables_with_rows(RECORDS, "laptop"))
    assert len(found) > 6 and len(found["transfer"]) == 2
    for name, parts in found.items():
        assert {part.caption for part in parts} == {TABLES[name].caption}
        assert parts[0].title == TABLES[name].title and all(part.rows for part in parts)


def test_names_of_rows() -> None:
    head = ["data", "labels", "method", "R²", "MSE"]
    assert table(head, ["a", "8", "otf", "0.1 ± 0.2", "1"], ["b", "8", "x", "–", "2"]).names == 3
    told = ["flam", "a long sentence about what was found inside of it"]
    assert table(["method", "told"], told).names == 1
    assert table(["return"], ["1.5"]).names == 1


def test_names_are_those_that_stages_know() -> None:
    """Stages to the left cannot read the list of names: what they call their policies must be on it."""
    assert policy_names("cheetah-run") == names.UNTRAINED
    assert set(get_args(Reference)) == {*names.REFERENCES, names.ALL_ACTIONS}
    assert {*names.BOUNDS, *names.REFERENCES, *names.GROUNDED} <= method_colours().keys()
    assert {*names.FLOOR, *names.CEILING} == set(names.BOUNDS)


def test_a_page_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It explores the example of the package, and says that it does."""
    monkeypatch.setattr("otflam.report.evidence.sketch_figures", lambda records, preset: [])
    (tmp_path / "records").mkdir()
    for path in RECORDS.glob("transfer-*-seed0.json"):
        shutil.copy(path, tmp_path / "records")
    text = make_page(None, tmp_path / "records", "laptop", tmp_path).read_text(encoding="utf-8")
    assert (
        "this is the example that comes with the package" in text
        and 'id="grid"' in text
        and "<table data-names" in text
    )
    with pytest.raises(UserError, match="no records of paper"):
        make_page(tmp_path / "nothing", tmp_path / "records", "paper", tmp_path)
