"""Episodes on disk: one contiguous memory-mapped array per column, an episode index, and checksums.

    DIR/meta.json       what is inside, how it was made, where each episode lies, its checksums; written last
    DIR/frames.npy      uint8 [rows, height, width, channels]; every column is a plain .npy file
    DIR/parts.jsonl     only while being written: one line for each finished episode

Frames are stored height-width-channel because `tensor.permute` then *is* torch's channels_last, the fast layout for
convolutions on a CPU: no copy is made (docs/decisions.md has the measurement).
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core.config import stable_hash
from otflam.core.errors import UserError
from otflam.core.files import read_json

FORMAT, VERSION = "otflam-store", 1
HEADER = 128
"""Bytes of .npy header before the first row: numpy pads the headers of small arrays to exactly this."""
CHUNK = 1 << 24


@dataclass(frozen=True)
class Column:
    dtype: str
    """numpy's name of the element type."""
    shape: tuple[int, ...]
    """Shape of one row."""

    @property
    def row_bytes(self) -> int:
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape, dtype=np.int64))

    def header(self, rows: int) -> bytes:
        buffer = io.BytesIO()
        fields = {"descr": np.dtype(self.dtype).str, "fortran_order": False, "shape": (rows, *self.shape)}
        np.lib.format.write_array_header_1_0(buffer, fields)
        if len(buffer.getvalue()) != HEADER:
            raise ValueError(f"a row shape {self.shape} does not fit a {HEADER}-byte header")
        return buffer.getvalue()


class Store:
    """A finished data set, read through memory maps; opening it reads only `meta.json`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise UserError(f"no data set at {self.path}", "make one with 'otflam collect' or 'otflam data import'")
        if not (self.path / "meta.json").exists() and (self.path / "plan.json").exists():
            raise UserError(f"{self.path} is not finished", "run the command that was making it again to continue")
        meta = read_json(self.path / "meta.json", "this folder is not an otflam data set")
        if not isinstance(meta, dict) or meta.get("format") != FORMAT:
            raise UserError(f"{self.path} is not an otflam data set", "see 'otflam data import --help'")
        if meta.get("version") != VERSION:
            raise UserError(
                f"{self.path} is a store of version {meta.get('version')}, this otflam reads version {VERSION}",
                "collect or import it again, or install the otflam that wrote it",
            )
        if meta.get("digest") != stable_hash({key: meta[key] for key in meta if key != "digest"}):
            raise UserError(f"{self.path / 'meta.json'} was altered", "restore it or make the data set again")
        self.meta: dict[str, Any] = meta
        self.columns = {name: Column(c["dtype"], tuple(c["shape"])) for name, c in meta["columns"].items()}
        self.episodes: list[dict[str, Any]] = meta["episodes"]
        self.starts = np.array([episode["start"] for episode in self.episodes], np.int64)
        self.lengths = np.array([episode["length"] for episode in self.episodes], np.int64)
        self.rows = int((self.starts + self.lengths).max())
        self._maps: dict[str, np.ndarray] = {}

    @property
    def hash(self) -> str:
        """Names the content: equal data have equal hashes, whoever wrote them and wherever they lie."""
        return self.meta["hash"]

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration that made this data set."""
        return self.meta["config"]

    def __len__(self) -> int:
        return len(self.episodes)

    def __getitem__(self, column: str) -> np.ndarray:
        """A column over all episodes, memory-mapped: [rows, ...]."""
        if column not in self._maps:
            if column not in self.columns:
                raise UserError(f"{self.path} has no column {column!r}", f"it has {', '.join(self.columns)}")
            spec, file = self.columns[column], self.path / f"{column}.npy"
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
            self._maps[column] = np.memmap(file, spec.dtype, "r", HEADER, (self.rows, *spec.shape))
        return self._maps[column]

    @property
    def places(self) -> dict[int, int]:
        """Where each episode lies, by its number in the data set that this was derived from."""
        return {entry.get("episode", place): place for place, entry in enumerate(self.episodes)}

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def episode(self, index: int, column: str) -> np.ndarray:
        """One episode's rows of a column."""
        start = self.starts[index]
        return self[column][start : start + self.lengths[index]]

    def check(self, on_episode: Any = None) -> None:
        """Read everything and compare it with the checksums; the first file that differs is named."""
        for name in self.columns:
            self[name]
        for index, episode in enumerate(self.episodes):
            for name, spec in self.columns.items():
                file = self.path / f"{name}.npy"
                if digest_rows(file, spec, episode["start"], episode["length"]) != episode["digests"][name]:
                    raise UserError(
                        f"{file} was altered in episode {index} (rows {episode['start']} to "
                        f"{episode['start'] + episode['length'] - 1})",
                        "restore it or make the data set again",
                    )
            if on_episode:
                on_episode(index)


def digest(data: Any) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def digest_rows(file: Path, spec: Column, start: int, length: int) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with file.open("rb") as stream:
        stream.seek(HEADER + start * spec.row_bytes)
        left = length * spec.row_bytes
        while left and (block := stream.read(min(CHUNK, left))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()
