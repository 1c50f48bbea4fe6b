"""What all tables are made of: records in groups, means over seeds, Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from otflam.evaluate.records import read_records
from otflam.evaluate.stats import estimate


def chosen(folder: Path, experiment: str, size: str) -> list[dict[str, Any]]:
    """The records of an experiment at one preset."""
    return [record for record in read_records(folder, experiment) if record["preset"] == size]


def group(records: Iterable[dict[str, Any]], *keys: str) -> dict[tuple, list[dict[str, Any]]]:
    """Records by the values of some fields, in the order of their first appearance."""
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(tuple(record[key] for key in keys), []).append(record)
    return groups


def main_budget(records: list[dict[str, Any]]) -> int:
    """The budget of labels at which most methods are recorded, the smallest of equals; 0 if there is none."""
    methods: dict[int, set[str]] = {}
    for record in records:
        if record["labels"]:
            methods.setdefault(record["labels"], set()).add(record["method"])
    return min(methods, key=lambda labels: (-len(methods[labels]), labels), default=0)


def over_seeds(records: list[dict[str, Any]], metric: str, scale: float = 1.0, digits: int = 3) -> str:
    """Mean ± half of the 95 % interval, or a single value."""
    values = [scale * record["metrics"][metric] for record in records if record["metrics"][metric] is not None]
    if not values:
        return "–"
    result = estimate(values)
    return f"{result.mean:.{digits}f}" + (f" ± {result.half:.{digits}f}" if result.count > 1 else "")


def fastest(records: list[dict[str, Any]], metric: str) -> str:
    """Seconds of the fastest seed: others may have shared their core."""
    return f"{min(record['metrics'][metric] for record in records):.0f}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines) + "\n"
