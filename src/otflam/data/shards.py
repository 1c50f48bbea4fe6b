"""Where the rows of a store lie: in its own folder, or in those of its shards, which are read as one array.

The files of all shards are mapped into one stretch of addresses, each where a page begins, so that a column of many
shards is a plain array like any other: batches are gathered by one index, and nothing is copied. Between two shards are
rows of zeros, which exist only as addresses and belong to no episode.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from otflam.core import HEADER, Column, UserError

ROW_LIMIT = 1 << 40
"""Rows of a store and bytes of a row stay below this."""
FOLDER = re.compile(r"(\.\./)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
"""Folders of shards: inside the store, or beside it where shards are stores in their own right."""
CURE = "it was altered; restore it or make the data set again"
MAP_FIXED = 0x10
"""Of Linux and macOS; Python's own mmap cannot say where to map."""


@dataclass(frozen=True)
class Shard:
    """A folder with some of the rows of a store."""

    folder: Path
    first: int
    """Row of the store's arrays at which its rows begin."""
    rows: int

    def file(self, name: str, spec: Column) -> Path:
        """The file of a column, whose size and header must be right."""
        file = self.folder / f"{name}.npy"
        expected = HEADER + self.rows * spec.row_bytes
        actual = file.stat().st_size if file.exists() else 0
        if actual != expected:
            raise UserError(
                f"{file} has {actual} bytes, expected {expected}",
                "it was truncated or altered; restore it or make the data set again",
            )
        with file.open("rb") as stream:
            if stream.read(HEADER) != spec.header(self.rows):
                raise UserError(f"{file} has another header than meta.json says", "it was altered; restore it")
        return file


def is_count(value: Any) -> bool:
    """Whether a JSON value can be a number of rows or of an episode."""
    return type(value) is int and 0 <= value < ROW_LIMIT


def read_shards(values: Any, path: Path, columns: Mapping[str, Column], rows: int) -> list[Shard]:
    """The shards that a store tells of, each where its files can be mapped; a store without any is its own."""
    if values is None:
        return [Shard(path, 0, rows)]
    file = path / "meta.json"
    if not isinstance(values, list) or not values:
        raise UserError(f"{file}: shards is not a list of shards", CURE)
    step = max(mmap.ALLOCATIONGRANULARITY // gcd(mmap.ALLOCATIONGRANULARITY, c.row_bytes) for c in columns.values())
    shards: list[Shard] = []
    end = -HEADER
    for number, value in enumerate(values):
        name, count = (value.get("folder"), value.get("rows")) if isinstance(value, dict) else (None, None)
        if not isinstance(name, str) or not FOLDER.fullmatch(name) or not isinstance(count, int) or not is_count(count):
            raise UserError(f"{file}: shards.{number} names no folder and its rows", CURE)
        if not (path / name).is_dir():
            raise UserError(f"{path} lacks its shard {name}", f"restore it, or delete {path} and make it again")
        # Behind the shard before, header included, and where a page begins in every column.
        shards.append(Shard(path / name, -(-(end + HEADER) // step) * step, count))
        end = shards[-1].first + count
    return shards


def place_episodes(
    starts: Int64[np.ndarray, " n"], lengths: Int64[np.ndarray, " n"], shards: list[Shard], file: Path
) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n"]]:
    """Where episodes begin in the store's arrays, and the numbers of their shards.

    `starts` are what meta.json says, as if the rows of each shard began where those of the one before end: it does not
    depend on the size of a machine's pages.
    """
    ends = np.cumsum([shard.rows for shard in shards])
    owners = np.minimum(np.searchsorted(ends, starts, side="right"), len(shards) - 1)
    torn = np.flatnonzero(starts + lengths > ends[owners])
    if len(torn):
        raise UserError(f"{file}: episode {torn[0]} lies in no shard", CURE)
    shifts = np.array([shard.first + shard.rows for shard in shards]) - ends
    return starts + shifts[owners], owners


def map_rows(shards: list[Shard], name: str, spec: Column) -> np.ndarray:
    """A column over all shards, memory-mapped: [rows, ...]."""
    files = [shard.file(name, spec) for shard in shards]
    shape = (shards[-1].first + shards[-1].rows, *spec.shape)
    if len(files) == 1:
        return np.memmap(files[0], spec.dtype, "r", HEADER, shape)
    # Addresses without memory; the files take their places in them, and all go when the last array does.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    region = mmap.mmap(-1, HEADER + shape[0] * spec.row_bytes, flags=flags, prot=mmap.PROT_READ)
    address = np.frombuffer(region, np.uint8).ctypes.data
    for shard, file in zip(shards, files, strict=True):
        _map_at(address + shard.first * spec.row_bytes, HEADER + shard.rows * spec.row_bytes, file)
    return np.ndarray(shape, spec.dtype, region, HEADER)


def _map_at(address: int, size: int, file: Path) -> None:
    """Map the beginning of a file, read-only, over what was mapped at an address."""
    with file.open("rb") as stream:
        found = _system()(address, size, mmap.PROT_READ, mmap.MAP_SHARED | MAP_FIXED, stream.fileno(), 0)
    if found != address:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(file))


@cache
def _system() -> Any:
    """The system's mmap."""
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    numbers = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *numbers]
    return function
