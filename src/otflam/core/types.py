"""The values that pass between stages.

Axes: t time steps, h w c pixels, s state, a action, p physics, d distractors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, UInt8


@dataclass(frozen=True)
class Episode:
    """What happened: row t holds what was seen at t, the action executed there, and the reward that followed."""

    frames: UInt8[np.ndarray, "t h w c"]
    actions: Float32[np.ndarray, "t a"]
    """As executed, i.e. with noise and clipped to the action bounds."""
    rewards: Float32[np.ndarray, " t"]
    states: Float32[np.ndarray, "t s"]
    physics: Float64[np.ndarray, "t p"]
    """The simulator's full state, from which the episode can be drawn again."""
    distractors: Float32[np.ndarray, "t d"]
    """True state of camera, colours and background."""

    def columns(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
