"""Columns computed from a data set by a frozen model: codes, features, latents. Computed once, kept beside the data.

A derived column is a store of its own with the same episodes, in a folder keyed by the hashes of the data and of the
model, so that it can never be mistaken for that of other data or another model, and a data set is never changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from otflam.core.config import stable_hash
from otflam.core.errors import BusyError, UserError
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter, finished_store

WAIT = 0.5
"""Seconds between two looks at a column that another process computes."""


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

    Where a column is dear, only some `episodes` have it; each then remembers its number in the data set, and a column
    of more of them begins with the rows of these.
    """
    everything = list(range(len(store)))
    chosen = everything if episodes is None else sorted({int(index) for index in episodes})
    if (done := find_derived(store, name, model_hash, everything)) is not None:
        return done  # all episodes hold any of them
    longest = int(store.lengths[chosen].max())
    while True:
        if (done := find_derived(store, name, model_hash, chosen)) is not None:
            return done
        try:
            folder, plan = _place(store, name, model_hash, chosen)
            writer = StoreWriter(folder, {name: column}, plan, slot=longest, lock=True)
            break
        except BusyError:  # another process, of the same training perhaps, computes it: its result is ours
            time.sleep(WAIT)
        except UserError:  # or has just finished it
            if find_derived(store, name, model_hash, chosen) is None:
                raise
    writer.reserve(len(chosen) * longest)
    writer.drop_damaged()
    known = known_rows(store, name, model_hash)
    for place, index in enumerate(chosen):
        if place not in writer.done():
            rows = known[index].episode(known[index].places[index], name) if index in known else compute(index)
            writer.write(place, {name: rows}, {"episode": index})
        on_progress(place + 1, len(chosen))
    return writer.finish({"kind": "derived"}, len(chosen))


def find_derived(store: Store, name: str, model_hash: str, episodes: list[int]) -> Store | None:
    """A derived column of exactly these episodes, if it is finished."""
    return finished_store(*_place(store, name, model_hash, episodes))


def known_rows(store: Store, name: str, model_hash: str) -> dict[int, Store]:
    """Finished columns of this model, whatever their episodes, by the episodes they hold."""
    known = {}
    for folder in derived_folder(store, name, "").parent.glob(f"{name}-{store.hash[:12]}-*"):
        if (folder / "meta.json").exists():
            # The folder's name does not tell the model; but of which episodes it is, and with them it must be this one.
            column = find_derived(store, name, model_hash, sorted(Store(folder).places))
            known |= dict.fromkeys(column.places, column) if column is not None else {}
    return known


def _place(store: Store, name: str, model_hash: str, episodes: list[int]) -> tuple[Path, dict[str, str]]:
    """The folder of a derived column and what it is of."""
    key = model_hash if len(episodes) == len(store) else stable_hash([model_hash, episodes])
    return derived_folder(store, name, key), {"data": store.hash, "model": key}
