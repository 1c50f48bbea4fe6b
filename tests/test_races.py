"""Races, growth over processes, and plans for machines that are not here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from otflam import cli
from otflam.core.errors import UserError
from otflam.core.pool import Launcher
from otflam.core.progress import SILENT
from otflam.experiments import agents
from otflam.experiments.bench import BENCHMARKS, opponents, run as bench
from otflam.experiments.bench.growth import exponent
from otflam.experiments.bench.opponents import CLONES, RESTATEMENT, Clock, TimeIsUpError, race_to_error
from otflam.experiments.bench.processes import anonymous_memory, family_of, processor_seconds
from otflam.experiments.calibration import Calibration, Cost
from otflam.experiments.cells import PlannedCell, Site
from otflam.experiments.datasets import Lab
from otflam.experiments.estimate import Piece, Work, frames
from otflam.experiments.machines import MACHINES, Core, check_frames, line_of, plan_work, speedup, tell_plan
from otflam.presets import get_preset
from otflam.report.figures_growth import PARTS, sketch_growth, times_of
from otflam.report.style import FIGURE

TINY = get_preset("tiny")
RACES = {"race_lapo_time_to_error": "laom", "race_collect": "laom", "race_tokenizer": "lam_agent_ambiguity"}
RECORDED = Path(__file__).parents[1] / "results" / "bench.json"


def learner(pace: float, steps_to_half: int = 10) -> Callable[[opponents.Enough], Clock]:
    """A training whose steps take `pace` seconds each and whose error halves."""

    def train(enough: opponents.Enough) -> Clock:
        clock = Clock(lambda: 0.5 ** (clock.steps / steps_to_half), enough, 4)
        with pytest.raises(TimeIsUpError):
            while True:
                clock.resumed -= pace  # as if so much time had passed
                clock.step()
        return clock

    return train


def test_time_to_equal_error() -> None:
    ratio, parts = race_to_error(learner(0.3), {"slow": learner(0.2), "fast": learner(0.1)}, 20.0)
    assert ratio == pytest.approx(3, rel=0.05), "the faster of ours counts"
    assert parts["opponent, s"] / parts["slow, s"] == pytest.approx(1.5, rel=0.05)
    assert parts["fast, samples/s"] == pytest.approx(40, rel=0.05) and parts["error"] < 0.01
    # Who never gets there has lost.
    ratio, parts = race_to_error(learner(0.1), {"ours": learner(0.1, steps_to_half=1000)}, 5.0)
    assert ratio == 0 and parts["ours, s"] == np.inf


def test_every_race_names_its_opponent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {name: mark.opponent for name, mark in BENCHMARKS.items() if mark.opponent} == RACES
    out, race = tmp_path / "bench.json", replace(BENCHMARKS["race_collect"], measure=lambda: 30.0)
    monkeypatch.setitem(BENCHMARKS, "race_collect", race)
    monkeypatch.setattr(opponents, "folder", [])
    ((_, alone),) = bench.run_bench(out, "race_collect")
    assert alone["opponent"] == RESTATEMENT and alone["how"].endswith(f"; against {RESTATEMENT}")
    assert json.loads(out.read_text())["race_collect"] == alone
    ((_, real),) = bench.run_bench(out, "race_collect", tmp_path)
    assert real["opponent"] == CLONES["laom"] and json.loads(out.read_text())["race_collect"] == real
    # A race against ourselves never takes the place of one against the real thing.
    list(bench.run_bench(out, "race_collect"))
    assert json.loads(out.read_text())["race_collect"] == real


def test_recorded_races_were_run_against_somebody() -> None:
    recorded = json.loads(RECORDED.read_text())
    for name, clone in RACES.items():
        assert recorded[name]["opponent"] in (CLONES[clone], RESTATEMENT), name


def test_a_benchmark_keeps_what_another_run_wrote_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "bench.json"

    def measure() -> float:
        out.write_text('{"other": {"value": 1}}')
        return 2.0

    monkeypatch.setitem(BENCHMARKS, "loader_share", replace(BENCHMARKS["loader_share"], measure=measure))
    list(bench.run_bench(out, "loader_share"))
    assert json.loads(out.read_text()).keys() == {"other", "loader_share"}


def test_growth_is_drawn_from_the_benchmarks(tmp_path: Path) -> None:
    assert exponent({1: 1.0, 2: 2.0, 4: 4.0}) == pytest.approx(1)
    assert times_of("open", {"open, 10,000": 2.0, "open, 1,000": 1.0, "open, exponent": 0.3, "write, 1,000": 9.0}) == {
        1000: 1.0,
        10000: 2.0,
    }
    with matplotlib.rc_context(FIGURE):
        assert sketch_growth(tmp_path / "records", "laptop") is None
        assert sketch_growth(RECORDED.parent / "records", "paper") is None
        sketch = sketch_growth(RECORDED.parent / "records", "laptop")
    assert sketch is not None and len(sketch.figure.axes) == len(PARTS)
    assert "seconds of the processor" in sketch.caption


def test_seconds_of_a_family() -> None:
    program = (
        "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'while True: pass']); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    try:
        deadline = time.monotonic() + 30
        while processor_seconds(child.pid) < 0.3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(family_of(child.pid)) == 2 and processor_seconds(child.pid) >= 0.3 < anonymous_memory(child.pid)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def test_a_plan_for_many_gpus_is_marked_as_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Calibration, "cost", lambda self, kind: Cost(0.01, 1000.0, 5, 64))
    site = Site(Lab(tmp_path / "root", TINY), tmp_path / "records", Launcher(2))
    plan = [PlannedCell("agents", agents.Job("lapo-256", "cheetah-run-noisy", 1, 0))]
    lines = list(plan_work(site, plan, MACHINES["gpu8"], 1e8, SILENT))
    assert any(line.startswith("on paper: ") for line in lines) and not list(tmp_path.iterdir())
    assert "100,000,000 frames" in "\n".join(lines) and any(line.startswith("assumed: ") for line in lines)
    rows = {line[:28].strip(): line[28:].replace(",", "").split() for line in lines[6:-1]}
    assert float(rows["collect"][1]) == 2e8 and float(rows["collect"][6]) > 100  # two data sets; gigabytes of them
    assert {row[2] for name, row in rows.items() if name != "probes"} == {"100.00"}, "the rate that was measured"
    # Networks read frames, and decoders do not grow with them.
    assert float(rows["lam lapo-256"][4]) > 0 and float(rows["decoder"][1]) == TINY.policy.decode.steps
    assert "GB/s" in lines[-1] and "GB of space" in lines[-1]


def test_a_slow_disk_is_waited_for() -> None:
    cost, pieces = Cost(1.0, per_unit=10.0, each=5, frames=100), [Piece(0, "lam lapo-256", 1000)]
    fast, core, frame = MACHINES["gpu8"], Core(1e11, 1e10), 12288
    assert speedup(fast, core) == pytest.approx(335) and speedup(fast, Core(1e13, 1e10)) == pytest.approx(33, rel=0.01)
    free = line_of(replace(fast, disk=1e9), core, cost, pieces, 2.0, frame)
    assert free.amount == 2000 and free.written == 20005
    assert free.hours == pytest.approx(2000 / (8 * speedup(fast, core)) / 3600)
    assert free.rate == pytest.approx(100 * 8 * speedup(fast, core))
    slow = line_of(replace(fast, disk=0.001), core, cost, pieces, 2.0, frame)
    assert slow.rate == free.rate and slow.hours == pytest.approx(2000 * 100 * frame / 1e6 / 3600)
    work = Work(1, 1, (), tuple(pieces), {"lam lapo-256": cost}, {})
    *_, last = tell_plan(replace(fast, disk=0.001), core, work, 1.0, TINY)
    assert "too much for 0.001: the hours above wait for it" in last
    # Pictures and physics stay with the cores.
    drawn = line_of(fast, core, Cost(1.0), [Piece(0, "collect", 128 * 3600)], 1.0, frame)
    assert drawn.hours == pytest.approx(1)


def test_frames_of_a_plan() -> None:
    assert check_frames(TINY, None) == 1 and check_frames(TINY, 1e8) == 1e8 / frames(TINY)
    for wanted in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(UserError, match="such as 1e8"):
            check_frames(TINY, wanted)


def told_by(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    return int(ended.value.code or 0), capsys.readouterr().err


def test_a_race_needs_the_clone_it_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, clone in {"race_lapo_time_to_error": "laom", "race_tokenizer": "lam_agent_ambiguity"}.items():
        words = ["bench", "--only", name, "--out", str(tmp_path / "bench.json"), "--opponents", str(tmp_path)]
        code, err = told_by(words, capsys)
        assert code == 2 and "has no clone of" in err and f"put it into a folder '{clone}' there" in err
        (tmp_path / clone).mkdir()
        code, err = told_by(words, capsys)
        assert code == 2 and "cannot be loaded" in err and "install its requirements" in err
    assert not (tmp_path / "bench.json").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--machine", "gpu8"], "--machine gpu8 is only planned for: add --dry-run"),
        (["--machine", "gpu9", "--dry-run"], "unknown machine 'gpu9'"),
        (["--frames", "1e8", "--dry-run"], "--frames is for a plan: add --dry-run --machine gpu8"),
        (["--frames", "0", "--dry-run", "--machine", "gpu8"], "--frames 0: give a number of frames, such as 1e8"),
        (["--frames", "nan", "--dry-run", "--machine", "gpu8"], "--frames nan: give a number of frames"),
    ],
)
def test_plans_that_make_no_sense(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, err = told_by(["reproduce", "transfer", "--root", str(tmp_path), *words], capsys)
    assert code == 2 and told in err and "Traceback" not in err
