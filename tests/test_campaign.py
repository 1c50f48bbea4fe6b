"""The campaign: damage comes from a seed, verdicts are strict, and a tiny run works through the command line."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from otflam.core.errors import UserError
from otflam.evaluate.records import Cell, find_record, read_records, write_record
from otflam.experiments.campaign.mutations import alter
from otflam.experiments.campaign.process import FAILED, PASSED, Death, Ended, judge, run_command, stopped_badly
from otflam.experiments.campaign.run import parse_case
from otflam.experiments.campaign.samples import FOREIGN, OURS, SAMPLES, WORKS, pick

FINE = Ended(0, "", "", 1.0)
REFUSED = Ended(2, "", "otflam: cheetah/meta.json was altered: restore it\n", 1.0)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.csv", "a.npy", "empty.bin"])
def test_damage_is_a_function_of_the_seed(name: str, tmp_path: Path) -> None:
    text = "" if name == "empty.bin" else json.dumps({"a": [1, {"b": "text"}], "digest": "0"}) + "\n"
    seen, file = set(), tmp_path / name
    for seed in range(60):
        found = []
        for _ in range(2):
            file.write_text(text)
            about = alter(file, np.random.default_rng(seed)).about
            found.append((about, file.read_bytes() if file.exists() else None))
        assert found[0] == found[1], "the same seed does the same"
        assert found[0][1] != text.encode() or name == "empty.bin"
        seen.add(found[0])
    assert len(seen) > 30 or name == "empty.bin"


@pytest.mark.parametrize(
    ("ended", "same", "lost", "outcome"),
    [
        (FINE, True, [], "same"),
        (FINE, False, [], "silent"),
        (dataclasses.replace(FINE, stderr="report: left out cheetah"), False, [], "told"),
        (dataclasses.replace(FINE, stdout="data cheetah"), False, [], "silent"),
        (REFUSED, False, [], "refused"),
        (REFUSED, False, ["cheetah/frames.npy"], "harm"),
        (FINE, True, ["cheetah/frames.npy"], "harm"),
        (dataclasses.replace(REFUSED, stderr="otflam: something is wrong: mend it\n"), False, [], "unnamed"),
        (dataclasses.replace(REFUSED, stderr=REFUSED.stderr * 2), False, [], "unnamed"),
        (dataclasses.replace(REFUSED, code=1, stderr="otflam: unexpected KeyError: 'a'"), False, [], "unexpected"),
        (dataclasses.replace(REFUSED, stderr="Traceback (most recent call last):"), False, [], "crash"),
        (dataclasses.replace(FINE, code=-signal.SIGSEGV), True, [], "crash"),
        (dataclasses.replace(FINE, code=None), True, [], "hang"),
    ],
)
def test_verdicts(ended: Ended, same: bool, lost: list[str], outcome: str) -> None:
    assert judge(ended, "cheetah/meta.json", same, lost)[0] == outcome


def test_a_stopped_command_dies_or_says_so() -> None:
    assert stopped_badly(dataclasses.replace(FINE, code=-9), Death()) is None
    interrupted = Ended(130, "", "otflam: stopped; run the same command to continue\n", 1.0)
    assert stopped_badly(interrupted, Death(signal.SIGINT)) is None
    assert stopped_badly(dataclasses.replace(interrupted, stderr="Traceback"), Death(signal.SIGINT)) == "crash"
    assert stopped_badly(dataclasses.replace(FINE, code=None), Death()) == "hang"


def test_every_outcome_is_explained_and_every_kind_named_once() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reliability.md").read_text()
    for name, meaning in (PASSED | FAILED).items():
        assert f"| {name} | {meaning} |" in page or f"| **{name}** | {meaning} |" in page
    names = [kind.name for kind in (*OURS, *FOREIGN, *WORKS)]
    assert len(set(names)) == len(names)
    for bad in ("mutation", "kill-", "mutation--1", "x-1"):
        with pytest.raises(UserError, match="--case"):
            parse_case(bad)


def test_commands_die_when_they_are_told(tmp_path: Path) -> None:
    """The real command line in a forked process: it ends, is killed at a write, and is cut off at its limit."""
    (tmp_path / "page.md").write_text("no table\n")
    whole = run_command(["tables", "page.md"], tmp_path, 60.0, count=True)
    assert (whole.code, whole.stdout, whole.events > 0) == (0, "filled page.md\n", True)
    killed = run_command(["tables", "page.md"], tmp_path, 60.0, Death(event=0))
    assert killed.code == -signal.SIGKILL and not list(tmp_path.glob("*.tmp"))
    assert run_command(["tables", "no.md"], tmp_path, 60.0).errors == ["otflam: no.md: No such file or directory"]
    assert run_command(["tables", "page.md"], tmp_path, 0.0).code is None


def cheap_cases() -> list[str]:
    """Cases of kinds that are quickly made: 24 mutations and 3 kills."""
    cheap = {"data set", "records", "actions (.csv)", "unfinished import"}
    chosen = [number for number in range(1000) if pick(SAMPLES, number).name in cheap]
    killed = [number for number in range(100) if pick(WORKS, number).name == "import videos"]
    return [f"mutation-{number}" for number in chosen[:24]] + [f"kill-{number}" for number in killed[:3]]


def test_a_tiny_campaign(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "otflam", "campaign", "--case", *cheap_cases(), "--workers", "1"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, "--folder", tmp_path / "s"], capture_output=True, text=True, env=environment)
    assert "Traceback" not in done.stderr, done.stderr
    told = re.search(r"27 cases, (\d+) failures, [\d.]+ minutes \(seed 0\)", done.stdout)
    assert told and done.returncode == (1 if int(told[1]) else 0), done.stdout + done.stderr
    rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("| all")]
    counts = [[int(cell) if cell.strip() != "·" else 0 for cell in row[1:]] for row in rows]
    assert [row[0] for row in counts] == [3, 24] and all(sum(row[1:]) == row[0] for row in counts)
    assert counts[0] == [3, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0], "what was killed ends in the same bits"
    assert sum(row[8] + row[10] for row in counts) == 0, "nothing hangs, nothing is harmed"


CELL = Cell("transfer", "otf", "walker", "tiny", 0, {}, "0" * 32, {"codes": 1}, None, {"order": 1})


@pytest.mark.parametrize(
    "change",
    [
        {"metrics": None},
        {"metrics": {"drop": "text"}},
        {"metrics": {"drop": float("nan")}},
        {"metrics": {"drop": [[1]]}},
        {"seed": "0"},
        {"seed": True},
        {"order": [1]},
        {"versions": {"torch": 2}},
        {"preset": 3},
        {"method": "monolithic"},
    ],
)
def test_altered_records_are_one_line(change: dict, tmp_path: Path) -> None:
    record = write_record(tmp_path, CELL, {"drop": 0.5}, 1.0, "otflam x")
    (path,) = tmp_path.glob("*.json")
    path.write_text(json.dumps(record | change))
    for read in (lambda: list(read_records(tmp_path)), lambda: find_record(tmp_path, CELL)):
        with pytest.raises(UserError, match=re.escape(str(path))):
            read()


def test_records_from_before_they_had_a_digest_are_read(tmp_path: Path) -> None:
    record = write_record(tmp_path, CELL, {"drop": 0.5}, 1.0, "otflam x")
    (path,) = tmp_path.glob("*.json")
    path.write_text(json.dumps({key: record[key] for key in record if key != "digest"}))
    (found,) = read_records(tmp_path, "transfer")
    assert found["metrics"]["drop"] == 0.5
    with pytest.raises(UserError, match=f"{path.name} has no 'rise'"):
        found["metrics"]["rise"]
