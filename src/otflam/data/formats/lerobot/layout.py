"""Where things lie in a LeRobot folder, what its features are called here, and its tables.

    meta/info.json       version, rate, features, and patterns of the names of files
    meta/episodes/       v3: parquet, a row for each episode; v2: episodes.jsonl
    data/                parquet, a row for each frame; v3: many episodes in a file
    videos/              mp4 for every camera; v3: many episodes in a file

pyarrow comes with `otflam[lerobot]`; this is imported only when a folder is touched.
"""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import UserError, first_line, parse_json, read_json
from otflam.data.store import DTYPES, Column

try:
    import pyarrow as pa
    from pyarrow import parquet
except ImportError:
    raise UserError("LeRobot folders need pyarrow, which is not installed", "pip install 'otflam[lerobot]'") from None

VERSION = "v3.0"
INFO, STATS, TASKS, FACTS = "meta/info.json", "meta/stats.json", "meta/tasks.parquet", "meta/otflam.json"
KEYS = {"actions": "action", "states": "observation.state", "rewards": "next.reward", "action_mask": "has_action"}
"""What our columns are called there; an underscore, because whatever begins with action is learned as one."""
WIDE = ("actions", "states")
"""Columns whose rows are vectors even if of one number."""
COUNTED = ("timestamp", "frame_index", "episode_index", "index")
"""Features that only say which frame of which episode a row is."""
CURE = "download or write it again"


@dataclass(frozen=True)
class Feature:
    """Numbers that every frame has."""

    key: str
    column: str
    """Its name in a store."""
    spec: Column
    names: tuple[str, ...] | None

    @classmethod
    def of(cls, key: str, value: Any, columns: Mapping[str, str], where: str) -> Feature | None:
        """One that info.json tells of, or none if it is not made of numbers that a store holds."""
        shape, dtype = value.get("shape"), value.get("dtype")
        if dtype not in DTYPES:
            return None
        if not isinstance(shape, list | tuple) or not all(type(side) is int and side > 0 for side in shape):
            raise UserError(f"{where}: shape of {key} is {str(shape)[:60]}", CURE)
        column = columns.get(key) or re.sub(r"[^A-Za-z0-9_-]", "-", key)[:64]
        sides = (math.prod(shape),) if column in WIDE else () if tuple(shape) == (1,) else tuple(shape)
        floats = column in ("actions", "states", "rewards")
        return cls(key, column, Column("float32" if floats else dtype, sides), read_names(value.get("names")))


def read_names(value: Any) -> tuple[str, ...] | None:
    """The names of a feature's numbers, which may be grouped."""
    parts = [name for group in value.values() for name in group] if isinstance(value, dict) else value
    return tuple(map(str, parts)) if isinstance(parts, list | tuple) and parts else None


@dataclass(frozen=True)
class Trajectory:
    """One episode and where it lies."""

    index: int
    length: int
    tasks: tuple[str, ...]
    table: Path
    films: Mapping[str, tuple[Path, float]]
    """By camera: the file, and the second in it at which the episode begins."""


