"""Statistics of features as LeRobot has them, of an episode, and of all of them from those of each.

Axes: n frames, d numbers of a feature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
SAMPLED = 64
"""Frames of an episode, at most, that its pictures are measured on."""
Stats = Mapping[str, np.ndarray]


def of_numbers(rows: np.ndarray) -> Stats:
    """Of a feature in one episode."""
    values = rows.reshape(len(rows), -1).astype(np.float64)
    return _measure(values, len(rows))


def of_frames(frames: np.ndarray) -> Stats:
    """Of the colours of some frames of one episode, from 0 to 1."""
    chosen = np.unique(np.linspace(0, len(frames) - 1, min(len(frames), SAMPLED)).astype(int))
    values = frames[chosen].reshape(-1, frames.shape[-1]) / 255.0
    found = _measure(values, len(chosen))
    return {name: value if name == "count" else value[:, None, None] for name, value in found.items()}


def _measure(values: np.ndarray, count: int) -> Stats:
    found = {"min": values.min(0), "max": values.max(0), "mean": values.mean(0), "std": values.std(0)}
    levels = np.quantile(values, list(QUANTILES.values()), axis=0)
    return found | dict(zip(QUANTILES, levels, strict=True)) | {"count": np.array([count])}


def of_all(parts: Sequence[Stats]) -> dict[str, Any]:
    """Of all episodes; quantiles are the means of theirs, weighted by their frames."""
    counts = np.array([part["count"][0] for part in parts], np.float64)
    weights = counts / counts.sum()

    def mean(name: str) -> np.ndarray:
        return np.tensordot(weights, np.stack([part[name] for part in parts]), 1)

    middle = mean("mean")
    spread = np.stack([part["std"] ** 2 + (part["mean"] - middle) ** 2 for part in parts])
    found = {
        "min": np.min([part["min"] for part in parts], axis=0),
        "max": np.max([part["max"] for part in parts], axis=0),
        "mean": middle,
        "std": np.sqrt(np.tensordot(weights, spread, 1)),
        "count": np.array([int(counts.sum())]),
        **{name: mean(name) for name in QUANTILES},
    }
    return {name: value.tolist() for name, value in found.items()}
