"""Action labels of videos: a .csv or .npz file that names frames of the sources.

Axes: n labelled frames, a action values.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import UserError, digest_file, read_arrays

Labels = tuple[np.ndarray, np.ndarray]
"""Numbers of the labelled frames int64 [n], and their actions float32 [n, a]."""


@dataclass(frozen=True)
class Actions:
    names: tuple[str, ...]
    """One for each action value."""
    digest: str
    """Names the file's content, so that an import is not continued with other labels."""
    labels: dict[str, Labels]
    """By source name."""

    def rows(self, name: str, kept: tuple[int, ...]) -> dict[str, np.ndarray]:
        """The action columns of an episode that keeps some of a source's frames; without a label they are 0."""
        actions, mask = np.zeros((len(kept), len(self.names)), np.float32), np.zeros(len(kept), bool)
        if name in self.labels:
            frames, values = self.labels[name]
            _, places, rows = np.intersect1d(kept, frames, assume_unique=True, return_indices=True)
            actions[places], mask[places] = values[rows], True
        return {"actions": actions, "action_mask": mask}

    def check_frames(self, name: str, count: int) -> None:
        """Refuse labels of frames that a source does not have."""
        last = self.labels[name][0].max(initial=-1) if name in self.labels else -1
        if last >= count:
            raise UserError(
                f"the actions file labels frame {last} of {name}, which has {count} frames",
                "frames count from 0; correct the file and import into a new folder",
            )


def read_actions(path: Path, aliases: list[tuple[str, str, str]]) -> Actions:
    """Read an actions file and match its videos with the sources; `aliases` has each one's names, its own first."""
    readers = {".csv": _read_csv, ".npz": _read_npz}
    if path.suffix.lower() not in readers:
        raise UserError(f"{path} is no actions file", "give a .csv or .npz")
    try:
        digest = digest_file(path)
        names, tables = readers[path.suffix.lower()](path)
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{path} cannot be read", str(error)) from None
    known: dict[str, list[str]] = {}
    for level in (2, 1, 0):  # a source's own name hides the same short name of another
        group: dict[str, list[str]] = {}
        for called in aliases:
            group.setdefault(called[level], []).append(called[0])
        known |= group
    labels: dict[str, Labels] = {}
    for video, table in tables.items():
        if not (matches := known.get(video)):
            raise UserError(f"{path} names {video!r}, which is not here", f"use names such as {aliases[0][0]!r}")
        if len(matches) > 1 or matches[0] in labels:
            raise UserError(f"{path}: {video!r} is ambiguous", f"call {matches[0]!r} by its full name, and only so")
        labels[matches[0]] = table
    return Actions(names, digest, labels)


def _read_csv(path: Path) -> tuple[tuple[str, ...], dict[str, Labels]]:
    rows: dict[str, dict[int, list[float]]] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        header = [field.strip() for field in next(reader, [])]
        if header[:2] != ["video", "frame"] or len(header) < 3:
            raise UserError(f"{path} begins with {','.join(header)!r}", "its first line must be video,frame,NAME,...")
        for cells in filter(None, reader):
            where = f"{path} line {reader.line_num}"
            if len(cells) != len(header):
                raise UserError(f"{where} has {len(cells)} cells", f"the header has {len(header)}")
            video = rows.setdefault(cells[0].strip(), {})
            frame = _number(int, cells[1], f"{where}: frame", "count frames 0, 1, 2, ...")
            if frame < 0 or frame in video:
                raise UserError(f"{where}: frame {frame} is negative or repeated", "label each frame once, from 0")
            if frame >= 2**53:
                raise UserError(f"{where}: no video has a frame {frame}", "count frames 0, 1, 2, ...")
            cure = "give a finite number, or leave the line out if the frame has no label"
            pairs = zip(header[2:], cells[2:], strict=True)
            video[frame] = [_number(np.float32, cell, f"{where}: {name}", cure) for name, cell in pairs]
    if not rows:
        raise UserError(f"{path} labels no frame", "add a line for each labelled frame")
    return tuple(header[2:]), {
        video: (np.array(list(table), np.int64), np.array(list(table.values()), np.float32))
        for video, table in rows.items()
    }


def _number(kind: Any, cell: str, where: str, cure: str) -> Any:
    try:
        with np.errstate(over="ignore"):
            number = kind(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{where} is {cell.strip()!r}", cure)
    return number


def _read_npz(path: Path) -> tuple[tuple[str, ...], dict[str, Labels]]:
    tables: dict[str, Labels] = {}
    width = 0
    for video, table in read_arrays(path).items():
        where = f"{path}: array {video!r}"
        if table.ndim != 2 or table.dtype.kind not in "fiu" or not table.shape[1]:
            raise UserError(f"{where} is {table.dtype}{list(table.shape)}", "expected numbers [frames, actions]")
        if width not in (0, table.shape[1]):
            raise UserError(f"{where} has {table.shape[1]} action values", f"those before it have {width}")
        width = table.shape[1]
        with np.errstate(over="ignore"):
            table = table.astype(np.float32)
        frames = np.flatnonzero(~np.isnan(table).all(axis=1))
        if len(bad := frames[~np.isfinite(table[frames]).all(axis=1)]):
            raise UserError(f"{where} row {bad[0]} is not finite", "only whole rows of NaN mean 'no label'")
        tables[video] = (frames, table[frames])
    if not width:
        raise UserError(f"{path} has no arrays", "save one array [frames, actions] under each video's name")
    return tuple(f"action{index}" for index in range(width)), tables
