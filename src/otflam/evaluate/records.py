"""Results as small JSON records: the only thing tables and figures are made of.

A record is reused when its configuration, its data and the versions of its stages are the same, never by commit: bump a
stage's version by hand when its results would change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from otflam.core import UserError, parse_json, stable_hash, to_json, versions, write_json

Metrics = Mapping[str, float | list[float]]
CURE = "delete it to compute it again"
FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("experiment", "method", "task", "preset", "config_hash", "data_hash", "command"), (str,)),
    "seed": (int,),
    "metrics": (dict,),
    "versions": (dict,),
    "seconds": (int, float),
    "stages": (dict,),
}
"""What every record has; further fields, such as labels or codes, are texts or numbers."""
LISTS = re.compile(r"returns$|_interval$|^curve_|^decoder_(steps|mse)$|^start_(zero|expert)$|^episode_mse$|_errors$")
"""Metrics that are lists; all others are numbers."""
LARGEST_METRIC = 1e100
"""Beyond any measurement, and its square is still a number."""


ROUNDING = {"lam": {2: 1}}
"""Versions of stages whose sums are only taken in another order than an older one's: where results were shown to be no
worse, pair by pair (docs/benchmarks.md), the records of the older one stay true."""


def kinds_of(stages: dict[str, int]) -> dict[str, int]:
    """Versions of stages, those that differ in rounding only by the oldest of them."""
    return {name: ROUNDING.get(name, {}).get(version, version) for name, version in stages.items()}


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
    wanted = {"config_hash": cell.config_hash, "data_hash": cell.data_hash}
    same = {key: record.get(key) for key in wanted} == wanted and kinds_of(record["stages"]) == kinds_of(cell.stages)
    return record if same else None


def write_record(folder: Path, cell: Cell, metrics: Metrics, seconds: float, command: str) -> dict[str, Any]:
    """Write a result; values that are not finite become null."""
    facts = ("experiment", "method", "task", "preset", "seed", "backgrounds", "config_hash", "data_hash", "stages")
    record = {name: getattr(cell, name) for name in facts} | cell.extra
    record["metrics"] = {name: finite(value) for name, value in metrics.items()}
    record |= {"versions": versions("torch", "numpy"), "seconds": round(seconds, 1), "command": command}
    record["digest"] = stable_hash(record)
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


def finite(value: float | list[float]) -> Any:
    """JSON knows no infinities."""
    if isinstance(value, list):
        return [finite(each) for each in value]
    return value if math.isfinite(value) else None


class StrictDict(dict):
    """What a file says; what it lacks is told with its name."""

    def __init__(self, values: dict[str, Any], path: Path) -> None:
        super().__init__(values)
        self.path = path

    def __missing__(self, name: str) -> Any:
        raise UserError(f"{self.path} has no {name!r}", CURE)


def read_record(path: Path) -> dict[str, Any]:
    """One record, whole and unaltered; those written before records had a digest are checked by their types."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})", CURE) from None
    return _parse_record(path, text)


@lru_cache(4096)  # a page asks for every record some twenty times
def _parse_record(path: Path, text: bytes) -> dict[str, Any]:
    try:
        record = _named_stages(parse_json(text))
    except ValueError as error:
        raise UserError(f"{path} is not readable JSON ({error})", CURE) from None
    if not isinstance(record, dict):
        raise UserError(f"{path} is not a JSON object", CURE)
    for name, kinds in FIELDS.items():
        if not isinstance(record.get(name), kinds) or isinstance(record[name], bool):
            raise UserError(f"{path}: {name} is {str(record.get(name))[:40]!r}", CURE)
    for name, value in record.items():
        if name not in FIELDS and not (value is None or isinstance(value, str | int | float)):
            raise UserError(f"{path}: {name} is {str(value)[:40]!r}", CURE)
    if not all(isinstance(version, str) for version in record["versions"].values()):
        raise UserError(f"{path}: versions are not texts", CURE)
    for name, value in record["metrics"].items():
        if isinstance(value, list) != bool(LISTS.search(name)):
            raise UserError(f"{path}: metric {name} is {str(value)[:40]!r}", CURE)
        if not all(each is None or _is_number(each) for each in (value if isinstance(value, list) else [value])):
            raise UserError(f"{path}: metric {name} is {str(value)[:40]!r}", CURE)
    try:
        altered = record.get("digest") not in (None, stable_hash({k: record[k] for k in record if k != "digest"}))
    except ValueError:  # a number that is not finite
        altered = True
    if altered:
        raise UserError(f"{path} was altered", CURE)
    return StrictDict({**record, "metrics": StrictDict(record["metrics"], path)}, path)


def _named_stages(record: Any) -> Any:
    """A record from before stages had names, in today's form."""
    number = record.get("stage_version") if isinstance(record, dict) else None
    if not isinstance(number, int) or (places := DIGITS.get(str(record.get("experiment")))) is None:
        return record
    stages = {name: number // place % 10 for name, place in places.items()}
    return {name: value for name, value in record.items() if name != "stage_version"} | {"stages": stages}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST_METRIC


def read_records(folder: Path, experiment: str | None = None) -> Iterator[dict[str, Any]]:
    """All records, or those of an experiment, in the order of their names."""
    for path in sorted(folder.glob("*.json")):
        record = read_record(path)
        if experiment in (None, record["experiment"]):
            yield record
