"""Writing a store episode by episode, from one process or many, so that any interruption can be continued."""

from __future__ import annotations

import errno
import json
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import (
    LOCK,
    READ_ONLY,
    SILENT,
    Progress,
    UserError,
    clear_temporary,
    disk_errors,
    lock_folder,
    parse_json,
    read_json,
    to_json,
    write_json,
)
from otflam.data.store import (
    FORMAT,
    HEADER,
    VERSION,
    Column,
    Store,
    check_part,
    content_hash,
    digest,
    digest_rows,
    is_count,
    plain_hash,
    read_columns,
    read_places,
)

JOURNAL = "parts.jsonl"
"""One line for each finished episode, while a store is being written."""
AGAIN = "delete the folder and start again"


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
    for left in [path / name for name in ("plan.json", JOURNAL, LOCK) if (path / name).exists()]:
        try:
            left.unlink(missing_ok=True)
        except OSError as error:
            if error.errno not in READ_ONLY:  # a finished store is of use where nobody may write
                raise


def take_folder(path: Path, plan: dict[str, Any], lock: bool) -> int | None:
    """Begin a store in a folder, or go on with what was begun; closing what a `lock` returns gives it back."""
    refuse_finished(path)
    path.mkdir(parents=True, exist_ok=True)
    held = lock_folder(path) if lock else None
    try:
        if lock:
            refuse_finished(path)  # now for sure: another writer may just have finished
            clear_temporary(path)
        if (path / "plan.json").exists():
            refuse_others(path, plan)
        elif any(entry.name != LOCK for entry in path.iterdir()):
            raise UserError(f"{path} is not empty", "choose another folder")
        else:
            write_json(path / "plan.json", plan)
    except BaseException:
        if held is not None:
            os.close(held)
        raise
    return held


def refuse_finished(path: Path) -> None:
    if (path / "meta.json").exists():
        raise UserError(f"{path} already holds a data set", "choose another folder or delete this one")


def refuse_others(path: Path, plan: dict[str, Any]) -> None:
    """Go on only with what was begun with the same settings; where episodes lie is in the journal."""
    begun = read_json(path / "plan.json", AGAIN)
    if not isinstance(begun, dict) or not isinstance(begun.get("config"), dict):
        raise UserError(f"{path / 'plan.json'}: config is not an object", AGAIN)
    theirs, ours = begun["config"], plan["config"]
    if begun | {"slot": 0} != plan | {"slot": 0}:
        changed = sorted(key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key))
        changed = changed or (["shards"] if begun.get("shards") != plan.get("shards") else ["columns"])
        raise UserError(
            f"{path} was begun with other settings ({', '.join(changed)} differ)",
            "use the same ones to continue, or choose another folder",
        )


