"""Where a film cuts from one shot to the next.

Two frames are as far apart as their colours, free of their mean and contrast, do not go together: 1 - correlation of
thumbnails, and half as much where one of them is blank. A cut is a distance that stands out among those around it, so
that a fast pan, whose distances are all large, is none. Nor is a flash, after which the shot goes on. How well that
finds cuts, and beside what, is in docs/decisions.md.

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
FAINT = 6.0
"""Contrast, of 255, below which a difference of thumbnails counts less and less: black frames are all alike."""
AROUND = 3
"""Distances before one, and behind it, among which it must stand out."""
LEAST = 0.1
"""Added to the mean distance around, so that the first step of what stood still is no cut."""
JUMP = 1.7
"""How many times the mean distance around a cut is at least."""


FLASH = 2
"""Frames of a flash at most: what looks the same before and after so many frames is no cut."""
ALIKE = 0.5
"""Share of a cut's distance that frames before and after it are apart at least."""


def signature(thumb: UInt8[np.ndarray, "y x 3"]) -> Float32[np.ndarray, " n"]:
    """A thumbnail as a vector of about unit length, each colour free of its mean; of a blank one it is zero."""
    colours = rearrange(thumb.astype(np.float32), "y x c -> (y x) c")
    colours -= colours.mean(0)
    return colours.ravel() / np.sqrt(colours.size * (np.square(colours).mean() + FAINT**2))


def distance(one: Float32[np.ndarray, " n"], other: Float32[np.ndarray, " n"]) -> float:
    return float(np.square(one - other).sum()) / 2


def mark_cuts(items: Iterable[T], look: Callable[[T], UInt8[np.ndarray, "y x 3"]]) -> Iterator[tuple[T, bool]]:
    """Pass frames on with whether a new shot begins there, a few frames late; `look` gives their thumbnails."""
    waiting: deque[T] = deque()
    seen: deque[np.ndarray] = deque(maxlen=2 * AROUND + 2)
    for item in items:
        waiting.append(item)
        seen.append(signature(look(item)))
        if len(waiting) > AROUND:
            yield waiting.popleft(), is_cut(seen, len(seen) - 1 - AROUND)
    while waiting:
        yield waiting.popleft(), is_cut(seen, len(seen) - 1 - len(waiting))


def is_cut(seen: Sequence[np.ndarray], place: int) -> bool:
    """Whether a new shot begins at a place among frames; a few frames are too few to tell."""
    if place < 1:
        return False
    step = distance(seen[place - 1], seen[place])
    near = range(max(1, place - AROUND), min(len(seen), place + AROUND + 1))
    around = [distance(seen[other - 1], seen[other]) for other in near if other != place]
    if len(around) < AROUND or step < JUMP * (sum(around) / len(around) + LEAST):
        return False
    later = range(place + 1, min(len(seen), place + FLASH + 1))
    earlier = range(max(0, place - 1 - FLASH), place - 1)
    across = [distance(seen[place - 1], seen[other]) for other in later]
    across += [distance(seen[other], seen[place]) for other in earlier]
    return min(across, default=step) >= ALIKE * step
