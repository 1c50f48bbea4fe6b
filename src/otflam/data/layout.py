"""What the files of a store may say about its columns and episodes, checked wherever they are read or written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from otflam.core import HEADER, Column, UserError

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
"""Names of columns: they are names of files, and must not lead out of their folder."""
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES += ("float16", "float32", "float64")
MOST = 1 << 40
"""Rows of a store and bytes of a row stay below this."""
FACTS = {"episode": int, "seed": int, "policy": str, "source": str, "motion_name": str}
NUMBERS = ("return", "fps")
"""What an episode may tell of itself, and of which type; numbers may be unknown."""
CURE = "it was altered; restore it or make the data set again"


def read_columns(values: Any, file: Path, cure: str = CURE) -> dict[str, Column]:
    """The columns that a JSON file tells of; a name, type or shape that cannot be is named."""
    if not isinstance(values, dict) or not values:
        raise UserError(f"{file}: columns is not an object with columns", cure)
    columns = {}
    for name, value in values.items():
        where = f"{file}: columns.{name}"
        if not NAME.fullmatch(name):
            raise UserError(f"{file}: {name!r} is no name of a column", f"letters, digits, _ and - make one; {cure}")
        if not isinstance(value, dict) or value.get("dtype") not in DTYPES:
            raise UserError(f"{where}.dtype is none that a store holds", cure)
        shape = value.get("shape")
        if not isinstance(shape, list) or not all(is_count(side) for side in shape) or not _fits(value["dtype"], shape):
            raise UserError(f"{where}.shape is {str(shape)[:60]}", cure)
        columns[name] = Column(value["dtype"], tuple(shape))
    return columns


def _fits(dtype: str, shape: list[Any]) -> bool:
    """Whether rows of this shape are small enough for a store and for its files' headers."""
    if not all(is_count(side) for side in shape):
        return False
    size = np.dtype(dtype).itemsize
    for side in shape:  # not numpy's product, which overflows in silence
        size *= side
    try:
        return len(Column(dtype, tuple(shape)).header(MOST)) == HEADER and size < MOST
    except ValueError:
        return False


def is_count(value: Any) -> bool:
    """Whether a JSON value can be a number of rows or of an episode."""
    return type(value) is int and 0 <= value < MOST


def check_part(part: Any, columns: Mapping[str, Column], where: str, cure: str = CURE) -> None:
    """Refuse what cannot be an episode's place and checksums."""
    if not isinstance(part, dict):
        raise UserError(f"{where} is not an object", cure)
    for field in ("start", "length"):
        if not is_count(part.get(field)):
            raise UserError(f"{where}.{field} is {str(part.get(field))[:60]}", cure)
    digests = part.get("digests")
    if not isinstance(digests, dict) or digests.keys() != columns.keys():
        raise UserError(f"{where}.digests does not name the columns", cure)
    if not all(isinstance(digest, str) for digest in digests.values()):
        raise UserError(f"{where}.digests holds something else than checksums", cure)
    for field in part.keys() & FACTS.keys():
        if type(part[field]) is not FACTS[field]:
            raise UserError(f"{where}.{field} is {str(part[field])[:60]}", cure)
    for field in NUMBERS:
        if part.get(field) is not None and type(part[field]) not in (int, float):
            raise UserError(f"{where}.{field} is {str(part[field])[:60]}", cure)


def read_places(
    parts: Any, columns: Mapping[str, Column], file: Path, cure: str = CURE
) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n"]]:
    """Where the episodes start and how long they are; none may lie in another."""
    if not isinstance(parts, Sequence) or isinstance(parts, str) or not parts:
        raise UserError(f"{file}: episodes is not a list of episodes", cure)
    for index, part in enumerate(parts):
        check_part(part, columns, f"{file}: episodes.{index}", cure)
    starts, lengths = (np.array([part[field] for part in parts], np.int64) for field in ("start", "length"))
    order = np.lexsort((lengths, starts))
    torn = np.flatnonzero((starts + lengths)[order][:-1] > starts[order][1:])
    if len(torn):
        first, second = order[torn[0]], order[torn[0] + 1]
        raise UserError(f"{file}: episodes {first} and {second} lie in the same rows", cure)
    if not lengths.any() or (starts + lengths).max() >= MOST:
        raise UserError(f"{file}: the episodes have {(starts + lengths).max()} rows", cure)
    return starts, lengths
