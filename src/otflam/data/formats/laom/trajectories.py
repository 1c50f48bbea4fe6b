"""LAOM's HDF5 files, in and out: a group "0", "1", … for each trajectory, with arrays obs, states and actions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import SILENT, Progress, UserError, digest_file, replacing, versions
from otflam.data.formats.exports import Beside
from otflam.data.formats.format import Report
from otflam.data.formats.hdf5 import MAX_BYTES, load_h5py, reading
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter, finished_store

ARRAYS = {"obs": ("frames", "uint8", 4), "actions": ("actions", "float32", 2), "states": ("states", "float32", 2)}
"""Our column, the element type and the number of axes of each array of a trajectory."""
LOW, HIGH = -1.0, 1.0


def import_laom(file: Path, out: Path, progress: Progress = SILENT) -> Store:
    """Copy a LAOM file into a store, one trajectory at a time; run again to continue an interrupted import."""
    if not file.is_file():
        raise UserError(f"{file} does not exist", "give a LAOM .hdf5 file")
    with reading(file):
        root = load_h5py().File(file, "r")
    with root:
        with reading(file):
            groups = _groups(root, file)
            columns = _columns(groups, file)
            facts = _root_facts(root, columns["frames"], file)
        size = file.stat().st_size
        progress.part(f"read {file}", "bytes").start(0, size)
        digest = digest_file(file, progress)
        plan = {"file": file.name, "bytes": size, "digest": digest}
        if (store := finished_store(out, plan)) is not None:
            return store
        writer = StoreWriter(out, columns, plan, lock=True)

        def read(index: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
            with reading(file):
                return _trajectory(groups[index], file)

        episodes = writer.append_missing(len(groups), read, progress.part(f"import {file}")).values()
    total = sum(episode["length"] for episode in episodes) * math.prod(columns["actions"].shape)
    changed = sum(episode["actions_clipped"] for episode in episodes)
    clipped = {"low": LOW, "high": HIGH, "fraction": changed / total}
    about = {"kind": "laom", **facts, "actions_clipped": clipped, "versions": versions("h5py", "numpy")}
    return writer.finish(about, len(groups))


def export_laom(store: Store, out: Path) -> None:
    """Write a store's frames, states and actions as a LAOM file, with its root attributes as far as they are known."""
    h5py = load_h5py()
    for column, dtype, axes in ARRAYS.values():
        store[column]  # a missing one is named
        spec = store.columns[column]
        if spec.dtype != dtype or len(spec.shape) != axes - 1:
            raise UserError(f"{store.path}: {column} is {spec.dtype}{list(spec.shape)}", f"LAOM's files hold {dtype}")
    if len(set(store.lengths)) > 1:
        # Their reader takes the first trajectory's length for all, so such a file would be misread.
        raise UserError(f"{store.path} has episodes of unequal length", "LAOM's reader needs equal ones")
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as temporary, h5py.File(temporary, "w", locking=False) as root:  # it is locked already
        root.attrs.update(_root_attributes(store))
        for index, episode in enumerate(store.episodes):
            group = root.create_group(str(index))
            for name, (column, _, _) in ARRAYS.items():
                group.create_dataset(name, data=store.episode(index, column))
            if episode.get("return") is not None:
                group.attrs["traj_return"] = episode["return"]


def read_laom(source: Path, out: Path, options: Any, report: Report, progress: Progress) -> Store:
    """As the registry of formats calls it."""
    return import_laom(source, out, progress)


def write_laom(
    store: Store,
    out: Path,
    options: Any,
    beside: Mapping[str, Beside],
    report: Report,
    progress: Progress,
) -> None:
    """As the registry of formats calls it."""
    export_laom(store, out)


def _groups(root: Any, file: Path) -> list[Any]:
    """The trajectories by number: as names, 10 would come before 2."""
    for name in root:
        if not name.isdecimal() or not hasattr(root[name], "keys"):
            raise UserError(f"{file}: {name!r} is not a trajectory", "LAOM's are groups named 0, 1, 2, …")
    if not len(root):
        raise UserError(f"{file} has no trajectories", "LAOM's are groups named 0, 1, 2, …")
    return [root[name] for name in sorted(root, key=int)]


def _columns(groups: list[Any], file: Path) -> dict[str, Column]:
    """Check the layout of every trajectory before anything is copied, and return the columns they share."""
    columns: dict[str, Column] = {}
    for group in groups:
        where, lengths = f"{file}: trajectory {(group.name or '?').strip('/')}", set()
        for name, (column, dtype, axes) in ARRAYS.items():
            array = _array(group, name, dtype, axes, where)
            spec = Column(dtype, tuple(array.shape[1:]))
            if columns.setdefault(column, spec) != spec:
                raise UserError(f"{where}: {name} is {spec.shape}", f"those before it are {columns[column].shape}")
            lengths.add(len(array))
        if len(lengths) > 1 or max(lengths) < 2:
            raise UserError(f"{where} has arrays of length {sorted(lengths)}", "expected one length of at least 2")
    return columns


