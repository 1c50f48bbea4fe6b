"""A store becomes a LeRobot folder of version 3.0, with latent actions and codes beside the recorded numbers if wanted.

The folder is written under another name and gets its own when it is whole.

Axes: t frames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import Progress, UserError
from otflam.data.formats.exports import Beside, check_colours, new_folder, png, rate_of, tasks_of
from otflam.data.formats.lerobot import LeRobotExport
from otflam.data.formats.lerobot.features import COUNTED, Out, features_of, measure
from otflam.data.formats.lerobot.files import (
    CAMERA,
    DATA,
    EPISODES,
    FILMS,
    Files,
    Tables,
    as_cells,
    as_pictures,
    write_meta,
)
from otflam.data.formats.lerobot.films import CODECS, Film
from otflam.data.store import Store

BLOCK = 256
"""Episodes whose rows of meta/episodes are written at once."""


def export_lerobot(
    store: Store,
    out: Path,
    options: LeRobotExport,
    beside: Mapping[str, Beside],
    report: Callable[[str], None],
    progress: Progress,
) -> None:
    """Write a store as a folder that must be new."""
    _check(store, options, beside)
    with new_folder(out) as part:
        features = features_of(store, beside, options.action == "latent", report)
        Writer(store, part, options, features, rate_of(store, options.fps, report)).run(beside, report, progress)


def _check(store: Store, options: LeRobotExport, beside: Mapping[str, Beside]) -> None:
    check_colours(store, "LeRobot's")
    spec = store.columns["frames"]
    if options.video in ("h264", "av1") and any(side % 2 for side in spec.shape[:2]):
        raise UserError(f"--video {options.video} of frames {spec.shape[:2]}", "its sides must be even: take lossless")
    if options.action == "latent" and "latent" not in beside:
        raise UserError("--action latent without a model", "name one with --lam")
    if min(options.files_per_chunk, options.data_mb, options.video_mb) <= 0:
        raise UserError("--files-per-chunk, --data-mb and --video-mb", "give numbers above 0")


@dataclass
class Writer:
    """One export."""

    store: Store
    folder: Path
    options: LeRobotExport
    features: dict[str, Out]
    fps: Fraction
    tasks: list[str] = field(default_factory=list)
    stats: dict[str, list[Mapping[str, np.ndarray]]] = field(default_factory=dict)
    frames: int = 0
    episodes: int = 0

    def __post_init__(self) -> None:
        options, camera = self.options, self.store.meta.get("camera")
        told = camera if isinstance(camera, str) and self.store.meta.get("kind") == "lerobot" else CAMERA
        self.camera = told if options.camera is None else options.camera
        if "/" in self.camera or self.camera in (self.features.keys() | COUNTED.keys()):
            raise UserError(f"--camera {self.camera}", "choose another name, such as observation.images.top")
        if options.task is None and "task_index" in self.store and isinstance(self.store.meta.get("tasks"), list):
            self.tasks = list(map(str, self.store.meta["tasks"]))  # with the numbers that they have
        self.codec = CODECS.get(options.video)
        self.data = Tables(self.folder, DATA, Files(options.data_mb, options.files_per_chunk))
        self.about = Tables(self.folder, EPISODES, Files(options.data_mb, options.files_per_chunk))
        self.films, self.film = Files(options.video_mb, options.files_per_chunk), None

    def run(self, beside: Mapping[str, Beside], report: Callable[[str], None], progress: Progress) -> None:
        latent = beside["latent"] if self.options.action == "latent" else None
        bar, rows = progress.part(f"write {self.folder.name}"), []
        bar.start(0, len(self.store))
        try:
            for index in range(len(self.store)):
                last = int(self.store.lengths[index]) - (0 if latent is None else latent.ahead)
                if last > 0:
                    rows.append(self.episode(index, slice(0, last)))
                else:
                    report(f"episode {index} is left out: it is too short")
                if len(rows) == BLOCK:
                    self.tell(rows)
                    rows = []
                bar.reach(index + 1, len(self.store))
            if not self.episodes:
                raise UserError(f"{self.store.path} has no episode that is long enough", "record longer ones")
            self.tell(rows)
        finally:
            self.data.close()
            self.about.close()
            if self.film is not None:
                self.film.close()
        self.finish()

    def episode(self, index: int, chosen: slice) -> dict[str, Any]:
        """Write the frames of an episode, and return its row of meta/episodes."""
        frames = self.store.episode(index, "frames")[chosen]
        rows = {key: feature.rows(index)[chosen] for key, feature in self.features.items()}
        number, length, words = self.episodes, len(frames), tasks_of(self.store, index, self.options.task)[chosen]
        self.tasks += [word for word in dict.fromkeys(words) if word not in self.tasks]
        counted = {
            "timestamp": np.arange(length) / float(self.fps),
            "frame_index": np.arange(length),
            "episode_index": np.full(length, number),
            "index": np.arange(self.frames, self.frames + length),
            "task_index": np.array([self.tasks.index(word) for word in words]),
        }
        rows |= {key: values.astype(COUNTED[key]) for key, values in counted.items()}
        cells = {key: as_cells(values) for key, values in rows.items()}
        about = {
            "episode_index": number,
            "tasks": list(dict.fromkeys(words)),
            "length": length,
            "dataset_from_index": self.frames,
            "dataset_to_index": self.frames + length,
        }
        if self.codec is None:
            cells[self.camera] = as_pictures([png(frame) for frame in frames])
        else:
            about |= {f"videos/{self.camera}/{name}": value for name, value in self.append(frames).items()}
        about |= {f"data/{name}": value for name, value in self.data.write(cells).items()}
        for key, stats in measure(rows, self.camera, frames).items():
            self.stats.setdefault(key, []).append(stats)
            about |= {f"stats/{key}/{name}": value.tolist() for name, value in stats.items()}
        self.episodes, self.frames = number + 1, self.frames + length
        return about

    def append(self, frames: np.ndarray) -> dict[str, Any]:
        """Write the film of an episode, and say in which file and between which seconds it is."""
        if self.codec is None:
            raise ValueError("pictures lie in the tables")
        if self.film is not None and self.films.is_full(self.film.bytes, len(frames)):
            self.film.close()
            self.film = None
            self.films.turn()
        if self.film is None:
            file = self.folder / FILMS.format(video_key=self.camera, **self.films.place)
            self.film = Film(file, self.codec, frames.shape[1:3], self.fps)
        start = self.film.frames / float(self.fps)
        self.film.add(frames)
        self.films.rows = self.film.frames
        return {**self.films.place, "from_timestamp": start, "to_timestamp": self.film.frames / float(self.fps)}

    def tell(self, rows: list[dict[str, Any]]) -> None:
        """Write rows of meta/episodes, which say in which file they are themselves."""
        if rows:
            place = {f"meta/episodes/{name}": value for name, value in self.about.place(len(rows)).items()}
            self.about.write({key: [(row | place)[key] for row in rows] for key in rows[0] | place})

    def finish(self) -> None:
        """Write what is known only at the end."""
        height, width, _ = self.store.columns["frames"].shape
        seen: dict[str, Any] = {"dtype": "image" if self.codec is None else "video", "shape": [height, width, 3]}
        seen["names"] = ["height", "width", "channels"]
        fps = int(self.fps) if self.fps.denominator == 1 else float(self.fps)
        if self.codec is not None:
            film: dict[str, Any] = {"height": height, "width": width, "fps": fps, "channels": 3, "is_depth_map": False}
            film |= {"codec": self.codec.told, "pix_fmt": self.codec.shown}
            seen["info"] = {**{f"video.{name}": value for name, value in film.items()}, "has_audio": False}
        numbers = {key: feature.declare() for key, feature in self.features.items()}
        counted = {key: {"dtype": dtype, "shape": [1], "names": None} for key, dtype in COUNTED.items()}
        robot, choices = self.options.robot or self.store.meta.get("robot"), self.store.meta.get("action_choices")
        info = {
            "robot_type": robot if isinstance(robot, str) else None,
            "total_episodes": self.episodes,
            "total_frames": self.frames,
            "total_tasks": len(self.tasks),
            "chunks_size": self.options.files_per_chunk,
            "data_files_size_in_mb": self.options.data_mb,
            "video_files_size_in_mb": self.options.video_mb,
            "fps": fps,
            "splits": {"train": f"0:{self.episodes}"},
            "video_path": None if self.codec is None else FILMS,
            "features": {self.camera: seen, **numbers, **counted},
        }
        discrete = choices is not None and self.options.action == "recorded"
        write_meta(self.folder, info, self.tasks, self.stats, {"action_choices": choices} if discrete else {})