class Folder:
    """A LeRobot folder, of which only what is in `meta` has been read."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise UserError(f"{path} does not exist", "give a LeRobot folder, which has meta/info.json")
        self.path, self.file = path, path / INFO
        info = read_json(self.file, "give a LeRobot folder, which has meta/info.json")
        if not isinstance(info, dict) or not isinstance(info.get("features"), dict):
            raise UserError(f"{self.file} tells no features", CURE)
        self.info: dict[str, Any] = info
        self.version = str(info.get("codebase_version"))
        if self.version not in (VERSION, "v2.1", "v2.0"):
            raise UserError(f"{self.file} is of version {self.version}", f"{VERSION}, v2.1 and v2.0 can be read")
        self.fps: Any = info.get("fps")
        if type(self.fps) not in (int, float) or not 0 < self.fps < math.inf:
            raise UserError(f"{self.file}: fps is {str(self.fps)[:60]}", CURE)
        for key, value in info["features"].items():
            if not isinstance(value, dict):
                raise UserError(f"{self.file}: feature {key} is no object", CURE)
        features: dict[str, Any] = info["features"]
        self.cameras = {key: value["dtype"] for key, value in features.items() if value.get("dtype") in FRAMES}
        named, columns = {key: column for column, key in KEYS.items()}, {}
        self.left_out = []
        for key in [key for key in features if key not in self.cameras and key not in COUNTED]:
            feature = Feature.of(key, features[key], named, str(self.file))
            if feature is None or feature.column in columns or feature.column == "frames":
                self.left_out.append(key)
            else:
                columns[feature.column] = feature
        self.features: dict[str, Feature] = columns

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What only our own exports tell."""
        file = self.path / FACTS
        facts = read_json(file, CURE) if file.exists() else {}
        return facts if isinstance(facts, dict) else {}

    @cached_property
    def tasks(self) -> list[str]:
        """Tasks by number."""
        if self.version != VERSION:
            rows = read_lines(self.path / "meta" / "tasks.jsonl") if (self.path / "meta/tasks.jsonl").exists() else []
        elif (self.path / TASKS).exists():
            rows = read_table(self.path / TASKS).to_pylist()
        else:
            rows = []
        known: dict[int, str] = {}
        for row in rows:  # older writers left the words in an index without a name
            words = [value for key, value in row.items() if key in ("task", "__index_level_0__")]
            if len(words) != 1 or not isinstance(words[0], str) or type(row.get("task_index")) is not int:
                raise UserError(f"{self.path}/meta: tasks are not numbered words", CURE)
            known[row["task_index"]] = words[0]
        return [known[index] for index in sorted(known)]

    def episodes(self, cameras: list[str]) -> list[Trajectory]:
        """All episodes in their order, with the films of some cameras."""
        films = [key for key in cameras if self.cameras[key] == "video"]
        if self.version != VERSION:
            file = self.path / "meta" / "episodes.jsonl"
            found = [self._older(row, films, file) for row in read_lines(file)]
        else:
            files = sorted((self.path / "meta" / "episodes").glob("*/*.parquet"))
            found = [self._newer(row, films, file) for file in files for row in episode_rows(file)]
        if not found:
            raise UserError(f"{self.path}/meta tells of no episodes", CURE)
        return sorted(found, key=lambda episode: episode.index)

    def _newer(self, row: dict[str, Any], films: list[str], file: Path) -> Trajectory:
        def place(kind: str, pattern: str, **more: str) -> Path:
            numbers = {name: row.get(f"{kind}/{name}") for name in ("chunk_index", "file_index")}
            return self._file(pattern, file, **numbers, **more)

        index, length, tasks = self._about(row, file)
        found = {}
        for key in films:
            start: Any = row.get(f"videos/{key}/from_timestamp")
            if type(start) not in (int, float) or not 0 <= start < math.inf:
                raise UserError(f"{file}: episode {index} does not say where it begins in {key}", CURE)
            found[key] = (place(f"videos/{key}", "video_path", video_key=key), float(start))
        return Trajectory(index, length, tasks, place("data", "data_path"), found)

    def _older(self, row: dict[str, Any], films: list[str], file: Path) -> Trajectory:
        index, length, tasks = self._about(row, file)
        chunk = self.info.get("chunks_size", 1000)
        numbers = {"episode_index": index, "episode_chunk": index // chunk if type(chunk) is int and chunk > 0 else 0}
        found = {key: (self._file("video_path", file, **numbers, video_key=key), 0.0) for key in films}
        return Trajectory(index, length, tasks, self._file("data_path", file, **numbers), found)

    def _about(self, row: dict[str, Any], file: Path) -> tuple[int, int, tuple[str, ...]]:
        index, length, tasks = row.get("episode_index"), row.get("length"), row.get("tasks") or []
        if type(index) is not int or type(length) is not int or index < 0 or length < 1:
            raise UserError(f"{file}: an episode has number {index} and length {length}", CURE)
        return index, length, tuple(map(str, tasks)) if isinstance(tasks, list | tuple) else (str(tasks),)

    def _file(self, pattern: str, told: Path, **numbers: Any) -> Path:
        """A file that a pattern of info.json names, which must be there and in this folder."""
        try:
            name = Path(str(self.info[pattern]).format(**numbers))
        except (KeyError, ValueError, IndexError, AttributeError, TypeError) as error:
            raise UserError(f"{self.file}: {pattern} does not fit {told} ({first_line(error)})", CURE) from None
        if name.is_absolute() or ".." in name.parts:
            raise UserError(f"{self.file}: {pattern} leads out of the folder", CURE)
        if not (self.path / name).is_file():
            raise UserError(f"{self.path / name} is missing", CURE)
        return self.path / name


FRAMES = ("video", "image")
"""Types of features that are pictures."""


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The objects of a file with one on each line."""
    if not file.is_file():
        raise UserError(f"{file} is missing", CURE)
    rows = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            rows += [parse_json(line)] if line.strip() else []
        except ValueError as error:
            raise UserError(f"{file} line {number} is not JSON ({error})", CURE) from None
        if rows and not isinstance(rows[-1], dict):
            raise UserError(f"{file} line {number} is no object", CURE)
    return rows


@contextmanager
def naming(file: Path) -> Generator[None]:
    """Turn what pyarrow raises over a damaged file into one clear line."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError, OverflowError) as error:
        raise UserError(f"{file} cannot be read ({first_line(error)})", CURE) from None


def read_table(file: Path, columns: list[str] | None = None, episode: int | None = None) -> Any:
    """Columns of a table, or of the rows of one episode."""
    with naming(file):
        known = parquet.read_schema(file).names
        if lacking := sorted(set(columns or ()) - set(known)):
            raise UserError(f"{file} has no column {lacking[0]!r}", CURE)
        rows = [("episode_index", "=", episode)] if episode is not None and "episode_index" in known else None
        # One file, not a data set: names of folders must not become columns.
        return parquet.read_table(file, columns=columns, filters=rows, partitioning=None)


def episode_rows(file: Path) -> list[dict[str, Any]]:
    """What a table tells of episodes, without their statistics, which are most of it."""
    with naming(file):
        names = [name for name in parquet.read_schema(file).names if not name.startswith("stats/")]
    return read_table(file, names).to_pylist()


def numbers(table: Any, key: str, spec: Column, file: Path) -> np.ndarray:
    """A column of a table as [rows, ...], or one line that says what is wrong with it."""
    with naming(file):
        array, rows = table.column(key).combine_chunks(), table.num_rows
        while True:
            if array.null_count:
                raise UserError(f"{file}: {key} has empty cells", CURE)
            if isinstance(array, pa.ExtensionArray):
                array = array.storage
            elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
                if len(set(array.value_lengths().to_pylist())) > 1:
                    raise UserError(f"{file}: {key} has rows of unequal length", CURE)
                array = array.flatten()
            elif pa.types.is_fixed_size_list(array.type):
                array = array.flatten()
            else:
                break
        values = array.to_numpy(zero_copy_only=False)
        if values.dtype.kind not in "bfiu" or values.size != rows * math.prod(spec.shape):
            told = f"{values.size // max(rows, 1)} × {values.dtype}"
            raise UserError(f"{file}: {key} has {told} in a row", f"info.json says {list(spec.shape)} × {spec.dtype}")
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(values.reshape(rows, *spec.shape).astype(spec.dtype))