def _array(group: Any, name: str, dtype: str, axes: int, where: str) -> Any:
    """One array of a trajectory, not read yet."""
    if name not in group:
        raise UserError(f"{where} has no {name!r}", f"LAOM's have {', '.join(ARRAYS)}")
    array, expected = group[name], f"{dtype}[t, h, w, 3]" if name == "obs" else f"{dtype}[t, n]"
    if not isinstance(array, load_h5py().Dataset) or array.shape is None:
        raise UserError(f"{where}: {name} is no array", f"expected {expected}")
    if array.dtype != dtype or array.ndim != axes or (name == "obs" and array.shape[-1] != 3) or 0 in array.shape:
        raise UserError(f"{where}: {name} is {array.dtype}{list(array.shape)}", f"expected {expected}")
    if array.nbytes > MAX_BYTES:  # a few bytes can promise any number of rows that were never written
        raise UserError(
            f"{where}: {name} has {array.nbytes / 1e9:,.1f} GB", f"at most {MAX_BYTES / 1e9:.1f} GB are read"
        )
    return array


def _trajectory(group: Any, file: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read one trajectory and what is known of it."""
    rows = {column: group[name][:] for name, (column, _, _) in ARRAYS.items()}
    # LAOM stores the means of its PPO policies, which its environments clip before they act.
    clipped = np.clip(rows["actions"], LOW, HIGH)
    info = {
        "return": _number(group.attrs.get("traj_return"), f"{file}: traj_return of {group.name.strip('/')}"),
        "actions_clipped": int((clipped != rows["actions"]).sum()),
    }
    if "original_traj_idx" in group.attrs:  # files of labelled subsets say where each came from
        where = f"{file}: original_traj_idx of {group.name.strip('/')}"
        info["original"] = int(_number(group.attrs["original_traj_idx"], where) or 0)
    return {**rows, "actions": clipped}, info


def _number(value: Any, where: str) -> float | None:
    if value is None:
        return None
    number = _plain(value)
    if not isinstance(number, int | float) or not math.isfinite(number):
        raise UserError(f"{where} is {number!r}", "expected a finite number")
    return float(number)


def _root_facts(root: Any, frames: Column, file: Path) -> dict[str, Any]:
    """The root attributes in our words; those that are not there are None."""
    attributes = {name: _plain(value) for name, value in root.attrs.items()}
    size = attributes.get("img_hw", frames.shape[0])
    if {size} != set(frames.shape[:2]):
        raise UserError(f"{file}: img_hw is {size}, obs are {frames.shape}", "expected square frames of that size")
    for name in ("domain_name", "task_name", "difficulty", "split", "dynamic"):
        if not isinstance(value := attributes.get(name), str | bool | int | None):
            raise UserError(f"{file}: the attribute {name} is {value!r}", "expected a word, or true or false")
    domain, task = attributes.get("domain_name"), attributes.get("task_name")
    return {
        "task": f"{domain}-{task}" if domain and task else None,
        "difficulty": attributes.get("difficulty"),
        "dynamic": attributes.get("dynamic"),
        "size": size,
        "split": attributes.get("split"),
        "return": _number(attributes.get("dataset_return"), f"{file}: dataset_return"),
    }


def _plain(value: Any) -> Any:
    """An attribute as a plain Python value; a list becomes a tuple, so that it can be compared."""
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    value = value.decode() if isinstance(value, bytes) else value
    return tuple(value) if isinstance(value, list) else value


def _root_attributes(store: Store) -> dict[str, Any]:
    """LAOM's root attributes from what the store says of itself."""
    known = {**store.config, **store.config.get("world", {}), **store.meta}
    attributes = {name: known.get(name) for name in ("difficulty", "dynamic", "split")}
    if known.get("task"):
        attributes["domain_name"], _, attributes["task_name"] = known["task"].partition("-")
    returns = [episode["return"] for episode in store.episodes if episode.get("return") is not None]
    mean = sum(returns) / len(store) if len(returns) == len(store) else None
    attributes["dataset_return"] = mean if known.get("return") is None else known["return"]
    attributes["img_hw"] = store.columns["frames"].shape[0]
    return {name: value for name, value in attributes.items() if isinstance(value, str | bool | int | float)}
