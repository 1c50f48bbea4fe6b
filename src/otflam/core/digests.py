"""What a file holds, as a short number: two files of one name and one size may differ."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from otflam.core.progress import SILENT, Progress

BLOCK = 1 << 22


def digest_file(file: Path, progress: Progress = SILENT) -> str:
    """BLAKE2 of all bytes of a file; a sample of them would not tell two recordings of one shape apart."""
    digest = hashlib.blake2b(digest_size=16)
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
            progress.advance(len(block))
    return digest.hexdigest()


def digest_files(files: Iterable[tuple[str, Path]], progress: Progress = SILENT) -> str:
    """One digest of named files in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for name, file in files:
        digest.update(os.fsencode(name) + b"\0" + bytes.fromhex(digest_file(file, progress)))
    return digest.hexdigest()
