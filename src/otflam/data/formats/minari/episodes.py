"""Minari's HDF5 data sets, in: a group episode_0, episode_1, … with observations, actions and rewards.

Observations are an array or a group of arrays, and one longer than the actions: what is seen at the end, where nothing
is done any more, is left out. Pictures are arrays of bytes, or image files such as JPEG one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import Column, Progress, UserError, digest_file, to_json, versions
from otflam.data.formats.hdf5 import choose_pictures, holds_pictures, is_array, load_h5py, read_pictures, reading
from otflam.data.options import HDF5Import
from otflam.data.store import Store
from otflam.data.writing import StoreWriter, finished_store

CURE = "a Minari data set has groups episode_0, episode_1, … with observations, actions and rewards"
SEEN = "observations"
ARRAYS = {"actions": "float32", "rewards": "float32", "terminations": "bool", "truncations": "bool"}


def read_episodes(
    source: Path, out: Path, options: HDF5Import, report: Callable[[str], None], progress: Progress
) -> Store:
    """Copy a data set into a store, one episode at a time; run again to continue an interrupted import."""
    file = find_file(source)
    with reading(file):
        root = load_h5py().File(file, "r")
    with root:
        with reading(file):
            names = sorted(
                (name for name in root if re.fullmatch(r"episode_\d+", name)), key=lambda name: int(name[8:])
            )
            if not names:
                raise UserError(f"{file} has no episodes", CURE)
            seen = dict(_leaves(root[names[0]].get(SEEN), SEEN))
            chosen = choose_pictures([name for name, item in seen.items() if holds_pictures(item)], options, file)
            columns = _columns(root[names[0]], seen, file)
        first = read_pictures(seen[chosen], 0, 1, options, file)
        specs = {"frames": Column("uint8", first.shape[1:])} | {name: spec for name, (_, spec) in columns.items()}
        progress.part(f"read {file}", "bytes").start(0, file.stat().st_size)
        plan = to_json(options) | {"file": file.name, "digest": digest_file(file, progress)}
        if (store := finished_store(out, plan)) is not None:
            return store
        writer = StoreWriter(out, specs, plan, lock=True)

        def read(index: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
            name = names[index]
            rows, pictures = _rows(root[name], columns, file), _item(root[name], chosen, file)
            length = len(rows["actions"])
            if len(pictures) not in (length, length + 1):
                raise UserError(f"{file}: {name} has {len(pictures)} pictures for {length} actions", CURE)
            return rows | {"frames": read_pictures(pictures, 0, length, options, file)}, {"source": name}

        writer.append_missing(len(names), read, progress.part(f"import {source}"))
    return writer.finish({"kind": "minari", "versions": versions("h5py", "numpy", "pillow")}, len(names))


def find_file(source: Path) -> Path:
    """The file of a data set."""
    for file in (source, source / "main_data.hdf5", source / "data" / "main_data.hdf5"):
        if file.is_file():
            return file
    raise UserError(
        f"{source} has no main_data.hdf5", "give the folder of a Minari data set; others than HDF5 cannot be read"
    )


def _leaves(item: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The arrays of a group, by their paths in it."""
    if item is not None and hasattr(item, "keys"):
        for key in item:
            yield from _leaves(item[key], f"{name}/{key}")
    elif item is not None:
        yield name, item


def _columns(group: Any, seen: dict[str, Any], file: Path) -> dict[str, tuple[str, Column]]:
    """Ours by name, with the path of theirs and what it is."""
    columns = {}
    for name, dtype in ARRAYS.items():
        if name in group and is_array(group[name]) and group[name].ndim in (1, 2):
            shape = group[name].shape[1:]
            columns[name] = name, Column(dtype, (1,) if name == "actions" and not shape else shape)
    if "actions" not in columns:
        raise UserError(f"{file} has no actions that are numbers", CURE)
    vectors = {name: item for name, item in seen.items() if is_array(item) and item.ndim in (1, 2)}
    for name, item in vectors.items():
        key = "states" if len(vectors) == 1 else re.sub(r"[^A-Za-z0-9_-]", "-", name.removeprefix(f"{SEEN}/"))[:64]
        floats = key == "states"
        shape = (1,) if floats and item.ndim == 1 else item.shape[1:]
        columns.setdefault(key, (name, Column("float32" if floats else item.dtype.name, shape)))
    return columns


def _item(group: Any, path: str, file: Path) -> Any:
    with reading(file):
        if path not in group:
            raise UserError(f"{file}: {group.name.strip('/')} has no {path}", CURE)
        return group[path]


def _rows(group: Any, columns: dict[str, tuple[str, Column]], file: Path) -> dict[str, np.ndarray]:
    """The numbers of an episode."""
    rows, length = {}, len(_item(group, "actions", file))
    for ours, (theirs, spec) in columns.items():
        item = _item(group, theirs, file)
        if len(item) < length or not is_array(item) or item.shape[1:] not in (spec.shape, ()):
            raise UserError(
                f"{file}: {group.name.strip('/')} has {theirs} {list(item.shape)} for {length} actions", CURE
            )
        with reading(file):
            rows[ours] = np.ascontiguousarray(item[:length].reshape(length, *spec.shape).astype(spec.dtype))
    return rows
