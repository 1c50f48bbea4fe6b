"""Benchmarks, in files by the stage that they measure; run.py runs them all and has those of worlds, data and demo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Benchmark:
    measure: Callable[[], float | tuple[float, dict[str, float]]]
    """Gives a number, or also what it is made of."""
    goal: str
    unit: str
    how: str
    opponent: str = ""
    """Of a race: the repository whose code it is run against, if that is there."""


BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(goal: str, unit: str, name: str = "", how: str = "", opponent: str = "") -> Callable[[Any], Any]:
    """List a function as a benchmark; its own name and its docstring unless others are given."""

    def register(measure: Any) -> Any:
        BENCHMARKS[name or measure.__name__] = Benchmark(measure, goal, unit, how or measure.__doc__, opponent)
        return measure

    return register
