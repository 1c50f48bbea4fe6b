"""Results as small JSON records: the only thing tables and figures are made of.

A record is reused when its configuration, its data and the versions of its stages are the same, never by commit: bump a
stage's version by hand when its results would change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otflam.core.config import stable_hash, to_json
from otflam.core.errors import UserError
from otflam.core.files import read_json, write_json
from otflam.core.provenance import versions

Metrics = Mapping[str, float | list[float]]


@dataclass(frozen=True)
class Cell:
    """What a result is of; equal cells have equal results."""

    experiment: str
    method: str
    task: str
    preset: str
    seed: int
    config: Any
    """Everything that decides the result."""
    data_hash: str
    stages: dict[str, int]
    """Versions of everything that made it."""
    backgrounds: str | None
    """Name of the background videos in the data."""
    extra: dict[str, Any]
    """Further facts that tables need: order, codes, labels."""

    @property
    def config_hash(self) -> str:
        return stable_hash({"config": to_json(self.config), "extra": self.extra})

    def path(self, folder: Path) -> Path:
        facts = [self.experiment, self.method, self.task, *(f"{k}{v}" for k, v in sorted(self.extra.items()))]
        name = "-".join([*facts, self.preset, f"seed{self.seed}"])
        return folder / f"{re.sub('[^a-zA-Z0-9_.]+', '-', name)}.json"


def find_record(folder: Path, cell: Cell) -> dict[str, Any] | None:
    """The record of a cell, if it is there and still true."""
    path = cell.path(folder)
    if not path.exists():
        return None
    record = read_record(path)
    wanted = {"config_hash": cell.config_hash, "data_hash": cell.data_hash, "stages": cell.stages}
    return record if {key: record.get(key) for key in wanted} == wanted else None


def write_record(folder: Path, cell: Cell, metrics: Metrics, seconds: float, command: str) -> dict[str, Any]:
    """Write a result; values that are not finite become null."""
    record = {
        "experiment": cell.experiment,
        "method": cell.method,
        "task": cell.task,
        "preset": cell.preset,
        "seed": cell.seed,
        **cell.extra,
        "metrics": {name: finite(value) for name, value in metrics.items()},
        "backgrounds": cell.backgrounds,
        "config_hash": cell.config_hash,
        "data_hash": cell.data_hash,
        "stages": cell.stages,
        "versions": versions("torch", "numpy"),
        "seconds": round(seconds, 1),
        "command": command,
    }
    write_json(cell.path(folder), record)
    return record


DIGITS = {
    "alignment": {"lam": 1, "tokenizer": 100, "alignment": 1000, "decoder": 10_000},
    "carrier": {"carrier": 1, "tokenizer": 100},
    "control": {"control": 1, "clone": 100, "decoder": 1000, "agent": 10_000},
    "lam": {"lam": 1, "tokenizer": 100},
    "tokenizer": {"codes": 1, "tokenizer": 100},
    "transfer": {"codes": 1, "tokenizer": 100},
}
"""Where each stage's version stood in the one number that records had before they named their stages."""


def read_record(path: Path) -> dict[str, Any]:
    """A record, in today's form."""
    record = read_json(path, "delete it to compute it again")
    if not isinstance(record, dict):
        raise UserError(f"{path} is no record", "delete it to compute it again")
    number, places = record.pop("stage_version", None), DIGITS.get(str(record.get("experiment")))
    if isinstance(number, int) and places:
        record["stages"] = {name: number // place % 10 for name, place in places.items()}
    return record


def finite(value: float | list[float]) -> Any:
    """JSON knows no infinities."""
    if isinstance(value, list):
        return [finite(each) for each in value]
    return value if math.isfinite(value) else None


def read_records(folder: Path, experiment: str) -> Iterator[dict[str, Any]]:
    """All records of an experiment, in the order of their names."""
    for path in sorted(folder.glob("*.json")):
        record = read_record(path)
        if record.get("experiment") == experiment:
            yield record
