"""Which motion signal to compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Transform = Literal["none", "sobel", "gradient", "log", "highpass"]


@dataclass(frozen=True)
class MotionConfig:
    transform: Transform = "gradient"
    """What each frame becomes before differencing: itself, edges, edges with magnitude, blobs, or fine detail."""
    order: Literal[1, 2] = 1
    """First differences (velocity) or second differences (acceleration)."""
    stride: int = 2
    """Steps τ between the frames of a difference."""

    @property
    def offsets(self) -> tuple[int, ...]:
        """Times of the frames that one motion needs, relative to the current frame."""
        return (0, self.stride) if self.order == 1 else (-self.stride, 0, self.stride)

    def channels(self, frame_channels: int) -> int:
        return frame_channels if self.transform in ("none", "highpass") else 3
