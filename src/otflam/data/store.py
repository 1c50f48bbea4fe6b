"""Episodes on disk: one contiguous memory-mapped array per column, an episode index, and checksums.

    DIR/meta.json       what is inside, how it was made, where each episode lies, its checksums; written last
    DIR/frames.npy      uint8 [rows, height, width, channels]; every column is a plain .npy file
    DIR/parts.jsonl     only while being written: one line for each finished episode

Frames are stored height-width-channel because `tensor.permute` then *is* torch's channels_last, the fast layout for
convolutions on a CPU: no copy is made (docs/decisions.md has the measurement).
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core.config import stable_hash, to_json
from otflam.core.errors import UserError
from otflam.core.files import read_json, write_json

FORMAT, VERSION, JOURNAL = "otflam-store", 1, "parts.jsonl"
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
        if meta.get("format") != FORMAT:
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
            array = np.load(file, mmap_mode="r", allow_pickle=False)
            if array.shape != (self.rows, *spec.shape) or array.dtype != np.dtype(spec.dtype):
                raise UserError(
                    f"{file} holds {array.dtype}{list(array.shape)}",
                    "it does not match meta.json; restore it or make the data set again",
                )
            self._maps[column] = array
        return self._maps[column]

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
                if _digest_rows(file, spec, episode["start"], episode["length"]) != episode["digests"][name]:
                    raise UserError(
                        f"{file} was altered in episode {index} (rows {episode['start']} to "
                        f"{episode['start'] + episode['length'] - 1})",
                        "restore it or make the data set again",
                    )
            if on_episode:
                on_episode(index)


class StoreWriter:
    """Writes a store episode by episode, from one process or many, and continues after any interruption.

    Parallel writers give every episode its own slot of `slot` rows (`write`); sequential ones append (`append`).
    An episode counts only once its line is in the journal, so a killed writer loses at most the episode it was writing.
    """

    def __init__(self, path: str | Path, columns: Mapping[str, Column], config: Any, *, slot: int = 0) -> None:
        """`config` decides whether an unfinished folder may be continued: it must be the same."""
        self.path, self.columns, self.slot = Path(path), dict(columns), slot
        self._end: int | None = None
        self.plan = {
            "format": FORMAT,
            "version": VERSION,
            "config": to_json(config),
            "columns": to_json(self.columns),
            "slot": slot,
        }
        if (self.path / "meta.json").exists():
            raise UserError(f"{self.path} already holds a data set", "choose another folder or delete this one")
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / "plan.json").exists():
            begun = read_json(self.path / "plan.json", "delete the folder and start again")
            if begun != self.plan:
                changed = sorted(
                    key
                    for key in {**begun["config"], **self.plan["config"]}
                    if begun["config"].get(key) != self.plan["config"].get(key)
                )
                raise UserError(
                    f"{self.path} was begun with other settings ({', '.join(changed) or 'columns'} differ)",
                    "use the same ones to continue, or choose another folder",
                )
        elif any(self.path.iterdir()):
            raise UserError(f"{self.path} is not empty", "choose another folder")
        else:
            write_json(self.path / "plan.json", self.plan)
        for name in (JOURNAL, *(f"{name}.npy" for name in self.columns)):
            (self.path / name).touch()

    def reserve(self, rows: int) -> None:
        """Ask the file system for the space of `rows` rows now, so that a full disk shows before any work is done."""
        for name, spec in self.columns.items():
            with (self.path / f"{name}.npy").open("r+b") as file, _disk_errors(self.path):
                os.posix_fallocate(file.fileno(), 0, max(HEADER + rows * spec.row_bytes, 1))

    def done(self) -> dict[int, dict[str, Any]]:
        """The finished episodes, by number."""
        parts: dict[int, dict[str, Any]] = {}
        for line in (self.path / JOURNAL).read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # torn when its writer was killed: that episode is not finished
            parts[entry["index"]] = entry["part"]
        return {index: part for index, part in sorted(parts.items()) if part is not None}

    def drop_damaged(self) -> None:
        """Forget finished episodes whose bytes do not match their checksums (a machine that lost power, say)."""
        for index, part in self.done().items():
            for name, spec in self.columns.items():
                if (
                    _digest_rows(self.path / f"{name}.npy", spec, part["start"], part["length"])
                    != part["digests"][name]
                ):
                    self._record(index, None)
                    break

    def _record(self, index: int, part: dict[str, Any] | None) -> None:
        """Append a line to the journal: one system call, so that parallel writers do not mix theirs."""
        line = (
            "\n" + json.dumps({"index": index, "part": part}, sort_keys=True) + "\n"
        )  # a torn line before it ends here
        with (self.path / JOURNAL).open("ab", buffering=0) as file, _disk_errors(self.path):
            file.write(line.encode())

    def write(self, index: int, columns: Mapping[str, np.ndarray], info: Mapping[str, Any]) -> None:
        """Store episode `index` in its own slot."""
        self._write(index, index * self.slot, columns, info)

    def append(self, index: int, columns: Mapping[str, np.ndarray], info: Mapping[str, Any]) -> None:
        """Store episode `index` behind the last one."""
        if self._end is None:
            self._end = max((part["start"] + part["length"] for part in self.done().values()), default=0)
        self._write(index, self._end, columns, info)
        self._end += len(next(iter(columns.values())))

    def _write(self, index: int, start: int, columns: Mapping[str, np.ndarray], info: Mapping[str, Any]) -> None:
        if columns.keys() != self.columns.keys():
            raise ValueError(f"columns disagree on {columns.keys() ^ self.columns.keys()}")
        (length,) = {len(rows) for rows in columns.values()}
        if self.slot and length > self.slot:
            raise ValueError(f"episode {index} has {length} rows, its slot only {self.slot}")
        digests = {}
        for name, spec in self.columns.items():
            rows = np.ascontiguousarray(columns[name])
            if rows.dtype != np.dtype(spec.dtype) or rows.shape[1:] != spec.shape:
                raise ValueError(f"column {name} is {rows.dtype}{rows.shape[1:]}, expected {spec}")
            if rows.dtype.kind == "f" and not np.isfinite(rows).all():
                raise UserError(
                    f"episode {index} has a non-finite value in column {name!r}",
                    "check the policy or file it came from",
                )
            digests[name] = _digest(rows.data)
            with (self.path / f"{name}.npy").open("r+b") as file, _disk_errors(self.path):
                file.seek(HEADER + start * spec.row_bytes)
                file.write(rows.data)
                file.flush()
        part = {"start": start, "length": length, "digests": digests}
        if part.keys() & info.keys():
            raise ValueError(f"info of an episode must not hold {part.keys() & info.keys()}")
        self._record(index, part | to_json(dict(info)))

    def finish(self, extra: Mapping[str, Any]) -> Store:
        """Write headers and `meta.json`, and open the result; a slot whose episode ended early keeps a gap."""
        parts = list(self.done().values())
        if not parts:
            raise UserError(f"{self.path} has no episodes", "nothing was collected or imported")
        rows = max(part["start"] + part["length"] for part in parts)
        for name, spec in self.columns.items():
            with (self.path / f"{name}.npy").open("r+b") as file, _disk_errors(self.path):
                file.truncate(HEADER + rows * spec.row_bytes)
                file.write(spec.header(rows))
                file.flush()
                os.fsync(file.fileno())
        content = {"columns": to_json(self.columns), "digests": [part["digests"] for part in parts]}
        meta = {
            "format": FORMAT,
            "version": VERSION,
            "columns": to_json(self.columns),
            "episodes": parts,
            "config": self.plan["config"],
            "hash": stable_hash(content),
            **to_json(dict(extra)),
        }
        write_json(self.path / "meta.json", {**meta, "digest": stable_hash(meta)})
        (self.path / "plan.json").unlink()
        (self.path / JOURNAL).unlink()
        return Store(self.path)


def _digest(data: Any) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _digest_rows(file: Path, spec: Column, start: int, length: int) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with file.open("rb") as stream:
        stream.seek(HEADER + start * spec.row_bytes)
        left = length * spec.row_bytes
        while left and (block := stream.read(min(CHUNK, left))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest()


@contextmanager
def _disk_errors(path: Path) -> Generator[None]:
    """Turn a full disk into one clear line; what was written before stays."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        free = shutil.disk_usage(path).free / 1e9
        raise UserError(
            f"no space left for {path} ({free:.2f} GB free)", "free some and run the same command to continue"
        ) from None
