"""Import own videos: files that ffmpeg reads, and folders of image frames, become episodes of a store.

Codecs matter because a latent action is read from small changes between frames, and lossy codecs change exactly those.
Shots become episodes of their own, and long ones are cut into parts.
"""

from __future__ import annotations

import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from otflam.core import SILENT, Progress, UserError, digest_file, digest_files, to_json, versions
from otflam.data.action_files import Actions, read_actions
from otflam.data.decoding import LOSSY_NOTE, decode_pieces
from otflam.data.options import VideoImport
from otflam.data.pictures import IMAGES, UnusableVideoError, VideoFacts, list_images, natural_key
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter, finished_store, tidy

LOG = logging.getLogger(__name__)
PIECES = 1 << 20
"""Pieces that a source may have: an episode's number while it is written tells its source and which piece it is."""
MAX_LISTED = 5
"""Rates that are told by name."""
SAME_RATE = 0.01
"""Share by which rates of sources that are meant to be the same may differ."""


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
    """Turn every shot of the videos and image folders under `folder` into episodes; run again to continue an
    interrupted import."""
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
    if (rates := mixed_rates(episodes.values())) is not None:
        report(rates)
    names = list(actions.names) if actions else None
    extra = {"kind": "videos", "skipped": skipped, "action_names": names, "versions": versions("av", "numpy", "pillow")}
    return writer.finish(extra, len(episodes))


def _import_all(
    sources: list[Source],
    writer: StoreWriter,
    config: VideoImport,
    actions: Actions | None,
    report: Callable[[str], None],
    progress: Progress,
) -> list[dict[str, str]]:
    """Write the episodes that are missing, and say which sources cannot become one."""
    done, skipped, total = _known_pieces(writer), [], sum(source.bytes for source in sources)
    ends = list(accumulate(source.bytes for source in sources))
    progress.start(0, total)
    for index, (source, end) in enumerate(zip(sources, ends, strict=True)):
        if not is_whole(known := done.get(index, {})):
            try:
                facts = _import_source(index, source, writer, config, actions, known, progress)
            except UnusableVideoError as error:
                for piece in _known_pieces(writer).get(index, {}):  # those before it broke
                    writer.forget(index * PIECES + piece)
                skipped.append({"source": source.name, "reason": error.reason})
                report(f"skipped {source.name}: {error.reason}")
            else:
                if facts.missing:
                    report(f"{source.name}: {facts.missing} frames are missing: it is damaged or of variable rate")
                if facts.dropped:
                    short = f"shots or parts shorter than {config.min_frames} frames"
                    report(f"{source.name}: {facts.dropped} frames are left out: they lie in {short}")
        progress.reach(end, total)
    return skipped


def _import_source(
    index: int,
    source: Source,
    writer: StoreWriter,
    config: VideoImport,
    actions: Actions | None,
    known: dict[int, dict[str, Any]],
    progress: Progress,
) -> VideoFacts:
    """Write the pieces of a source that are not known; the last one is told as such, for only then all are there."""

    for number, piece in enumerate(decode_pieces(source.path, config, source.bytes, progress)):
        labels = actions.rows(source.name, piece.kept) if actions else {}
        if piece.facts is not None and actions:
            actions.check_frames(source.name, piece.facts.source_frames)
        if number not in known:
            origin = piece.origin
            fps = float(origin.fps) if origin.fps else None
            info: dict[str, Any] = {"source": source.name, "codec": origin.codec, "lossy": origin.lossy}
            info |= {"source_size": origin.size, "source_fps": fps, "fps": config.fps or fps, "begin": piece.begin}
            info |= {"source_frame": piece.kept[0], "last": piece.facts is not None}
            writer.append(index * PIECES + number, {"frames": piece.frames, **labels}, info)
        if piece.facts is not None:
            return piece.facts
    raise AssertionError("the last piece of a source has its facts")


def _known_pieces(writer: StoreWriter) -> dict[int, dict[int, dict[str, Any]]]:
    """The finished episodes by source, and by which piece of it they are."""
    known: dict[int, dict[int, dict[str, Any]]] = {}
    for index, part in writer.done().items():
        known.setdefault(index // PIECES, {})[index % PIECES] = part
    return known


def is_whole(pieces: dict[int, dict[str, Any]]) -> bool:
    """Whether all pieces of a source are there."""
    return any(part.get("last") for part in pieces.values()) and len(pieces) == max(pieces) + 1


def mixed_rates(episodes: Iterable[dict[str, Any]]) -> str | None:
    """One line if the episodes have different rates: the same gap of frames is then not the same time."""
    found = Counter(episode["fps"] for episode in episodes if episode["fps"])
    if not found or max(found) <= (1 + SAME_RATE) * min(found):
        return None
    listed = ", ".join(f"{count} of {rate:g}" for rate, count in sorted(found.items())[:MAX_LISTED])
    more = f" and {len(found) - MAX_LISTED} other rates" if len(found) > MAX_LISTED else ""
    return (
        f"the episodes have different frame rates ({listed}{more} fps): one gap of frames is then not one time; "
        f"import them into a new folder with --fps {min(found):g}"
    )


def _check(config: VideoImport) -> None:
    if config.size < 1:
        raise UserError(f"size is {config.size}", "choose a number of pixels such as 64")
    if config.min_frames < 2:
        raise UserError(f"min-frames is {config.min_frames}", "a transition needs at least 2")
    if config.fps is not None and not 0 < config.fps < math.inf:
        raise UserError(f"fps is {config.fps}", "choose a positive rate such as 15")
    if config.split_seconds is not None and not 0 < config.split_seconds < math.inf:
        raise UserError(f"split-seconds is {config.split_seconds}", "choose a positive number of seconds such as 20")


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
