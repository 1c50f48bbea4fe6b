"""Clips: the frames around an anchor, at the offsets a model asks for; never across the edge of an episode.

The order of clips is a pure function of (seed, step): each epoch is a pseudo-random permutation computed element by
element, so nothing is shuffled in memory and training resumes exactly at any step.
"""

from __future__ import annotations

import hashlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor
from torch.utils.data import Dataset

from otflam.core import Batch, UserError
from otflam.data.store import Store

BLOCK = 64
"""Batches whose order is computed at once."""
ROUNDS = 4
"""Rounds of the Feistel network: four are enough to be indistinguishable from random for our purpose."""


SHARES = (0.5, 0.25, 0.25)
"""Of the episodes: those to learn from without labels, the pool of labelled ones, and those that are held out."""


class RandomBatches(ABC):
    """Clips in random order, a pure function of (seed, step)."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def gather(self, index: Int64[np.ndarray, " b"]) -> Batch:
        """Read many clips at once."""

    def batch(self, size: int, seed: int, step: int, rank: int = 0, world: int = 1) -> Batch:
        """Random batch number `step`, or one of `world` equal parts of it: each clip comes once per epoch."""
        order = batch_order(len(self), size, seed, step)
        return self.gather(order[rank * size // world : (rank + 1) * size // world])

    def batches(self, size: int, seed: int, step: int = 0) -> Iterator[Batch]:
        """Endless random batches, beginning at any step."""
        return (self.batch(size, seed, number) for number in itertools.count(step))

    def evenly_spaced(self, count: int) -> Int64[np.ndarray, " n"]:
        """Numbers of so many clips, or of all: the same ones for every model."""
        return np.unique(np.linspace(0, len(self) - 1, min(count, len(self))).round().astype(np.int64))


class Clips(RandomBatches, Dataset[dict[str, Tensor]]):
    """All clips of a store, or of some of its episodes, as a plain torch dataset.

    A clip is anchored at every time t for which all of t + offsets lie inside the episode. Any DataLoader takes it;
    `batches` is faster and resumes exactly.
    """

    def __init__(
        self,
        store: Store,
        offsets: Sequence[int],
        columns: Sequence[str] = (),
        episodes: Sequence[int] | np.ndarray | None = None,
        derived: Mapping[str, Store] | None = None,
        inside: Sequence[int] = (),
        pad: bool = False,
    ) -> None:
        """`derived` are columns that were computed from this store and lie beside it.

        Offsets in `inside` must lie inside the episode too, though no frame is read there. With `pad` an episode's
        first frame stands for those before it, as for an agent that has just begun.
        """
        self.offsets = tuple(offsets)
        if not self.offsets or list(self.offsets) != sorted(set(self.offsets)):
            raise ValueError(f"offsets {self.offsets} must increase")
        self.episodes = np.arange(len(store)) if episodes is None else np.asarray(episodes, np.int64)
        self.inside = tuple(sorted({0, *inside, *(offset for offset in self.offsets if offset > 0 or not pad)}))
        """Offsets that lie inside the episode at every anchor."""
        ends = (0, *inside, *(() if pad else self.offsets))
        before, after = -min(ends), max(0, *inside, *self.offsets)
        counts = np.maximum(store.lengths[self.episodes] - before - after, 0)
        if not counts.sum():
            raise UserError(
                f"{store.path}: no episode is long enough for frames at offsets {sorted({*self.offsets, *inside})}",
                f"episodes need at least {before + after + 1} frames",
            )
        self._ends = np.cumsum(counts)
        self._first = store.starts[self.episodes] + before - (self._ends - counts)
        self._starts = store.starts[self.episodes] if pad else None
        self._names = ("frames", *columns)
        self._shifts = {name: _shifts(store, other, self.episodes) for name, other in (derived or {}).items()}
        self._open(store, derived or {})

    def _open(self, store: Store, derived: Mapping[str, Store]) -> None:
        # Plain arrays on the same memory: indexing a memmap object makes another one for every batch.
        self._path, self._derived = store.path, {name: other.path for name, other in derived.items()}
        self._arrays = {name: np.asarray(store[name]) for name in self._names}
        self._arrays |= {name: np.asarray(other[name]) for name, other in derived.items()}

    def __getstate__(self) -> dict[str, Any]:
        """A loader's worker opens the files itself: pickled arrays would be copies of the whole data set."""
        return {name: value for name, value in self.__dict__.items() if name != "_arrays"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open(Store(self._path), {name: Store(path) for name, path in self._derived.items()})

    def __len__(self) -> int:
        return int(self._ends[-1])

    def anchors(self, index: Int64[np.ndarray, " b"]) -> Int64[np.ndarray, " b"]:
        """Rows of the store at which the clips are anchored."""
        return index + self._first[self.episode_of(index)]

    def episode_of(self, index: Int64[np.ndarray, " b"]) -> Int64[np.ndarray, " b"]:
        """Places of the clips' episodes among `episodes`."""
        return np.searchsorted(self._ends, index, side="right")

    def gather(self, index: Int64[np.ndarray, " b"]) -> Batch:
        """Read many clips at once."""
        episode, columns = self.episode_of(index), {}
        rows = (index + self._first[episode])[:, None] + np.array(self.offsets)
        if self._starts is not None:
            rows = np.maximum(rows, self._starts[episode][:, None])
        for name, array in self._arrays.items():
            own = rows + self._shifts[name][episode][:, None] if name in self._shifts else rows
            columns[name] = torch.from_numpy(array[own])
        return Batch(columns.pop("frames"), self.offsets, columns)

    def column(self, name: str) -> np.ndarray:
        """The values of a column at the anchors of all clips, without reading any frame."""
        index = np.arange(len(self))
        shift = self._shifts[name][self.episode_of(index)] if name in self._shifts else 0
        return self._arrays[name][self.anchors(index) + shift]

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Tensor]]:
        batch = self.gather(np.asarray(indices, np.int64))
        columns = {"frames": batch.frames, **batch.columns}
        return [{name: column[i] for name, column in columns.items()} for i in range(len(indices))]


