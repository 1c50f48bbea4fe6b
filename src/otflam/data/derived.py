"""Columns computed from a data set by a frozen model: codes, features, latents. Computed once, kept beside the data.

A derived column is a store of its own with the same episodes, in a folder keyed by the hashes of the data and of the
model, so that it can never be mistaken for that of other data or another model, and a data set is never changed. A
column of all episodes has its rows where the data set has them; one of some has theirs, one episode after the other.
Columns that together hold all that is asked for are joined: so jobs compute one for some of the episodes each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from otflam.core import (
    READ_ONLY,
    SILENT,
    BusyError,
    Launcher,
    Progress,
    UserError,
    keep_freed_memory,
    lock_folder,
    stable_hash,
    use_threads,
)
from otflam.data.joining import ShardWorker, cut, join_stores, make_shards
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter, finished_store

RETRY_SECONDS = 0.5
"""Seconds between two looks at a column that another process computes."""
ELSEWHERE = "OTFLAM_DERIVED"
"""The environment's name of the folder for new derived columns, where data cannot be written."""


def derived_roots(store: Store) -> list[Path]:
    """Folders that may hold derived columns of a data set, that of new ones first: beside it, never inside it."""
    path = store.path
    real = path.resolve() if path.is_symlink() or path.name in ("", "..") else path
    beside = [each.parent / f"{each.name}.derived" for each in dict.fromkeys((real, path))]
    elsewhere = os.environ.get(ELSEWHERE)
    return [*([Path(elsewhere) / beside[0].name] if elsewhere else []), *beside]


def derived_folder(store: Store, name: str, model_hash: str) -> Path:
    """Where a new derived column lies."""
    return derived_roots(store)[0] / _folder_name(store, name, model_hash)


def derive(
    store: Store,
    name: str,
    model_hash: str,
    column: Column,
    compute: Callable[[int], np.ndarray],
    progress: Progress = SILENT,
    episodes: Sequence[int] | np.ndarray | None = None,
) -> Store:
    """Compute a column episode by episode, or continue, or find it done; `compute` gives an episode's rows.

    Where a column is costly, only some `episodes` have it; each then remembers its number in the data set, and a column
    of more of them begins with the rows of these.
    """
    everything = list(range(len(store)))
    chosen = everything if episodes is None else sorted({int(index) for index in episodes})
    if (done := find_derived(store, name, model_hash, everything)) is not None:
        return done  # all episodes hold any of them
    writer = _open_writer(store, name, model_hash, column, chosen)
    if isinstance(writer, Store):
        return writer
    keep_freed_memory()  # networks of many frames want the same large blocks again and again
    starts = _starts(store, chosen)
    writer.reserve(int((starts + store.lengths[chosen]).max()))
    writer.drop_damaged(starts)
    known, done = known_rows(store, name, model_hash), writer.done()
    for place, index in enumerate(chosen):
        if place not in done:
            rows = known[index].episode(known[index].places[index], name) if index in known else compute(index)
            if len(rows) != store.lengths[index]:
                raise ValueError(f"{name} of episode {index} has {len(rows)} rows, not {store.lengths[index]}")
            writer.write(place, {name: rows}, {"episode": index}, int(starts[place]))
        progress.reach(place + 1, len(chosen))
    return writer.finish({"kind": "derived"}, len(chosen))


def derive_shards(
    function: Callable[..., Any],
    store: Store,
    arguments: tuple,
    episodes: Sequence[int] | None,
    shards: int,
    jobs: Launcher,
    progress: Progress = SILENT,
) -> None:
    """Let jobs derive a column of some of the episodes each, by `function(store, *arguments, episodes=some)`.

    The function must be one that another process can import. Asked for all episodes, it finds theirs and joins them.
    """
    chosen = range(len(store)) if episodes is None else sorted(set(episodes))
    parts = cut(chosen, shards)
    make_shards(jobs, Deriver, (function, store.path, arguments, parts, jobs.share(shards)), range(shards), progress)


class Deriver(ShardWorker):
    """One job: derives a column of some of the episodes."""

    def __init__(
        self, function: Callable[..., Any], data: Path, arguments: tuple, parts: list[list[int]], threads: int
    ) -> None:
        use_threads(threads)
        self.function, self.store, self.arguments, self.parts = function, Store(data), arguments, parts

    def work(self, number: int, progress: Progress) -> None:
        self.function(self.store, *self.arguments, episodes=self.parts[number])