def write_meta(
    path: Path, columns: Any, episodes: list[dict[str, Any]], config: Any, extra: Mapping[str, Any]
) -> Store:
    """Say what a store holds, which finishes it, and open it."""
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "columns": columns,
        "episodes": episodes,
        "config": config,
        "hash": content_hash(columns, episodes),
        **to_json(dict(extra)),
    }
    write_json(path / "meta.json", {**meta, "digest": plain_hash(meta)})
    tidy(path)
    return Store(path)


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
        self.plan: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "config": to_json(config),
            "columns": to_json(self.columns),
            "slot": slot,
        }
        read_columns(self.plan["columns"], self.path, "name it otherwise")
        with disk_errors(self.path):
            held = take_folder(self.path, self.plan, lock)
            if held is not None:
                weakref.finalize(self, os.close, held)
            for name in (JOURNAL, *(f"{name}.npy" for name in self.columns)):
                (self.path / name).touch()

    def reserve(self, rows: int) -> None:
        """Ask the file system for the space of `rows` rows now, so that a full disk shows before any work is done."""
        for name, spec in self.columns.items():
            with disk_errors(self.path), (self.path / f"{name}.npy").open("r+b") as file:
                if hasattr(os, "posix_fallocate"):  # a Mac has none
                    os.posix_fallocate(file.fileno(), 0, max(HEADER + rows * spec.row_bytes, 1))

    def done(self) -> dict[int, dict[str, Any]]:
        """The finished episodes, by number."""
        parts: dict[int, dict[str, Any]] = {}
        for number, line in enumerate((self.path / JOURNAL).read_bytes().split(b"\n"), 1):
            if (entry := self._entry(line, f"{self.path / JOURNAL} line {number}")) is not None:
                parts[entry["index"]] = entry["part"]
        return {index: part for index, part in sorted(parts.items()) if part is not None}

    def _entry(self, line: bytes, where: str) -> dict[str, Any] | None:
        """What a line of the journal says, if it is whole: else its episode is not finished."""
        try:
            entry = parse_json(line)
        except ValueError:
            return None  # torn when its writer was killed
        if not isinstance(entry, dict) or not is_count(entry.get("index")) or "part" not in entry:
            raise UserError(f"{where} is not that of an episode", AGAIN)
        if "check" in entry and entry["check"] != _line_check(entry["index"], entry["part"]):
            return None  # altered; lines of earlier versions have no check
        if entry["part"] is not None:
            check_part(entry["part"], self.columns, f"{where}: part", AGAIN)
        return entry

    def drop_damaged(self, starts: Sequence[int] | np.ndarray | None = None) -> None:
        """Forget finished episodes whose bytes do not match their checksums (a machine that lost power, say), or that
        do not begin where `starts` says."""
        for index, part in self.done().items():
            elsewhere = starts is not None and (index >= len(starts) or part["start"] != starts[index])
            if elsewhere or not self._is_whole(part):
                self._record(index, None)

    def forget(self, index: int) -> None:
        """Take a finished episode back; its rows stay as a gap."""
        self._record(index, None)

    def _is_whole(self, part: dict[str, Any]) -> bool:
        return all(
            digest_rows(self.path / f"{name}.npy", spec, part["start"], part["length"]) == part["digests"][name]
            for name, spec in self.columns.items()
        )

    def _record(self, index: int, part: dict[str, Any] | None) -> None:
        """Append a line to the journal: one system call, so that parallel writers do not mix theirs."""
        entry = {"index": index, "part": part, "check": _line_check(index, part)}
        line = f"\n{json.dumps(entry, sort_keys=True)}\n".encode()  # a torn line before it ends here
        with disk_errors(self.path), (self.path / JOURNAL).open("ab", buffering=0) as file:
            if file.write(line) < len(line):
                raise OSError(errno.ENOSPC, "the disk is full")

    def write(
        self, index: int, columns: Mapping[str, np.ndarray], info: Mapping[str, Any], start: int | None = None
    ) -> None:
        """Store episode `index` in its own slot, or from row `start` on."""
        self._write(index, index * self.slot if start is None else start, columns, info)

    def append(self, index: int, columns: Mapping[str, np.ndarray], info: Mapping[str, Any]) -> None:
        """Store episode `index` behind the last one."""
        if self._end is None:
            self._end = max((part["start"] + part["length"] for part in self.done().values()), default=0)
        self._write(index, self._end, columns, info)
        self._end += len(next(iter(columns.values())))

    def append_missing(
        self,
        count: int,
        read: Callable[[int], tuple[Mapping[str, np.ndarray], Mapping[str, Any]]],
        progress: Progress = SILENT,
    ) -> dict[int, dict[str, Any]]:
        """Append those of so many episodes that an earlier run left undone; returns what is known of each."""
        self.drop_damaged()
        done = self.done()
        for index in range(count):
            if index not in done:
                self.append(index, *read(index))
            progress.reach(index + 1, count)
        return self.done()

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
            with disk_errors(self.path), (self.path / f"{name}.npy").open("r+b") as file:
                file.seek(HEADER + start * spec.row_bytes)
                file.write(rows.data)
                file.flush()
        part = {"start": start, "length": length, "digests": digests}
        if part.keys() & info.keys():
            raise ValueError(f"info of an episode must not hold {part.keys() & info.keys()}")
        try:
            json.dumps(facts := to_json(dict(info)), allow_nan=False)
        except ValueError:
            raise UserError(
                f"episode {index} has a non-finite number in its facts", "check where it came from"
            ) from None
        self._record(index, part | facts)

    def finish(self, extra: Mapping[str, Any], expected: int) -> Store:
        """Write headers and `meta.json`, and open the result; a slot whose episode ended early keeps a gap."""
        parts = list(self.done().values())
        if len(parts) != expected or not parts:
            raise UserError(
                f"{self.path} has {len(parts)} episodes instead of {expected}", "run the same command to continue"
            )
        starts, lengths = read_places(parts, self.columns, self.path / JOURNAL, AGAIN)
        rows = int((starts + lengths).max())
        for name, spec in self.columns.items():
            with disk_errors(self.path), (self.path / f"{name}.npy").open("r+b") as file:
                file.truncate(HEADER + rows * spec.row_bytes)
                file.write(spec.header(rows))
                file.flush()
                os.fsync(file.fileno())
        return write_meta(self.path, self.plan["columns"], parts, self.plan["config"], extra)


def _line_check(index: int, part: dict[str, Any] | None) -> str:
    """A checksum of a line of the journal."""
    return plain_hash([index, part])[:8]
