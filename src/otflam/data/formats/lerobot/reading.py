"""A LeRobot folder becomes a store, or one for each camera; an interrupted import continues.

Axes: t frames, size pixels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from otflam.core import Progress, UserError, digest_file, to_json, versions
from otflam.data.decoding import LOSSY_NOTE, fit_square
from otflam.data.formats.lerobot import LeRobotImport
from otflam.data.formats.lerobot.films import Shown, frames_at, picture
from otflam.data.formats.lerobot.layout import CURE, Feature, Folder, Trajectory, naming, numbers, read_table
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter, finished_store

Report = Callable[[str], None]


def import_lerobot(
    source: Path,
    out: Path,
    options: LeRobotImport,
    report: Report,
    progress: Progress,
) -> Store | list[Store]:
    """Turn a folder into one store, or into one for each camera; run again to continue an interrupted import."""
    if options.size < 1:
        raise UserError(f"--size {options.size}", "choose a number of pixels such as 64")
    folder = Folder(source)
    cameras = choose_cameras(folder, options.camera)
    if folder.left_out:
        report(f"left out, for they are no numbers that a data set holds: {', '.join(folder.left_out)}")
    if options.views == "tiled" or len(cameras) == 1:
        return import_views(folder, cameras, out, options, report, progress)
    plain = len({short_name(camera) for camera in cameras}) == len(cameras)
    names = [re.sub(r"[^A-Za-z0-9_-]", "-", short_name(camera) if plain else camera) for camera in cameras]
    parts = zip(cameras, names, strict=True)
    return [import_views(folder, [camera], out / name, options, report, progress) for camera, name in parts]


def short_name(camera: str) -> str:
    return camera.rpartition(".")[2]


def choose_cameras(folder: Folder, wanted: tuple[str, ...]) -> list[str]:
    """The cameras that were asked for, by their full names."""
    known = list(folder.cameras)
    if not known:
        raise UserError(f"{folder.path} has no camera", "latent actions are learned from pictures")
    chosen = []
    for name in wanted:
        found = [camera for camera in known if name in (camera, short_name(camera))]
        if len(found) != 1:
            problem = "is the name of several" if found else "is no camera here"
            raise UserError(f"--camera {name} {problem}", f"choose of {', '.join(found or known)}")
        chosen += found
    return list(dict.fromkeys(chosen)) or known


def import_views(
    folder: Folder,
    cameras: list[str],
    out: Path,
    options: LeRobotImport,
    report: Report,
    progress: Progress,
) -> Store:
    """One store, whose frames show one camera or tiles of several."""
    episodes = folder.episodes(cameras)
    if not 0 <= options.episodes <= len(episodes):
        raise UserError(f"--episodes {options.episodes}", f"{folder.path} has {len(episodes)}")
    episodes = episodes[: options.episodes or None]
    columns = {"frames": Column("uint8", (options.size, options.size, 3))}
    columns |= {name: feature.spec for name, feature in folder.features.items()}
    plan = to_json(options) | {"camera": cameras, "files": digests(folder, episodes, progress)}
    if (store := finished_store(out, plan)) is not None:
        return store
    writer = StoreWriter(out, columns, plan, lock=True)
    reader, bar = Reader(folder, cameras, options), progress.part(f"import {', '.join(map(short_name, cameras))}")
    parts = writer.append_missing(len(episodes), lambda place: reader.read(episodes[place]), bar)
    codecs = {part["codec"] for part in parts.values() if part["lossy"]}
    if codecs:
        report(f"{', '.join(map(short_name, cameras))}: lossy films ({', '.join(sorted(codecs))}): {LOSSY_NOTE}")
    return writer.finish(about(folder, cameras), len(episodes))


def digests(folder: Folder, episodes: list[Trajectory], progress: Progress) -> list[list[Any]]:
    """Every file that is read, with its size and a digest of its content."""
    meta = [file for file in (folder.path / "meta").rglob("*") if file.is_file()]
    films = [file for episode in episodes for file, _ in episode.films.values()]
    files = sorted({*meta, *films, *(episode.table for episode in episodes)})
    progress.part(f"read {folder.path}", "bytes").start(0, sum(file.stat().st_size for file in files))
    return [
        [file.relative_to(folder.path).as_posix(), file.stat().st_size, digest_file(file, progress)] for file in files
    ]


def about(folder: Folder, cameras: list[str]) -> dict[str, Any]:
    """What the store says of where it is from."""
    features, choices = folder.features, folder.facts.get("action_choices")
    facts: dict[str, Any] = {
        "kind": "lerobot",
        "lerobot": folder.version,
        "camera": cameras[0] if len(cameras) == 1 else cameras,
        "features": {name: feature.key for name, feature in features.items()},
        "names": {name: list(feature.names) for name, feature in features.items() if feature.names},
        "tasks": folder.tasks,
        "fps": folder.fps,
        "robot": folder.info.get("robot_type"),
        "versions": versions("av", "numpy", "pillow", "pyarrow"),
    }
    if "actions" in features and features["actions"].names:
        facts["action_names"] = facts["names"]["actions"]
    if type(choices) is int and choices > 1 and "actions" in features:
        facts["action_choices"] = choices
    return facts


@dataclass
class Reader:
    """Reads episodes one after the other, and each table of many episodes once."""

    folder: Folder
    cameras: list[str]
    options: LeRobotImport
    _file: Path | None = None
    _table: Any = None

    def read(self, episode: Trajectory) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The rows of an episode, and what is known of it."""
        features, file = self.folder.features, episode.table
        table = self.table(episode, ["timestamp", *(feature.key for feature in features.values())])
        rows = {name: self.column(table, feature, episode, file) for name, feature in features.items()}
        times = numbers(table, "timestamp", Column("float64", ()), file)
        if not np.isfinite(times).all() or (np.diff(times) <= 0).any():
            raise UserError(f"{file}: timestamps of episode {episode.index} do not rise", CURE)
        pixels, first = self.frames(episode, times)
        info: dict[str, Any] = {"source": f"episode_{episode.index:06d}", "fps": float(self.folder.fps)}
        info |= {"tasks": list(episode.tasks), "codec": first.codec, "lossy": first.lossy}
        return {"frames": pixels, **rows}, info | {"source_size": first.image.size}

    def table(self, episode: Trajectory, columns: list[str]) -> Any:
        """The rows of an episode."""
        if self._file != episode.table:
            with naming(episode.table):
                both = {*columns, *(["episode_index"] if self.folder.version == "v3.0" else [])}
                self._table, self._file = read_table(episode.table, sorted(both)), episode.table
        table = self._table
        if "episode_index" in table.column_names:
            owners = numbers(table, "episode_index", Column("int64", ()), episode.table)
            mine = np.flatnonzero(owners == episode.index)
            if len(mine) and mine[-1] - mine[0] + 1 != len(mine):
                raise UserError(f"{episode.table}: the rows of episode {episode.index} lie apart", CURE)
            table = table.slice(int(mine[0]) if len(mine) else 0, len(mine))
        if table.num_rows != episode.length:
            problem = f"{episode.table} has {table.num_rows} rows of episode {episode.index}, not {episode.length}"
            raise UserError(problem, CURE)
        return table

    def column(self, table: Any, feature: Feature, episode: Trajectory, file: Path) -> np.ndarray:
        """The numbers of a feature; the store wants them finite."""
        rows = numbers(table, feature.key, feature.spec, file)
        if rows.dtype.kind == "f" and not np.isfinite(rows).all():
            problem = f"{file}: {feature.key} of episode {episode.index} has a number that is not finite"
            raise UserError(problem, "leave the episode or the feature out")
        return rows

    def frames(self, episode: Trajectory, times: np.ndarray) -> tuple[UInt8[np.ndarray, "t size size 3"], Shown]:
        """What the cameras show, one or as tiles; and a frame as its source has it."""
        size = self.options.size
        across = math.ceil(math.sqrt(len(self.cameras)))
        side = size // across
        if not side:
            raise UserError(f"--size {size} for tiles of {len(self.cameras)} cameras", f"choose at least {across}")
        pixels, last = np.zeros((len(times), size, size, 3), np.uint8), None
        for place, camera in enumerate(self.cameras):
            top, left = (number * side for number in divmod(place, across))
            for row, shown in enumerate(self.shown(episode, camera, times)):
                square = fit_square(shown.image, side, self.options.fit)
                pixels[row, top : top + side, left : left + side] = square
                last = shown if last is None or shown.lossy else last
        if last is None:
            raise ValueError("an episode without frames")
        return pixels, last

    def shown(self, episode: Trajectory, camera: str, times: np.ndarray) -> Any:
        """The frames of one camera."""
        if camera in episode.films:
            file, start = episode.films[camera]
            return frames_at(file, start + times, 0.5 / self.folder.fps)
        own = episode.index if self.folder.version == "v3.0" else None
        table = read_table(episode.table, [camera], own)  # of this episode only: pictures are large
        if table.num_rows != len(times):
            raise UserError(f"{episode.table} has {table.num_rows} pictures of episode {episode.index}", CURE)
        cells = (value for chunk in table.column(camera).chunks for value in chunk)
        where = f"{episode.table}: {camera} of episode {episode.index}"
        return (picture(_bytes(cell), f"{where} in row {row}") for row, cell in enumerate(cells))


def _bytes(cell: Any) -> bytes | None:
    """What lies in a cell of a picture: its file, beside the name of it."""
    value = cell.as_py()
    value = value.get("bytes") if isinstance(value, dict) else value
    return value if isinstance(value, bytes) else None
