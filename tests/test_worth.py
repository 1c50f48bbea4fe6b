"""Is video without labels worth anything? Gains over the labels alone, from made-up records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otflam.core.config import stable_hash
from otflam.report.canvas import sketched
from otflam.report.figures_worth import gains_of, sketch_worth

ROWS = {"labels-only": (10.0, 1.0), "idm": (30.0, 2.0), "lapo-256": (5.0, 0.5)}
"""What a row earns in whole episodes, and in stretches."""


def write(folder: Path, method: str, seed: int, metrics: dict[str, Any], labels: int) -> None:
    facts = {"experiment": "control", "method": method, "task": "cheetah-run-noisy", "preset": "laptop", "seed": seed}
    fixed = {"config_hash": "", "data_hash": "", "stages": {}, "versions": {}, "seconds": 1.0, "command": ""}
    record = facts | fixed | {"labels": labels, "metrics": metrics}
    record["digest"] = stable_hash(record)
    (folder / f"{method}-{labels}-{seed}.json").write_text(json.dumps(record))


@pytest.fixture
def records(tmp_path: Path) -> Path:
    for method, (whole, stretch) in ROWS.items():
        for seed in range(2):
            returns = {"returns": [whole, whole + 2 * seed], "start_returns": [stretch, 2 * stretch]}
            write(tmp_path, method, seed, returns | {"start_zero": [0.0, 0.0], "start_expert": [4.0, 4.0]}, 8)
    write(tmp_path, "expert", 0, {"returns": [200.0, 200.0]}, 0)
    return tmp_path


def test_gains_are_shares_of_the_expert(records: Path) -> None:
    gains = gains_of(records, "laptop")
    found: dict[str, dict[str, float]] = {}
    for (measure, task, method, labels), gain in gains.items():
        assert (task, labels) == ("cheetah-run-noisy", 8)
        found.setdefault(measure, {})[method] = gain.mean
    assert found["whole episodes"] == pytest.approx({"idm": 10.0, "lapo-256": -2.5})
    assert found["from recorded states"] == pytest.approx({"idm": 37.5, "lapo-256": -18.75})
    sketch = sketched(sketch_worth, records, "laptop")
    assert sketch is not None and len(sketch.figure.axes) == 2


def test_nothing_without_the_labels_alone_or_the_expert(records: Path) -> None:
    for path in records.glob("labels-only*"):
        path.unlink()
    assert gains_of(records, "laptop") == {} and sketched(sketch_worth, records, "laptop") is None


def test_whole_episodes_alone(records: Path) -> None:
    """Old records have no stretches: then only whole episodes are compared."""
    for path in records.glob("*.json"):
        record = json.loads(path.read_text())
        for name in ("start_returns", "start_zero", "start_expert"):
            record["metrics"].pop(name, None)
        record.pop("digest")
        record["digest"] = stable_hash(record)
        path.write_text(json.dumps(record))
    assert {measure for measure, *_ in gains_of(records, "laptop")} == {"whole episodes"}
