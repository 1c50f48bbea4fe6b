"""Means over seeds, and how sure we are of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # loads its parts when they are first used: that of distributions takes nearly as long as torch


@dataclass(frozen=True)
class Estimate:
    mean: float
    half: float
    """Half the width of the 95 % interval (Student's t over the seeds); infinite for a single one."""
    count: int

    def text(self, digits: int) -> str:
        half = f" ± {self.half:.{digits}f}" if math.isfinite(self.half) else ""
        return f"{self.mean:.{digits}f}{half}"

    def __str__(self) -> str:
        return self.text(3)


def estimate(values: Sequence[float], comparisons: int = 1) -> Estimate:
    """Mean and 95 % interval over seeds; with many `comparisons` the level is divided among them (Bonferroni)."""
    count, mean = len(values), sum(values) / len(values)
    if count < 2:
        return Estimate(mean, math.inf, count)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return Estimate(
        mean, float(scipy.stats.t.ppf(1 - 0.025 / comparisons, count - 1)) * deviation / math.sqrt(count), count
    )


POOLED = 0.75
"""Seeds count as alike while the F test of their means does not exceed this quantile (Bancroft's rule)."""


def paired(groups: Sequence[Sequence[float]], comparisons: int = 1) -> Estimate:
    """Mean of differences that were met in the same episodes, a group for each seed, and its 95 % interval.

    If seeds differ no more than their episodes explain, all episodes are one sample; else seeds are what counts. One
    seed tells nothing of others. With many `comparisons` the level is divided among them (Bonferroni).
    """
    table = [np.asarray(group, np.float64) for group in groups if len(group)]
    everything = np.concatenate(table) if table else np.zeros(0)
    seeds, count = len(table), len(everything)
    mean = float(everything.mean()) if count else math.nan
    if seeds < 2 or count <= seeds:
        return Estimate(mean, math.inf, seeds)
    between = sum(len(group) * (group.mean() - mean) ** 2 for group in table) / (seeds - 1)
    within = sum(((group - group.mean()) ** 2).sum() for group in table) / (count - seeds)
    alike = between <= within * scipy.stats.f.ppf(POOLED, seeds - 1, count - seeds)
    variance, free = (float(everything.var(ddof=1)), count - 1) if alike else (float(between), seeds - 1)
    return Estimate(mean, float(scipy.stats.t.ppf(1 - 0.025 / comparisons, free)) * math.sqrt(variance / count), seeds)


def interquartile_mean(values: Sequence[float] | np.ndarray) -> float:
    """Mean of the middle half: episodes that went wrong or unusually well do not decide it."""
    cut = len(values) // 4
    ordered = np.partition(np.asarray(values, np.float64), (cut, len(values) - cut - 1))
    return float(ordered[cut : len(values) - cut].mean())


def rms_deviation(groups: Sequence[Sequence[float]]) -> float:
    """Root mean square over seeds of the deviation over episodes: the paper's error bar."""
    return float(np.sqrt(np.mean([np.var(group, ddof=1) for group in groups])))


def r2_interval(errors: Sequence[float], totals: Sequence[float], draws: int = 10_000) -> tuple[float, float]:
    """95 % interval of 1 - Σ errors / Σ totals over episodes, which are drawn again."""
    rng, pairs = np.random.default_rng(0), np.array([errors, totals], np.float64)
    sampled = pairs[:, rng.integers(pairs.shape[1], size=(draws, pairs.shape[1]))].sum(2)
    low, high = np.quantile(1 - sampled[0] / sampled[1], [0.025, 0.975])
    return float(low), float(high)


def bootstrap_interval(groups: Sequence[Sequence[float]], draws: int = 10_000) -> tuple[float, float]:
    """95 % interval of the mean over seeds and their episodes: both are drawn again, seeds first."""
    rng, table = np.random.default_rng(0), [np.asarray(group, np.float64) for group in groups]
    # [place, seed, draw]: the mean of that seed's episodes, drawn again, should it be drawn for that place.
    again = np.array(
        [[group[rng.integers(len(group), size=(draws, len(group)))].mean(1) for group in table] for _ in table]
    )
    chosen = rng.integers(len(table), size=(len(table), 1, draws))
    means = np.take_along_axis(again, chosen, 1).mean((0, 1))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)
