"""Packed files, read without more memory than they may ask for: a few bytes can unpack to any number of them."""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np

from otflam.core import UserError

LARGEST = 1 << 30
"""Bytes that a file may have when unpacked: the labels of a million frames, or twenty times MNIST."""
BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError, KeyError),
    *(NotImplementedError, RuntimeError, MemoryError, OverflowError, TypeError, SyntaxError),
)
"""What zipfile and numpy raise over damaged archives; a header that promises too much ends in a MemoryError."""


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file, or one line that says what is wrong with it; nothing in it is executed."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            size = sum(entry.file_size for entry in entries)
            if size > LARGEST:
                problem = f"{path} unpacks to {size / 1e9:,.1f} GB"
                raise UserError(problem, f"arrays of at most {LARGEST / 1e9:.1f} GB are read")
            return {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}
    except BROKEN as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{path} cannot be read as .npz ({reason})", "restore it or write it with numpy.savez"
        ) from None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    # Whole, so that the checksum is compared before anything in it is believed.
    return np.lib.format.read_array(io.BytesIO(archive.read(entry)), allow_pickle=False)


def read_bytes(path: Path) -> bytes:
    """A file's bytes, unpacked if its name ends in .gz."""
    if path.suffix != ".gz":
        return path.read_bytes()
    with gzip.open(path) as stream:
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise UserError(f"{path} unpacks to more than {LARGEST / 1e9:.1f} GB", "it holds no digits: name another file")
    return data
