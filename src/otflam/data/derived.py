"""Columns computed from a data set by a frozen model: codes, features, latents. Computed once, kept beside the data.

A derived column is a store of its own with the same episodes, in a folder keyed by the hashes of the data and of the
model, so that it can never be mistaken for that of other data or another model, and a data set is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from otflam.core.config import stable_hash
from otflam.core.errors import UserError
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter, finished_store


def derived_folder(store: Store, name: str, model_hash: str) -> Path:
    """Where a derived column lies: beside the data set, never inside it."""
    return store.path.parent / f"{store.path.name}.derived" / f"{name}-{store.hash[:12]}-{model_hash[:12]}"


def derive(
    store: Store,
    name: str,
    model_hash: str,
    column: Column,
    compute: Callable[[int], np.ndarray],
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    episodes: Sequence[int] | np.ndarray | None = None,
) -> Store:
    """Compute a column episode by episode, or continue, or find it done; `compute` gives an episode's rows.

    Where a column is dear, only some `episodes` have it; each then remembers its number in the data set.
    """
    chosen = list(range(len(store))) if episodes is None else [int(index) for index in episodes]
    key = model_hash if episodes is None else stable_hash([model_hash, chosen])
    folder, plan = derived_folder(store, name, key), {"data": store.hash, "model": key}
    if (done := finished_store(folder, plan)) is not None:
        return done
    longest = int(store.lengths[chosen].max())
    writer = StoreWriter(folder, {name: column}, plan, slot=longest, lock=True)
    writer.reserve(len(chosen) * longest)
    writer.drop_damaged()
    for place, index in enumerate(chosen):
        if place not in writer.done():
            writer.write(place, {name: compute(index)}, {"episode": index})
        on_progress(place + 1, len(chosen))
    return writer.finish({"kind": "derived"}, len(chosen))


def open_derived(store: Store, name: str, model_hash: str, cure: str) -> Store:
    """A derived column that must be there; `cure` says which command makes it."""
    folder = derived_folder(store, name, model_hash)
    if not (folder / "meta.json").exists():
        others = sorted(path.name for path in folder.parent.glob(f"{name}-*")) if folder.parent.exists() else []
        stale = f" (there are {name} of other data or models: {', '.join(others)})" if others else ""
        raise UserError(f"{store.path} has no {name} of this model{stale}", cure)
    return Store(folder)