class DatasetClips(RandomBatches):
    """Clips of anyone's map-style torch dataset: an item is a clip of frames at a model's offsets, bytes [k, h, w, c],
    or a mapping with such `frames` and other columns. Frozen networks look at them in every step: nothing is stored."""

    def __init__(self, dataset: Any, offsets: Sequence[int]) -> None:
        self.dataset, self.offsets = dataset, tuple(offsets)

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def hash(self) -> str:
        """Names the clips by their number and a few of them: a dataset has no digest."""
        few = self.gather(np.linspace(0, len(self) - 1, 5).astype(np.int64)).frames.numpy()
        return hashlib.blake2b(few.tobytes() + str((len(self), few.shape)).encode(), digest_size=16).hexdigest()

    def gather(self, index: Int64[np.ndarray, " b"]) -> Batch:
        """Read many clips."""
        items = [self.dataset[place] for place in index.tolist()]
        items = [item if isinstance(item, Mapping) else {"frames": item} for item in items]
        columns = {name: torch.stack([torch.as_tensor(item[name]) for item in items]) for name in items[0]}
        frames = columns.pop("frames")
        if frames.dtype != torch.uint8 or frames.ndim != 5 or frames.shape[1] != len(self.offsets):
            raise UserError(
                f"clips of {str(frames.dtype).removeprefix('torch.')} {list(frames.shape[1:])}",
                f"give bytes (uint8) [{len(self.offsets)}, height, width, channel] with frames at {list(self.offsets)}",
            )
        return Batch(frames, self.offsets, columns)


def _shifts(store: Store, derived: Store, episodes: np.ndarray) -> Int64[np.ndarray, " n"]:
    """How far each episode's rows of a derived column lie from those of the data set."""
    places = derived.places
    missing = [int(index) for index in episodes if index not in places]
    if missing:
        raise UserError(
            f"{derived.path} has no rows for {len(missing)} of the episodes (first: {missing[0]})",
            "compute it for all that are used",
        )
    chosen = np.array([places[index] for index in episodes.tolist()], np.int64)
    if (derived.lengths[chosen] != store.lengths[episodes]).any():
        raise UserError(f"{derived.path} has other lengths of episodes than {store.path}", "it is of other data")
    return derived.starts[chosen] - store.starts[episodes]


