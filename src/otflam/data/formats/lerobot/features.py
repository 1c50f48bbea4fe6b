"""What a store's columns, and those that models gave it, become in a LeRobot folder; its rate and its tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from otflam.core import UserError
from otflam.data.formats.format import Beside, Report
from otflam.data.formats.lerobot.layout import KEYS
from otflam.data.formats.lerobot.stats import Stats, of_frames, of_numbers
from otflam.data.store import Store

FPS = 30.0
"""Of data that say no rate, if none is asked for."""
UNKNOWN = "unknown"
"""The task of data that say none."""
COUNTED = {"timestamp": "float32", **dict.fromkeys(("frame_index", "episode_index", "index", "task_index"), "int64")}
"""Features that every folder has."""


@dataclass(frozen=True)
class Out:
    """A feature that is written."""

    rows: Callable[[int], np.ndarray]
    """Those of an episode."""
    dtype: str
    shape: tuple[int, ...]
    names: list[str] | None = None

    def declare(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "shape": list(self.shape), "names": self.names}


def rate_of(store: Store, asked: float | None, report: Report) -> Fraction:
    """Frames a second, of which a folder has one."""
    told = {float(episode["fps"]) for episode in store.episodes if episode.get("fps")}
    if asked is not None:
        told = {asked}
    elif not told:
        report(f"the data say no rate: {FPS:g} frames a second are written; --fps gives another")
        told = {FPS}
    if len(told) > 1:
        raise UserError(f"{store.path} has episodes of {min(told):g} and {max(told):g} fps", "choose one with --fps")
    (rate,) = told
    if not 0 < rate < math.inf:
        raise UserError(f"--fps {rate}", "give a number above 0")
    return Fraction(rate).limit_denominator(1001)


def features_of(store: Store, beside: Mapping[str, Beside], latent: bool, report: Report) -> dict[str, Out]:
    """What is written of every frame but its number and picture, by LeRobot's names."""
    known = store.meta.get("features") if store.meta.get("kind") == "lerobot" else None
    known = known if isinstance(known, dict) else {}
    told_names = store.meta.get("names")
    names = {"actions": store.meta.get("action_names")} | (told_names if isinstance(told_names, dict) else {})
    features, left_out = {}, []
    for column, spec in store.columns.items():
        key = str(known.get(column) or KEYS.get(column) or column)
        key = f"recorded_{key}" if latent and key == "action" else key
        if column == "frames" or key in COUNTED:
            continue
        if len(spec.shape) > 1 or 0 in spec.shape or key in features:
            left_out.append(column)
            continue
        told = names.get(column)
        told = list(map(str, told)) if isinstance(told, list) and (len(told),) == spec.shape else None
        rows = partial(_rows, store, column)
        features[key] = Out(rows, spec.dtype, spec.shape or (1,), told)
    for name, found in beside.items():
        spec = found.column.columns[found.name]
        key, told = name, None
        if latent and name == "latent":
            key, told = "action", [f"latent_{number}" for number in range(spec.shape[0])]
        features[key] = Out(found.rows, spec.dtype, spec.shape, told)
        features[f"{name}_valid"] = Out(partial(_valid, store, found), "bool", (1,))
    if left_out:
        report(f"left out, for their rows are no vectors, or their names are taken: {', '.join(left_out)}")
    return features


def _rows(store: Store, column: str, index: int) -> np.ndarray:
    return store.episode(index, column)


def _valid(store: Store, found: Beside, index: int) -> np.ndarray:
    """Which frames of an episode a model says something of."""
    frame, length = np.arange(store.lengths[index]), int(store.lengths[index])
    return (frame >= found.behind) & (frame < length - found.ahead)


def measure(rows: Mapping[str, np.ndarray], camera: str, frames: np.ndarray) -> dict[str, Stats]:
    """Statistics of the features of an episode, its pictures among them."""
    return {key: of_numbers(values) for key, values in rows.items()} | {camera: of_frames(frames)}


def tasks_of(store: Store, index: int, task: str | None) -> list[str]:
    """What is done in every frame of an episode, in words."""
    length, known, told = int(store.lengths[index]), store.meta.get("tasks"), store.episodes[index].get("tasks")
    words = str(store.meta.get("task") or store.config.get("world", {}).get("task") or UNKNOWN)
    if task is not None:
        return [task] * length
    if isinstance(known, list) and "task_index" in store:
        places = store.episode(index, "task_index")
        return [str(known[place]) if 0 <= place < len(known) else words for place in places]
    return [str(told[0]) if isinstance(told, list) and told else words] * length
