"""Frames of a source on their way into a data set, what is known of them, and why a source gives none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from otflam.core import UserError


@dataclass(frozen=True)
class VideoFacts:
    codec: str
    lossy: bool
    fps: float | None
    """Of the source; image folders have none."""
    source_size: tuple[int, int]
    """Width and height as shown, after rotation."""
    source_frames: int
    """Frames decoded from the source."""
    missing: int
    """Frames that the time stamps promise and the decoder did not give: a damaged file, or one of variable rate."""
    kept: tuple[int, ...]
    """The source's number of every frame returned."""
    dropped: int = 0
    """Kept frames that lie in pieces which are too short, and are not returned."""


@dataclass(frozen=True)
class Piece:
    """What becomes an episode of a source: all of it, a shot, or a part of one that is short enough."""

    frames: UInt8[np.ndarray, "t size size 3"]
    kept: tuple[int, ...]
    """The source's number of every frame."""
    begin: float
    """Seconds of the source before it; 0 where these are not known."""
    origin: Origin
    facts: VideoFacts | None = None
    """Of the source; only its last piece knows them."""


class UnusableVideoError(UserError):
    """One source that cannot become an episode; the import goes on without it."""

    def __init__(self, path: Path, problem: str, cure: str) -> None:
        super().__init__(f"{path}: {problem}", cure)
        self.reason = f"{problem}: {cure}"


@dataclass(frozen=True)
class Origin:
    """What one frame came from."""

    codec: str
    lossy: bool
    fps: Fraction | None
    size: tuple[int, int]


@dataclass(frozen=True)
class Picture:
    """One source frame that is not converted yet, so that a frame that is not kept costs no conversion."""

    load: Callable[[], Image.Image]
    thumb: Callable[[], UInt8[np.ndarray, "y x 3"]]
    """The whole frame as the few pixels that cuts are found by."""
    origin: Origin
    time: Fraction = Fraction()
    turns: int = 0
    """Quarter turns counter-clockwise that show it upright."""
    aspect: float = 1.0
    """Width of a source pixel over its height."""
    place: float = 0.0
    """How much of the source lies before it, as far as the source says."""
    cut: bool = False
    """Whether a new shot begins here, where cuts are looked for."""


@dataclass(frozen=True)
class Frame:
    """One frame of a video that is passed on, not kept."""

    small: UInt8[np.ndarray, "h w 3"]
    """At the size that was asked for."""
    whole: Image.Image
    """As the source shows it: upright, with square pixels, at its own resolution."""
    fps: Fraction | None
    cut: bool
    """Whether a new shot begins here, where cuts are looked for."""
