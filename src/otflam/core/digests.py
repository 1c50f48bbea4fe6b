"""What a file holds, as a short number: two files of one name and one size may differ."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

BLOCK = 1 << 22
MEGABYTE = 10**6
Reached = Callable[[int, int], None]
"""Told how much of how much is done."""


def digest_file(file: Path, on_bytes: Callable[[int], None] = lambda count: None) -> str:
    """BLAKE2 of all bytes of a file; a sample of them would not tell two recordings of one shape apart."""
    digest = hashlib.blake2b(digest_size=16)
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
            on_bytes(len(block))
    return digest.hexdigest()


def digest_files(files: Iterable[tuple[str, Path]], on_bytes: Callable[[int], None] = lambda count: None) -> str:
    """One digest of named files in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for name, file in files:
        digest.update(os.fsencode(name) + b"\0" + bytes.fromhex(digest_file(file, on_bytes)))
    return digest.hexdigest()


def megabytes(total: int, reached: Reached) -> Callable[[int], None]:
    """Counts bytes and tells them in whole megabytes, which a reader can take in."""
    done, whole = 0, -(-total // MEGABYTE)

    def count(size: int) -> None:
        nonlocal done
        done += size
        reached(done // MEGABYTE, whole)

    return count