def _join_known(store: Store, name: str, model_hash: str, chosen: list[int]) -> Store | None:
    """Finished columns that hold all of the episodes between them, as one; where it was begun otherwise, none."""
    key = _key(store, model_hash, chosen)
    folder, known = derived_folder(store, name, key), known_rows(store, name, model_hash)
    if not all(index in known for index in chosen):
        return None
    if any(known[index].path.parent != folder.parent for index in chosen):
        return None  # those of another root may go without these
    folder.mkdir(parents=True, exist_ok=True)
    held = lock_folder(folder)
    try:
        if (folder / "meta.json").exists():  # another process has just joined them
            return find_derived(store, name, model_hash, chosen)
        if (folder / "plan.json").exists():
            return None
        episodes = [(known[index], known[index].places[index]) for index in chosen]
        return join_stores(folder, episodes, _plan(store, key), {"kind": "derived"})
    finally:
        os.close(held)


def _open_writer(store: Store, name: str, model_hash: str, column: Column, chosen: list[int]) -> StoreWriter | Store:
    """A writer of the column, or the column if it is there or another process makes it."""
    while True:
        if (done := find_derived(store, name, model_hash, chosen)) is not None:
            return done
        key = _key(store, model_hash, chosen)
        folder = derived_folder(store, name, key)
        try:
            if (joined := _join_known(store, name, model_hash, chosen)) is not None:
                return joined
            return StoreWriter(folder, {name: column}, _plan(store, key), lock=True)
        except BusyError:  # another process, of the same training perhaps, computes it: its result is ours
            time.sleep(RETRY_SECONDS)
        except UserError:  # or has just finished it
            if find_derived(store, name, model_hash, chosen) is None:
                raise
        except OSError as error:
            if error.errno not in READ_ONLY:
                raise
            cure = f"set {ELSEWHERE} to a folder for derived columns"
            raise UserError(f"{folder} cannot be written ({error.strerror})", cure) from None


def _starts(store: Store, chosen: list[int]) -> Int64[np.ndarray, " n"]:
    """Where the rows of the chosen episodes begin in a column of them."""
    if len(chosen) == len(store) and len(store.shards) == 1:  # between shards are rows that no file has
        return store.starts
    lengths = store.lengths[chosen]
    return np.cumsum(lengths) - lengths


def describe_rows(store: Store, column: Store) -> str:
    """Which rows of a derived column belong to which frames, in words."""
    if len(column) < len(store):
        return f"of {len(column)} of {len(store)} episodes; meta.json says which, and where each starts"
    if len(column.shards) > 1:
        return f"in {len(column.shards)} shards; meta.json says where each episode is"
    if len(store.shards) > 1:
        return "one episode after the other; meta.json says where each starts"
    if (column.starts == store.starts).all():
        return f"row i belongs to row i of {store.shards[0].folder / 'frames.npy'}"
    return "every episode is padded to the longest, as earlier versions did; delete the folder to have it packed"


def find_derived(store: Store, name: str, model_hash: str, episodes: list[int]) -> Store | None:
    """A derived column of exactly these episodes, if it is finished."""
    key = _key(store, model_hash, episodes)
    for root in derived_roots(store):
        if (found := finished_store(root / _folder_name(store, name, key), _plan(store, key))) is not None:
            return found
    return None


def derived_stores(store: Store, name: str = "*") -> Iterator[Store]:
    """All finished columns of a name, or of any, of a data set."""
    for root in derived_roots(store):
        for folder in sorted(root.glob(f"{name}-{store.hash[:12]}-*")):
            if (folder / "meta.json").exists():
                yield Store(folder)


def known_rows(store: Store, name: str, model_hash: str) -> dict[int, Store]:
    """Finished columns of this model, whatever their episodes, by the episodes they hold."""
    known = {}
    for found in derived_stores(store, name):
        # The folder's name does not tell the model; but of which episodes it is, and with them it must be this one.
        if found.config == _plan(store, _key(store, model_hash, sorted(found.places))):
            known |= dict.fromkeys(found.places, found)
    return known


def _key(store: Store, model_hash: str, episodes: list[int]) -> str:
    return model_hash if len(episodes) == len(store) else stable_hash([model_hash, episodes])


def _plan(store: Store, key: str) -> dict[str, str]:
    """What a derived column is of."""
    return {"data": store.hash, "model": key}


def _folder_name(store: Store, name: str, key: str) -> str:
    return f"{name}-{store.hash[:12]}-{key[:12]}"
