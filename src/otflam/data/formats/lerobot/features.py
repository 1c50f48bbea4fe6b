"""What a store's columns, and those that models gave it, become in a LeRobot folder; its rate and its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from otflam.data.formats.exports import Beside
from otflam.data.formats.format import Report
from otflam.data.formats.lerobot.layout import KEYS
from otflam.data.formats.lerobot.stats import Stats, of_frames, of_numbers
from otflam.data.store import Store

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
