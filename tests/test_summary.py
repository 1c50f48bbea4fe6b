"""The README's one table: paired differences, returns from starts and innovations, with floor, ceiling and gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otflam.evaluate.records import Cell, read_records, write_record
from otflam.evaluate.results import difference, returns_of, share_of, starts_of
from otflam.report.tables_models import Body, innovation_table
from otflam.report.tables_returns import summary_table, tuning_table

TASK = "cheetah-run-noisy"


def write(folder: Path, experiment: str, method: str, seed: int, metrics: dict[str, Any], **facts: Any) -> None:
    write_record(
        folder, Cell(experiment, method, TASK, "tiny", seed, {}, "data", {}, None, facts), metrics, 1.0, "otflam"
    )


def played(returns: list[float], starts: list[float]) -> dict[str, Any]:
    bounds = {"start_zero": [10.0, 20.0], "start_expert": [20.0, 30.0]}
    share = (sum(starts) - 30) / 20
    mean = sum(returns) / len(returns)
    return {"returns": returns, "return_mean": mean, "start_returns": starts, "start_return_share": share, **bounds}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for seed in range(3):
        write(tmp_path, "control", "random", seed, played([1.0, 2.0], [10.0, 20.0]), labels=0)
        write(tmp_path, "control", "expert", seed, played([90.0, 91.0], [20.0, 30.0]), labels=0)
        write(tmp_path, "control", "labels-only", seed, played([10.0, 30.0 + seed], [12.0, 22.0]), labels=8)
        write(tmp_path, "control", "lapo-256", seed, played([15.0, 35.0 + seed], [15.0, 25.0]), labels=8)
        read = {"innovation_r2": 0.1, "innovation_mlp_r2": 0.2, "innovation_r2_motion": 0.0}
        for name in ("r2_states", "mlp_r2_states"):
            read |= {f"innovation_{name}": 0.5, f"innovation_{name}_interval": [0.4, 0.6]}
        read |= {"innovation_r2_frames": 0.01, "innovation_r2_frames_interval": [-0.01, 0.03]}
        write(tmp_path, "innovation", "lapo-256", seed, read, labels=8)
    for steps, earned in ((500, 20.0), (1500, 25.0)):
        write(tmp_path, "tuning", "lapo-256", 0, {"return_mean": earned}, labels=8, steps=steps)
    return tmp_path


def rows(table: Body) -> dict[str, list[str]]:
    return {row[0]: row for row in table[1]}


def test_the_table_has_all_that_decides(folder: Path) -> None:
    found = rows(summary_table(folder, "tiny"))
    assert list(found) == [
        "random", "labels-only", "lapo-256", "expert",
        "ceiling: true states before and after", "ceiling: frames, all labels",
    ]  # fmt: skip
    method, labels, earned, gap, starts, innovation, *walker = found["lapo-256"]
    assert (method, labels) == ("lapo-256", "8") and earned.startswith("25.5 ±")
    assert gap == "+5.0"  # in every episode: no interval
    assert starts == "50.0" and innovation == "0.100" and set(walker) == {"–"}
    assert found["labels-only"][3] == "–" and found["expert"][4] == "100.0" and found["random"][4] == "0.0"
    assert "0.500 (0.400 to 0.600)" in found["ceiling: true states before and after"]


def test_differences_pair_seeds_and_episodes(folder: Path) -> None:
    ours = [{"seed": s, "metrics": played([3.0, 9.0], [15.0, 25.0])} for s in (0, 1)]
    theirs = [{"seed": s, "metrics": played([2.0, 4.0], [12.0, 22.0])} for s in (1, 2)]
    gap = difference(ours, theirs, returns_of)
    assert gap is not None and gap.mean == 3.0 and gap.count == 1  # one seed in common
    stretch = difference(ours, theirs, starts_of)
    assert stretch is not None and stretch.mean == pytest.approx(0.3)
    assert difference(ours, [], returns_of) is None


def test_shares_need_a_sure_ceiling(folder: Path) -> None:
    record = next(read_records(folder, "innovation"))
    share = share_of([record], "innovation_r2_states")
    assert share is not None and share.mean == pytest.approx(20)
    assert share_of([record], "innovation_r2_frames") is None
    (row,) = innovation_table(folder, "tiny")[1]
    assert row[6:8] == ["20", "–"] and row[-1] == "0.010 (-0.010 to 0.030)"


def test_trials_are_told_and_the_best_marked(folder: Path) -> None:
    assert tuning_table(folder, "tiny")[1] == [["lapo-256", "8", "cheetah-run", "20.0", "25.0 *"]]
