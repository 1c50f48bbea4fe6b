"""The values that pass between stages.

Axes: t time steps, h w c pixels, a action.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float32, UInt8

HEADER = 128
"""Bytes of .npy header before the first row: numpy pads the headers of small arrays to exactly this."""


@dataclass(frozen=True)
class Column:
    dtype: str
    """numpy's name of the element type."""
    shape: tuple[int, ...]
    """Shape of one row."""

    @property
    def row_bytes(self) -> int:
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape, dtype=np.int64))

    def header(self, rows: int) -> bytes:
        buffer = io.BytesIO()
        fields = {"descr": np.dtype(self.dtype).str, "fortran_order": False, "shape": (rows, *self.shape)}
        np.lib.format.write_array_header_1_0(buffer, fields)
        if len(buffer.getvalue()) != HEADER:
            raise ValueError(f"a row shape {self.shape} does not fit a {HEADER}-byte header")
        return buffer.getvalue()


@dataclass(frozen=True)
class Episode:
    """What happened: row t holds what was seen at t, the action executed there, and the reward that followed."""

    frames: UInt8[np.ndarray, "t h w c"]
    actions: Float32[np.ndarray, "t a"]
    """As executed, i.e. with noise and within the action bounds; the number of a choice where actions are discrete."""
    rewards: Float32[np.ndarray, " t"]
    more: Mapping[str, np.ndarray] = field(default_factory=dict)
    """What else its world records, by the names of columns; `episode.states` is short for `episode.more["states"]`."""

    def __getattr__(self, name: str) -> Any:
        if name not in (more := self.__dict__.get("more", {})):
            raise AttributeError(f"an episode without {name}")
        return more[name]

    def columns(self) -> dict[str, np.ndarray]:
        return {"frames": self.frames, "actions": self.actions, "rewards": self.rewards, **self.more}
