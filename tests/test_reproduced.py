"""Tables of returns, as the paper has them."""

from __future__ import annotations

from pathlib import Path

from otflam.evaluate.records import Cell, write_record
from otflam.report.rendering import as_markdown
from otflam.report.tables import TABLES


def told(table: str, records: Path) -> str:
    return as_markdown(*TABLES[table].make(records, "tiny"))


def test_the_best_vocabulary_by_return_is_a_marked_row(tmp_path: Path) -> None:
    """Beside the rows of every size, never in their place."""
    for codes, earned in ((0, 10.0), (16, 30.0), (128, 20.0)):
        for seed in (0, 1):
            extra = {"labels": 8} | ({"codes": codes} if codes else {})
            cell = Cell("control", "otf-lam-pixel", "cheetah-run-noisy", "tiny", seed, codes, "data", {}, None, extra)
            write_record(tmp_path, cell, {"return_mean": earned, "returns": [earned, earned]}, 1.0, "otflam evaluate")
    rows = [line for line in told("control", tmp_path).splitlines() if "otf-lam-pixel" in line]
    assert len(rows) == 4
    marked = [row for row in rows if "best K by return *" in row]
    assert len(marked) == 1 and "(K = 16)" in marked[0] and "30.0" in marked[0]
    sweep = told("vocabulary", tmp_path).splitlines()
    assert "| otf-lam-pixel | 16 | 30.0 ± 0.0 | 0.0 | 12.24 / 9.79 | – | – | 26.52 / 5.53 |" in sweep
    assert "| otf-lam-pixel | 64 | 10.0 ± 0.0 | 0.0 | 16.70 / 18.30 | – | – | 24.66 / 5.02 |" in sweep
    assert "| otf-lam-pixel | 10.0 ± 0.0 | 0.0 | 20.48 / 19.74 |" in as_markdown(
        *TABLES["baselines"].make(tmp_path, "tiny")
    )


def test_tables_of_returns_stand_between_floor_and_ceiling(tmp_path: Path) -> None:
    """And that of vocabularies at the budget of all methods, however many budgets one of them has."""
    sweeps = [("otf-lam-dino", labels, codes) for labels in (2, 8, 32) for codes in (0, 16)]
    others = [("otf-lam-pixel", 8, 16), ("lapo-256", 8, 0), ("labels-only", 16, 0)]
    for method, labels, codes in [*sweeps, *others, *((name, 0, 0) for name in ("expert", "random", "all-actions"))]:
        extra = {"labels": labels} | ({"codes": codes} if codes else {})
        cell = Cell("control", method, "walker-run-noisy", "tiny", 0, [codes], "data", {}, None, extra)
        write_record(tmp_path, cell, {"return_mean": 7.0, "returns": [6.0, 8.0]}, 1.0, "otflam reproduce")

    def names(table: str, count: int) -> list[tuple[str, ...]]:
        lines = told(table, tmp_path).splitlines()
        return [tuple(cell.strip() for cell in line.split("|")[1 : 1 + count]) for line in lines if "---" not in line]

    assert names("vocabulary", 2) == [
        ("method (8 labels)", "K"),
        ("random", "–"),
        ("otf-lam-pixel", "16"),
        ("otf-lam-dino", "16"),
        ("otf-lam-dino", "64"),
        ("all-actions", "–"),
        ("expert", "–"),
    ]
    rows = names("supervision", 3)
    assert rows[1] == ("random", "–", "–") and rows[-1] == ("expert", "–", "–")
    assert rows[2:-2] == [
        *(("otf-lam-dino", codes, labels) for codes in ("16", "64") for labels in ("2", "8", "32")),
        ("lapo-256", "–", "8"),
        ("labels-only", "–", "16"),
    ]
    assert [name for (name,) in names("baselines", 1)][1:] == [
        "random",
        "lapo-256",
        "otf-lam-dino",
        "all-actions",
        "expert",
    ]
