"""stable-worldmodel's HDF5 files, in and out: flat columns of all episodes, with the length and first row of each.

pixels     uint8 [rows, h, w, 3], or colours first
action     [rows, a]; rows of NaN are frames without an action
ep_len     [episodes]
ep_offset  [episodes]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import Column, Progress, UserError, digest_file, replacing, to_json, versions
from otflam.data.formats.exports import Beside
from otflam.data.formats.hdf5 import choose_pictures, holds_pictures, is_array, load_h5py, read_pictures, reading
from otflam.data.options import HDF5Import
from otflam.data.store import Store
from otflam.data.writing import StoreWriter, finished_store

LENGTHS, OFFSETS, PIXELS = "ep_len", "ep_offset", "pixels"
NAMES = {"action": "actions", "state": "states", "reward": "rewards"}
"""What their columns are called here."""
CURE = "a file of stable-worldmodel has flat columns, ep_len and ep_offset"


def read_columns(
    source: Path, out: Path, options: HDF5Import, report: Callable[[str], None], progress: Progress
) -> Store:
    """Copy a file into a store, one episode at a time; run again to continue an interrupted import."""
    if not source.is_file():
        raise UserError(f"{source} does not exist", "give an .h5 file")
    with reading(source):
        root = load_h5py().File(source, "r")
    with root:
        with reading(source):
            places = _places(root, source)
            arrays = _arrays(root, int(places[-1].sum()), source)
        chosen = choose_pictures([name for name in arrays if holds_pictures(arrays[name])], options, source)
        columns, left_out = _columns(arrays, source)
        if left_out:
            report(f"left out, for some of their numbers are not finite: {', '.join(left_out)}")
        first = read_pictures(arrays[chosen], 0, 1, options, source)
        specs = {"frames": Column("uint8", first.shape[1:])} | {name: spec for name, (_, spec) in columns.items()}
        if "actions" in specs:
            specs["action_mask"] = Column("bool", ())
        progress.part(f"read {source}", "bytes").start(0, source.stat().st_size)
        plan = to_json(options) | {"file": source.name, "digest": digest_file(source, progress)}
        if (store := finished_store(out, plan)) is not None:
            return store
        writer = StoreWriter(out, specs, plan, lock=True)

        def read(index: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
            start, length = places[index].tolist()
            frames = read_pictures(arrays[chosen], start, start + length, options, source)
            with reading(source):
                return {"frames": frames, **_rows(arrays, columns, slice(start, start + length))}, {}

        writer.append_missing(len(places), read, progress.part(f"import {source}"))
    about = {"kind": "stable-worldmodel", "versions": versions("h5py", "numpy", "pillow")}
    return writer.finish(about, len(places))


def _places(root: Any, file: Path) -> np.ndarray:
    """Where each episode starts and how long it is, in their order."""
    for name in (LENGTHS, OFFSETS):
        if name not in root or not is_array(root[name]) or root[name].ndim != 1 or root[name].dtype.kind not in "iu":
            raise UserError(f"{file} has no {name}", CURE)
    starts, lengths = (root[name][:].astype(np.int64) for name in (OFFSETS, LENGTHS))
    if len(starts) != len(lengths) or not len(starts) or (lengths < 1).any() or (starts < 0).any():
        raise UserError(f"{file}: {LENGTHS} and {OFFSETS} do not tell of episodes", CURE)
    order = np.argsort(starts, kind="stable")
    if (starts[order][1:] < (starts + lengths)[order][:-1]).any():
        raise UserError(f"{file}: {OFFSETS} puts two episodes into the same rows", CURE)
    return np.stack([starts, lengths], 1)[order]


def _arrays(root: Any, rows: int, file: Path) -> dict[str, Any]:
    """The columns of all episodes."""
    found = {name: item for name, item in root.items() if name not in (LENGTHS, OFFSETS)}
    found = {name: item for name, item in found.items() if (is_array(item) or holds_pictures(item)) and item.ndim}
    short = [name for name, item in found.items() if len(item) < rows]
    if short:
        raise UserError(f"{file}: {short[0]} has {len(found[short[0]])} rows, its episodes end at {rows}", CURE)
    return found


def _columns(arrays: Mapping[str, Any], file: Path) -> tuple[dict[str, tuple[str, Column]], list[str]]:
    """Ours by name, with theirs and what it is; and those that have numbers that a store does not take."""
    columns: dict[str, tuple[str, Column]] = {}
    left_out = []
    for theirs, item in arrays.items():
        if holds_pictures(item) or item.ndim > 2:
            continue
        ours = NAMES.get(theirs, re.sub(r"[^A-Za-z0-9_-]", "-", theirs)[:64])
        width = (1,) if ours in ("actions", "states") and item.ndim == 1 else item.shape[1:]
        dtype = "float32" if ours in NAMES.values() else item.dtype.name
        with reading(file):
            finite = ours == "actions" or item.dtype.kind != "f" or bool(np.isfinite(item[:]).all())
        if not finite or ours in columns or ours == "frames":
            left_out.append(theirs)
        else:
            columns[ours] = theirs, Column(dtype, width)
    return columns, left_out


def _rows(arrays: Mapping[str, Any], columns: dict[str, tuple[str, Column]], place: slice) -> dict[str, np.ndarray]:
    """The numbers of an episode; an action of NaN is none."""
    rows = {}
    for ours, (theirs, spec) in columns.items():
        values = arrays[theirs][place].reshape(-1, *spec.shape)
        if ours == "actions":
            rows["action_mask"] = ~np.isnan(values).all(1) if values.dtype.kind == "f" else np.ones(len(values), bool)
            values = np.where(rows["action_mask"][:, None], values, 0)
        rows[ours] = np.ascontiguousarray(values.astype(spec.dtype))
    return rows


def write_columns(
    store: Store,
    out: Path,
    options: Any,
    beside: Mapping[str, Beside],
    report: Callable[[str], None],
    progress: Progress,
) -> None:
    """Write a store's columns one episode after the other, with what models say of them."""
    h5py = load_h5py()
    store["frames"]  # a missing one is named
    theirs = {ours: name for name, ours in NAMES.items()} | {"frames": PIXELS}
    specs = {theirs.get(name, name): spec for name, spec in store.columns.items() if name != "action_mask"}
    specs |= {name: found.column.columns[found.name] for name, found in beside.items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as temporary, h5py.File(temporary, "w", locking=False) as root:
        total = int(store.lengths.sum())
        made = {key: root.create_dataset(key, (total, *spec.shape), spec.dtype) for key, spec in specs.items()}
        offsets = np.cumsum(store.lengths) - store.lengths
        root[LENGTHS], root[OFFSETS] = store.lengths.astype(np.int64), offsets.astype(np.int64)
        for index, start in enumerate(offsets.tolist()):
            rows = {theirs.get(name, name): store.episode(index, name) for name in store.columns}
            rows |= {name: found.rows(index) for name, found in beside.items()}
            if "action" in rows and "action_mask" in rows:
                rows["action"] = np.where(rows["action_mask"][:, None], rows["action"], np.nan).astype(np.float32)
            for key, dataset in made.items():
                dataset[start : start + len(rows[key])] = rows[key]
            progress.reach(index + 1, len(store))