def batch_order(count: int, size: int, seed: int, step: int) -> Int64[np.ndarray, " b"]:
    """Which of `count` clips form batch number `step`; a batch may reach into the next epoch."""
    block, place = divmod(step, BLOCK)
    return _orders(count, size, seed, block)[place].copy()


@lru_cache(maxsize=4)
def _orders(count: int, size: int, seed: int, block: int) -> Int64[np.ndarray, "n b"]:
    """The same of a block of batches at once: of one by one, numpy's overhead would be half the time of reading."""
    position = np.arange(block * BLOCK * size, (block + 1) * BLOCK * size)
    return permuted(position, count, seed).reshape(BLOCK, size)


def permuted(position: Int64[np.ndarray, " b"], count: int, seed: int) -> Int64[np.ndarray, " b"]:
    """Which of `count` clips come at some positions of an endless order, in which every epoch has each of them once."""
    epochs, within = np.divmod(position, count)
    order = np.empty(len(position), np.int64)
    for epoch in np.unique(epochs):
        chosen = epochs == epoch
        order[chosen] = permute(within[chosen], count, np.random.SeedSequence([seed, int(epoch)]))
    return order


def permute(index: Int64[np.ndarray, " b"], count: int, seed: np.random.SeedSequence) -> Int64[np.ndarray, " b"]:
    """Image of some elements under a pseudo-random permutation of range(count), without building the permutation.

    A Feistel network permutes a power of four that covers the range; elements that fall outside walk on until they
    are inside, which keeps it a permutation.
    """
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    mask, keys = np.uint64(2**half - 1), seed.generate_state(ROUNDS, np.uint64)
    result, outside = index.astype(np.uint64), np.ones(len(index), bool)
    while outside.any():
        left, right = result[outside] >> np.uint64(half), result[outside] & mask
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & mask)
        result[outside] = (left << np.uint64(half)) | right
        outside[outside] = result[outside] >= count
    return result.astype(np.int64)


def _mix(x: np.ndarray) -> np.ndarray:
    """Scramble 64-bit integers (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def split_episodes(store: Store, *shares: float) -> list[Int64[np.ndarray, " n"]]:
    """Cut the episodes into groups by share, as they follow each other; the shares must add up to 1.

    Where only some episodes have labels, they are put where labels are looked for: see SHARES.
    """
    order = np.arange(len(store))
    if "action_mask" in store and not (labelled := labelled_episodes(store)).all():
        order = _labels_in_place(labelled, _edges(len(store), SHARES))
    return [np.sort(order[first:last]) for first, last in itertools.pairwise(_edges(len(store), shares))]


def labelled_episodes(store: Store) -> Bool[np.ndarray, " n"]:
    """Whether each episode has a label."""
    return np.array([store.episode(index, "action_mask").any() for index in range(len(store))])


def _edges(count: int, shares: Sequence[float]) -> list[int]:
    if abs(sum(shares) - 1) > 1e-9:
        raise ValueError(f"shares {shares} do not add up to 1")
    return np.round(np.cumsum([0, *shares]) * count).astype(int).tolist()


def _labels_in_place(labelled: np.ndarray, edges: list[int]) -> np.ndarray:
    """Labelled episodes in the pool, then among those held out, and only then among those to learn from."""
    known, unknown, parts = list(np.flatnonzero(labelled)), list(np.flatnonzero(~labelled)), {}
    for part in (1, 2, 0):
        room = edges[part + 1] - edges[part]
        parts[part], known = known[:room], known[room:]
    for part in range(3):
        room = edges[part + 1] - edges[part] - len(parts[part])
        parts[part], unknown = parts[part] + unknown[:room], unknown[room:]
    return np.array([index for part in range(3) for index in parts[part]], np.int64)
