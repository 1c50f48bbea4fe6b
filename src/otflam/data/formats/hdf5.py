"""What formats in HDF5 share: opening files of strangers, and pictures in them.

h5py comes with `otflam[hdf5]` and is imported only when a file is touched. Axes: t frames, h w pixels.
"""

from __future__ import annotations

import io
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from otflam.core import UserError, open_image
from otflam.data.decoding import fit_square
from otflam.data.options import HDF5Import
from otflam.data.store import DTYPES

MAX_BYTES = 1 << 32
"""Bytes of one array of an episode, which is read whole."""


def load_h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise UserError("HDF5 files need h5py, which is not installed", "pip install 'otflam[hdf5]'") from None
    return h5py


@contextmanager
def reading(file: Path) -> Generator[None]:
    """Turn what h5py raises over a damaged file into one clear line."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise UserError(f"{file} is not a readable HDF5 file ({error})", "download or copy it again") from None


def is_array(item: Any) -> bool:
    """Whether an item of a file is an array of numbers that a store can hold."""
    return isinstance(item, load_h5py().Dataset) and item.shape is not None and item.dtype.name in DTYPES


def holds_pictures(item: Any) -> bool:
    """Whether an item of a file is pictures: bytes of pixels, or image files one after the other."""
    h5py = load_h5py()
    if not isinstance(item, h5py.Dataset) or item.shape is None:
        return False
    coded = item.ndim == 1 and h5py.check_vlen_dtype(item.dtype) == np.uint8
    return coded or (item.dtype == np.uint8 and item.ndim == 4 and bool({1, 3} & {item.shape[1], item.shape[3]}))


def choose_pictures(found: list[str], options: HDF5Import, file: Path) -> str:
    """The name of the pictures that are read."""
    if options.size is not None and options.size < 1:
        raise UserError(f"--size {options.size}", "choose a number of pixels such as 64")
    if options.frames is not None and options.frames not in found:
        raise UserError(f"--frames {options.frames} names no pictures in {file}", f"choose of {', '.join(found)}")
    if options.frames is None and len(found) != 1:
        cure = f"choose with --frames of {', '.join(found)}" if found else "latent actions are learned from pictures"
        raise UserError(f"{file} has {len(found) or 'no'} arrays of pictures", cure)
    return options.frames or found[0]


def read_pictures(item: Any, first: int, last: int, options: HDF5Import, file: Path) -> UInt8[np.ndarray, "t h w c"]:
    """Some of the pictures, square."""
    with reading(file):
        if item.ndim == 4 and (last - first) * np.prod(item.shape[1:], dtype=float) > MAX_BYTES:
            raise UserError(f"{file}: an episode is too large", f"at most {MAX_BYTES / 1e9:.1f} GB are read")
        rows = item[first:last]
        if item.ndim == 1:
            opened = [open_image(io.BytesIO(bytes(row))).convert("RGB") for row in rows]
            if len({image.size for image in opened}) != 1:
                raise UserError(f"{file} has pictures of several sizes", "give them one with another program")
            pixels = np.stack([np.asarray(image) for image in opened])
        else:
            pixels = rows if item.shape[3] in (1, 3) else rows.transpose(0, 2, 3, 1)
    if options.size is None and pixels.shape[1] != pixels.shape[2]:
        raise UserError(f"{file} has pictures of {pixels.shape[2]}×{pixels.shape[1]}", "make them square with --size")
    if options.size is None or pixels.shape[1:3] == (options.size, options.size):
        return np.ascontiguousarray(pixels)
    colours = pixels.repeat(3 // pixels.shape[3], 3)
    size, fit = options.size, options.fit
    return np.stack([fit_square(Image.fromarray(frame), size, fit) for frame in colours])[..., : pixels.shape[3]]
