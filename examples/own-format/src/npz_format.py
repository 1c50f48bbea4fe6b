"""A folder with an .npz file for every episode, in and out: a whole format in one file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from otflam import Column, Format, Store, StoreWriter, UserError, register_format


@dataclass(frozen=True)
class Reading:
    every: int = 1
    """Keep only every so many-th frame."""


def read(source: Path, out: Path, options: Reading, report: Any, progress: Any) -> Store:
    """Turn the folder into a store, an episode at a time."""
    files = sorted(source.glob("*.npz"))
    if not files:
        raise UserError(f"no .npz files in {source}", "is this the right folder?")
    with np.load(files[0]) as first:
        columns = {name: Column(str(rows.dtype), rows.shape[1:]) for name, rows in first.items()}
    plan = {"every": options.every, "files": [[file.name, file.stat().st_size] for file in files]}
    writer = StoreWriter(out, columns, plan, lock=True)  # goes on only with the same plan
    done = writer.done()
    for index, file in enumerate(files):
        if index not in done:
            with np.load(file) as arrays:
                rows = {name: np.ascontiguousarray(values[:: options.every]) for name, values in arrays.items()}
            writer.append(index, rows, {"source": file.name})
        progress.reach(index + 1, len(files))
    return writer.finish({"kind": "npz"}, len(files))


def write(store: Store, out: Path, options: Any, beside: Any, report: Any, progress: Any) -> None:
    """Write a file for every episode, with what models say of it."""
    out.mkdir(parents=True)
    for index in range(len(store)):
        rows = {name: store.episode(index, name) for name in store.columns}
        rows |= {name: column.rows(index) for name, column in beside.items()}
        np.savez(out / f"{index:06d}.npz", **rows)
        progress.reach(index + 1, len(store))


register_format(
    Format(
        name="npz",
        what="a folder of .npz episodes",
        reads="npz_format:read",
        writes="npz_format:write",
        source="The folder.",
        target="The new folder.",
        reading=Reading,
        beside=True,
    )
)
