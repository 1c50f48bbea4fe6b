"""Import own videos: files that ffmpeg reads, and folders of image frames, become episodes of a store.

Codecs matter because a latent action is read from small changes between frames, and lossy codecs change exactly those.
Action labels come from a .csv or .npz file that names frames of the sources.

Axes: n labelled frames, a action values.
"""

from __future__ import annotations

import csv
import logging
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import SILENT, Progress, UserError, digest_file, digest_files, read_arrays, to_json, versions
from otflam.data.decoding import IMAGES, LOSSY_NOTE, UnusableVideoError, decode_video, list_images, natural_key
from otflam.data.options import VideoImport
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter, finished_store, tidy

LOG = logging.getLogger(__name__)
Labels = tuple[np.ndarray, np.ndarray]
"""Numbers of the labelled frames int64 [n], and their actions float32 [n, a]."""


@dataclass(frozen=True)
class Source:
    name: str
    """Relative to the imported folder, with forward slashes."""
    path: Path
    bytes: int

    def digest(self, progress: Progress) -> str | None:
        """Names its content; none if it cannot be read, which is told when its turn comes."""
        try:
            if not self.path.is_dir():
                return digest_file(self.path, progress)
            return digest_files(((file.name, file) for file in list_images(self.path)), progress)
        except OSError:
            return None

    @property
    def aliases(self) -> tuple[str, str, str]:
        """Names by which an actions file may call this source, the most exact first."""
        bare = self.name if self.path.is_dir() else self.name.removesuffix(self.path.suffix)
        return self.name, bare, bare.rpartition("/")[2]


def import_videos(
    folder: Path,
    out: Path,
    config: VideoImport,
    report: Callable[[str], None] = LOG.warning,
    progress: Progress = SILENT,
) -> Store:
    """Turn every video and image folder under `folder` into an episode; run again to continue an interrupted import."""
    _check(config)
    sources = find_sources(folder, out, config)
    actions = read_actions(Path(config.actions), [source.aliases for source in sources]) if config.actions else None
    columns = {"frames": Column("uint8", (config.size, config.size, 3))}
    if actions:
        columns |= {"actions": Column("float32", (len(actions.names),)), "action_mask": Column("bool", ())}
    progress.part(f"read {folder}", "bytes").start(0, sum(source.bytes for source in sources))
    files = [[source.name, source.bytes, source.digest(progress)] for source in sources]
    digest = actions.digest if actions else None
    plan = {**to_json(config), "files": files, "actions_digest": digest}
    if (store := finished_store(out, plan)) is not None:
        return store
    writer = StoreWriter(out, columns, plan, lock=True)
    writer.drop_damaged()
    skipped = _import_all(sources, writer, config, actions, report, progress.part(f"import {folder}", "bytes"))
    if not (episodes := writer.done()):
        tidy(out)  # the plan of an import that gave nothing would stop the next one
        for column in columns:
            (out / f"{column}.npy").unlink()
        out.rmdir()
        raise UserError(f"nothing under {folder} can be imported", f"{skipped[0]['source']}: {skipped[0]['reason']}")
    if lossy := [episode for episode in episodes.values() if episode["lossy"]]:
        codecs = ", ".join(sorted({episode["codec"] for episode in lossy}))
        report(f"{len(lossy)} of {len(episodes)} episodes come from lossy sources ({codecs}): {LOSSY_NOTE}")
    names = list(actions.names) if actions else None
    extra = {"kind": "videos", "skipped": skipped, "action_names": names, "versions": versions("av", "numpy", "pillow")}
    return writer.finish(extra, len(sources) - len(skipped))


def _import_all(
    sources: list[Source],
    writer: StoreWriter,
    config: VideoImport,
    actions: Actions | None,
    report: Callable[[str], None],
    progress: Progress,
) -> list[dict[str, str]]:
    """Write the episodes that are missing, and say which sources cannot become one."""
    done, skipped, total = writer.done(), [], sum(source.bytes for source in sources)
    ends = list(accumulate(source.bytes for source in sources))
    progress.start(0, total)
    for index, (source, end) in enumerate(zip(sources, ends, strict=True)):
        if index not in done:
            try:
                frames, facts = decode_video(source.path, config, source.bytes, progress)
            except UnusableVideoError as error:
                skipped.append({"source": source.name, "reason": error.reason})
                report(f"skipped {source.name}: {error.reason}")
            else:
                if facts.missing:
                    report(f"{source.name}: {facts.missing} frames are missing: it is damaged or of variable rate")
                labels = actions.rows(source.name, facts.source_frames, facts.kept) if actions else {}
                info: dict[str, Any] = {"source": source.name, "codec": facts.codec, "lossy": facts.lossy}
                info |= {"source_size": facts.source_size, "source_fps": facts.fps, "fps": config.fps or facts.fps}
                writer.append(index, {"frames": frames, **labels}, info)
        progress.reach(end, total)
    return skipped


def _check(config: VideoImport) -> None:
    if config.size < 1:
        raise UserError(f"size is {config.size}", "choose a number of pixels such as 64")
    if config.min_frames < 2:
        raise UserError(f"min-frames is {config.min_frames}", "a transition needs at least 2")
    if config.fps is not None and not 0 < config.fps < math.inf:
        raise UserError(f"fps is {config.fps}", "choose a positive rate such as 15")


def find_sources(folder: Path, out: Path, config: VideoImport) -> list[Source]:
    """Every video file and every folder of images under `folder` (or the one file it is), in natural order."""
    if folder.is_file():
        return [Source(folder.name, folder, folder.stat().st_size)]
    if not folder.is_dir():
        raise UserError(f"{folder} does not exist", "give a folder of videos or image folders, or one video file")
    ignored = {out.resolve(), Path(config.actions).resolve() if config.actions else None}
    found: list[Source] = []
    for parent, folders, names in os.walk(folder.resolve()):
        here = Path(parent)
        folders[:] = [name for name in folders if not name.startswith(".") and here / name not in ignored]
        paths = [here / name for name in names if not name.startswith(".") and here / name not in ignored]
        files = [path for path in paths if path.is_file()]  # broken links and pipes are none
        images = [file for file in files if file.suffix.lower() in IMAGES]
        for path in [*(set(files) - set(images)), *([here] if images else [])]:
            relative = path.relative_to(folder.resolve()).as_posix()
            size = sum(file.stat().st_size for file in images) if path == here else path.stat().st_size
            found.append(Source(here.name if relative == "." else relative, path, size))
    if not found:
        raise UserError(f"no videos or image folders under {folder}", "is this the right folder?")
    return sorted(found, key=lambda source: natural_key(source.name))


@dataclass(frozen=True)
class Actions:
    names: tuple[str, ...]
    """One for each action value."""
    digest: str
    """Names the file's content, so that an import is not continued with other labels."""
    labels: dict[str, Labels]
    """By source name."""

    def rows(self, name: str, count: int, kept: tuple[int, ...]) -> dict[str, np.ndarray]:
        """The action columns of an episode that keeps some of a source's `count` frames; without a label they are 0."""
        actions, mask = np.zeros((count, len(self.names)), np.float32), np.zeros(count, bool)
        if name in self.labels:
            frames, values = self.labels[name]
            if frames.max(initial=-1) >= count:
                raise UserError(
                    f"the actions file labels frame {frames.max()} of {name}, which has {count} frames",
                    "frames count from 0; correct the file and import into a new folder",
                )
            actions[frames], mask[frames] = values, True
        return {"actions": actions[list(kept)], "action_mask": mask[list(kept)]}


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
