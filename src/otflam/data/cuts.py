"""Where a film cuts from one shot to the next.

Two neighbouring frames are as far apart as their colours, free of their mean and contrast, do not go together:
1 - correlation, of thumbnails. A cut is a distance that stands out among those around it, so that a fast pan, whose
distances are all large, is none, and a flash, which is two of them, is none either. How well that finds cuts, and
beside what, is in docs/decisions.md.

Axes: y x pixels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from einops import rearrange
from jaxtyping import Float32, UInt8

T = TypeVar("T")
THUMB = (32, 18)
"""Width and height of a thumbnail: large enough to tell shots apart, too small for noise to matter."""
FAINT = 3.0
"""Contrast, of 255, below which a difference of thumbnails counts less and less: black frames are all alike."""
AROUND = 3
"""Distances before one, and behind it, among which it must stand out."""
LEAST = 0.1
"""Added to the mean distance around, so that the first step of what stood still is no cut."""
JUMP = 1.7
"""How many times the mean distance around a cut is at least."""


def signature(thumb: UInt8[np.ndarray, "y x 3"]) -> Float32[np.ndarray, " n"]:
    """A thumbnail as a vector of about unit length, each colour free of its mean."""
    colours = rearrange(thumb.astype(np.float32), "y x c -> (y x) c")
    colours -= colours.mean(0)
    return colours.ravel() / np.sqrt(colours.size * (np.square(colours).mean() + FAINT**2))


def mark_cuts(items: Iterable[T], look: Callable[[T], UInt8[np.ndarray, "y x 3"]]) -> Iterator[tuple[T, bool]]:
    """Pass frames on with whether a new shot begins there, a few frames late; `look` gives their thumbnails."""
    waiting: deque[T] = deque()
    apart: deque[float] = deque(maxlen=2 * AROUND + 1)  # distances; the middle one is that of the item to pass on
    previous, passed = None, 0
    for item in items:
        seen = signature(look(item))
        waiting.append(item)
        if previous is not None:
            apart.append(1 - float(previous @ seen))
        previous = seen
        if len(waiting) > AROUND:
            yield waiting.popleft(), passed > 0 and stands_out(apart, len(apart) - 1 - AROUND)
            passed += 1
    while waiting:
        yield waiting.popleft(), passed > 0 and stands_out(apart, len(apart) - 1 - len(waiting))
        passed += 1


def stands_out(apart: Sequence[float], place: int) -> bool:
    """Whether a distance is a cut among those around it; a few frames are too few to tell."""
    around = [
        apart[near] for near in range(max(0, place - AROUND), min(len(apart), place + AROUND + 1)) if near != place
    ]
    return len(around) >= AROUND and apart[place] >= JUMP * (sum(around) / len(around) + LEAST)
