"""Benchmarks, in files by the stage that they measure; run.py runs them all and has those of worlds, data and demo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Benchmark:
    measure: Callable[[], float]
    goal: str
    unit: str
    how: str


BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(goal: str, unit: str) -> Callable[[Any], Any]:
    """List a function as a benchmark; its docstring is how it measures."""

    def register(measure: Any) -> Any:
        BENCHMARKS[measure.__name__] = Benchmark(measure, goal, unit, measure.__doc__)
        return measure

    return register
