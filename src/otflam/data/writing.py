"""Writing a store episode by episode, from one process or many, so that any interruption can be continued."""

from __future__ import annotations

import errno
import json
import os
import shutil
import weakref
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core.config import stable_hash, to_json
from otflam.core.errors import UserError
from otflam.core.files import LOCK, lock_folder, read_json, write_json
from otflam.data.store import FORMAT, HEADER, VERSION, Column, Store, digest, digest_rows

JOURNAL = "parts.jsonl"
"""One line for each finished episode, while a store is being written."""


def finished_store(path: Path, config: Any) -> Store | None:
    """The store at `path` if it is complete and was made with this configuration."""
    if not (path / "meta.json").exists():
        return None
    store = Store(path)
    if store.config != to_json(config):
        return None
    tidy(path)
    return store


def tidy(path: Path) -> None:
    """Remove what only an unfinished store needs; a writer killed while finishing may have left it."""
    for name in ("plan.json", JOURNAL, LOCK):
        (path / name).unlink(missing_ok=True)


class StoreWriter:
    """Writes a store episode by episode, from one process or many, and continues after any interruption.

    Parallel writers give every episode its own slot of `slot` rows (`write`); sequential ones append (`append`).
    An episode counts only once its line is in the journal, so a killed writer loses at most the episode it was writing.
    """

    def __init__(
        self, path: str | Path, columns: Mapping[str, Column], config: Any, *, slot: int = 0, lock: bool = False
    ) -> None:
        """`config` decides whether an unfinished folder may be continued: it must be the same. The process that will
        call `finish` takes the `lock`; its workers do not."""
        self.path, self.columns, self.slot = Path(path), dict(columns), slot
        self._end: int | None = None
        self.plan = {
            "format": FORMAT,
            "version": VERSION,
            "config": to_json(config),
            "columns": to_json(self.columns),
            "slot": slot,
        }
        self._refuse_finished()
        self.path.mkdir(parents=True, exist_ok=True)
        if lock:
            weakref.finalize(self, os.close, lock_folder(self.path))
            self._refuse_finished()  # now for sure: another writer may just have finished
        for torn in self.path.glob(".*.tmp") if lock else ():
            torn.unlink()  # of a writer that was killed
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
        elif any(entry.name != LOCK for entry in self.path.iterdir()):
            raise UserError(f"{self.path} is not empty", "choose another folder")
        else:
            write_json(self.path / "plan.json", self.plan)
        for name in (JOURNAL, *(f"{name}.npy" for name in self.columns)):
            (self.path / name).touch()

    def _refuse_finished(self) -> None:
        if (self.path / "meta.json").exists():
            raise UserError(f"{self.path} already holds a data set", "choose another folder or delete this one")

    def reserve(self, rows: int) -> None:
        """Ask the file system for the space of `rows` rows now, so that a full disk shows before any work is done."""
        for name, spec in self.columns.items():
            with _disk_errors(self.path), (self.path / f"{name}.npy").open("r+b") as file:
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
                if digest_rows(self.path / f"{name}.npy", spec, part["start"], part["length"]) != part["digests"][name]:
                    self._record(index, None)
                    break

    def _record(self, index: int, part: dict[str, Any] | None) -> None:
        """Append a line to the journal: one system call, so that parallel writers do not mix theirs."""
        line = (
            "\n" + json.dumps({"index": index, "part": part}, sort_keys=True) + "\n"
        )  # a torn line before it ends here
        with _disk_errors(self.path), (self.path / JOURNAL).open("ab", buffering=0) as file:
            if file.write(line.encode()) < len(line.encode()):
                raise OSError(errno.ENOSPC, "the disk is full")

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
            digests[name] = digest(rows.data)
            with _disk_errors(self.path), (self.path / f"{name}.npy").open("r+b") as file:
                file.seek(HEADER + start * spec.row_bytes)
                file.write(rows.data)
                file.flush()
        part = {"start": start, "length": length, "digests": digests}
        if part.keys() & info.keys():
            raise ValueError(f"info of an episode must not hold {part.keys() & info.keys()}")
        self._record(index, part | to_json(dict(info)))

    def finish(self, extra: Mapping[str, Any], expected: int) -> Store:
        """Write headers and `meta.json`, and open the result; a slot whose episode ended early keeps a gap."""
        parts = list(self.done().values())
        if len(parts) != expected or not parts:
            raise UserError(
                f"{self.path} has {len(parts)} episodes instead of {expected}", "run the same command to continue"
            )
        rows = max(part["start"] + part["length"] for part in parts)
        for name, spec in self.columns.items():
            with _disk_errors(self.path), (self.path / f"{name}.npy").open("r+b") as file:
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
        tidy(self.path)
        return Store(self.path)


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
