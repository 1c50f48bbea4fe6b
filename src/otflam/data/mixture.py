"""Clips of many data sets in one training, each by its weight: other sizes, rates, lengths and colours side by side.

Axes: b clips, k frames of a clip, h w pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Int64, UInt8
from torch import Tensor

from otflam.core import Batch, UserError
from otflam.data.clips import BLOCK, Clips, RandomBatches, permuted

COLOURS = 3


class Mixture(RandomBatches):
    """Random batches of several sources of clips, a pure function of (seed, step).

    Every source is met in an order of its own, each of its clips once before one comes again; of any 64 batches it
    has its share to the clip. Clips of each source are taken at its own times but called by `offsets`: so the gap
    between two frames may be another one in every source.
    """

    def __init__(self, sources: Sequence[Clips], weights: Sequence[float], offsets: Sequence[int], size: int) -> None:
        """`size` is the height and width that all frames are brought to."""
        if not sources or len(sources) != len(weights):
            raise UserError(f"{len(sources)} sources and {len(weights)} weights", "give one weight for each source")
        if min(weights) < 0 or not sum(weights) > 0:
            raise UserError(f"weights {', '.join(f'{each:g}' for each in weights)}", "give positive numbers")
        self.sources, self.offsets, self.size = tuple(sources), tuple(offsets), size
        self.shares = tuple(float(each) / float(sum(weights)) for each in weights)

    def __len__(self) -> int:
        return sum(map(len, self.sources))

    def batch(self, size: int, seed: int, step: int, rank: int = 0, world: int = 1) -> Batch:
        """Random batch number `step`, or one of `world` equal parts of it."""
        source, place = mixed_order(self.shares, tuple(map(len, self.sources)), size, seed, step)
        part = slice(rank * size // world, (rank + 1) * size // world)
        return self._gather(source[part], place[part])

    def gather(self, index: Int64[np.ndarray, " b"]) -> Batch:
        """Read many clips at once; they are numbered source after source."""
        return self._gather(*self._places(index))

    def episode_of(self, index: Int64[np.ndarray, " b"]) -> Int64[np.ndarray, " b"]:
        """Places of the clips' episodes among those of all sources."""
        source, place = self._places(index)
        before = np.cumsum([0, *(len(each.episodes) for each in self.sources)])
        found = np.empty(len(index), np.int64)
        for number in np.unique(source):
            rows = source == number
            found[rows] = before[number] + self.sources[number].episode_of(place[rows])
        return found

    def _places(self, index: Int64[np.ndarray, " b"]) -> tuple[Int64[np.ndarray, " b"], Int64[np.ndarray, " b"]]:
        """Of every clip its source, and which clip of that it is."""
        ends = np.cumsum([len(each) for each in self.sources])
        source = np.searchsorted(ends, index, side="right")
        return source, index - np.concatenate([[0], ends])[source]

    def _gather(self, source: Int64[np.ndarray, " b"], place: Int64[np.ndarray, " b"]) -> Batch:
        frames = torch.empty(len(source), len(self.offsets), self.size, self.size, COLOURS, dtype=torch.uint8)
        for number in np.unique(source):
            rows = np.flatnonzero(source == number)
            found = self.sources[number].gather(place[rows]).frames
            if found.shape[1] != len(self.offsets):
                raise UserError(f"clips of {found.shape[1]} frames", f"this mixture's have {len(self.offsets)}")
            frames[torch.from_numpy(rows)] = brought_to(found, self.size)
        return Batch(frames, self.offsets, {})


def brought_to(frames: UInt8[Tensor, "b k h w c"], size: int) -> UInt8[Tensor, "b k s s 3"]:
    """Frames in another size, as a tokenizer would see them, and in three colours."""
    count, colours = len(frames), frames.shape[-1]
    if frames.shape[2:4] != (size, size):
        images = rearrange(frames, "b k h w c -> (b k) c h w").float()
        scaled = F.interpolate(images, (size, size), mode="bilinear", align_corners=False).round()
        frames = rearrange(scaled.to(torch.uint8), "(b k) c h w -> b k h w c", b=count)
    return frames.expand(-1, -1, -1, -1, COLOURS) if colours == 1 else frames


def mixed_order(
    shares: tuple[float, ...], lengths: tuple[int, ...], size: int, seed: int, step: int
) -> tuple[Int64[np.ndarray, " b"], Int64[np.ndarray, " b"]]:
    """Of every clip of batch number `step` its source, and which clip of that it is."""
    block, row = divmod(step, BLOCK)
    source, place = _mixed_block(shares, lengths, size, seed, block)
    return source[row].copy(), place[row].copy()


@lru_cache(maxsize=4)
def _mixed_block(
    shares: tuple[float, ...], lengths: tuple[int, ...], size: int, seed: int, block: int
) -> tuple[Int64[np.ndarray, "n b"], Int64[np.ndarray, "n b"]]:
    """The same of a block of batches: each source has equally many clips in every block, in random places."""
    counts = apportion(shares, BLOCK * size)
    source = np.repeat(np.arange(len(shares)), counts)
    np.random.default_rng([seed, block]).shuffle(source)
    place = np.empty(BLOCK * size, np.int64)
    for number, (count, length) in enumerate(zip(counts, lengths, strict=True)):
        if count:
            first = block * count
            place[source == number] = permuted(np.arange(first, first + count), length, seed)
    return source.reshape(BLOCK, size), place.reshape(BLOCK, size)


def apportion(shares: Sequence[float], total: int) -> list[int]:
    """Whole numbers that add up to a total and are nearest to its shares; no share above 0 goes without."""
    exact = np.array(shares) * total
    counts = np.maximum(np.floor(exact), np.array(shares) > 0).astype(int)
    while counts.sum() != total:
        gaps = exact - counts
        counts[gaps.argmax() if counts.sum() < total else gaps.argmin()] += np.sign(total - counts.sum())
    return counts.tolist()
