"""Means over seeds, and how sure we are of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats


@dataclass(frozen=True)
class Estimate:
    mean: float
    half: float
    """Half the width of the 95 % interval (Student's t over the seeds); infinite for a single one."""
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.half:.3f}" if math.isfinite(self.half) else f"{self.mean:.3f}"


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and 95 % interval over seeds."""
    count, mean = len(values), sum(values) / len(values)
    if count < 2:
        return Estimate(mean, math.inf, count)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return Estimate(mean, float(stats.t.ppf(0.975, count - 1)) * deviation / math.sqrt(count), count)
