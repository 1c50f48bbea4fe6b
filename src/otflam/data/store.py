"""Episodes on disk: one contiguous memory-mapped array per column, an episode index, and checksums.

    DIR/meta.json       what is inside, how it was made, where each episode lies, its checksums; written last
    DIR/frames.npy      uint8 [rows, height, width, channels]; every column is a plain .npy file
    DIR/parts.jsonl     only while being written: one line for each finished episode
    DIR/shard-000       where many jobs wrote it: stores that hold the columns instead

The `shards` of meta.json are such folders, in DIR or beside it, and their rows; episodes start where they would if the
rows of each shard followed those of the one before (`shards.py`).

Frames are stored height-width-channel because `tensor.permute` then *is* torch's channels_last, the fast layout for
convolutions on a CPU: no copy is made (docs/decisions.md has the measurement).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from otflam.core import HEADER, SILENT, Column, Progress, UserError, find_folder, read_json
from otflam.data.shards import CURE, ROW_LIMIT, Shard, is_count, map_rows, place_episodes, read_shards
from otflam.data.sharing import push_store

FORMAT, VERSION = "otflam-store", 1
CHUNK = 1 << 24
CHECKED_BYTES = 1 << 25
"""Bytes of a column that are compared with their checksums when it is opened."""
CHECKED_EPISODES = 256
"""Episodes of a column, at most, that are."""
HASH = re.compile(r"[0-9a-f]{32}")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
"""Names of columns: they are names of files, and must not lead out of their folder."""
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES += ("float16", "float32", "float64")
FACTS = {"episode": int, "seed": int, "policy": str, "source": str, "motion_name": str}
NUMBERS = ("return", "fps", "begin")
"""What an episode may tell of itself, and of which type; numbers may be unknown."""


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
        file = self.path / "meta.json"
        if meta.get("digest") != plain_hash({key: meta[key] for key in meta if key != "digest"}):
            raise UserError(f"{file} was altered", "restore it or make the data set again")
        if not isinstance(meta.get("hash"), str) or not HASH.fullmatch(meta["hash"]):
            raise UserError(f"{file}: hash is none", CURE)
        if not isinstance(meta.get("config"), dict) or not isinstance(meta["config"].get("world", {}), dict):
            raise UserError(f"{file}: config is not an object, or its world is none", CURE)
        if not isinstance(meta.get("action_names") or [], list):
            raise UserError(f"{file}: action_names is no list", CURE)
        self.meta: dict[str, Any] = meta
        self.columns = read_columns(meta.get("columns"), file)
        starts, self.lengths = read_places(meta.get("episodes"), self.columns, file)
        self.episodes: list[dict[str, Any]] = meta["episodes"]
        self.shards = read_shards(meta.get("shards"), self.path, self.columns, int((starts + self.lengths).max()))
        self.rows = sum(shard.rows for shard in self.shards)
        self.starts, self._owners = place_episodes(starts, self.lengths, self.shards, file)
        self._maps: dict[str, np.ndarray] = {}

    @classmethod
    def from_pretrained(cls, name: str | Path, revision: str | None = None) -> Store:
        """Open a data set in a folder, or one on the Hugging Face Hub, as USER/NAME."""
        return cls(find_folder(name, "dataset", revision))

    def push_to_hub(self, name: str, *, private: bool = False, licence: str | None = None) -> str:
        """Put it on the Hugging Face Hub as USER/NAME, with a card; gives its address."""
        return push_store(self, summarise(self), name, private, licence)

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
        """A column over all episodes, memory-mapped: [rows, ...]; some of it is compared with its checksums first."""
        if column not in self._maps:
            if column not in self.columns:
                raise UserError(f"{self.path} has no column {column!r}", f"it has {', '.join(self.columns)}")
            array = map_rows(self.shards, column, self.columns[column])
            self._sample(column)
            self._maps[column] = array
        return self._maps[column]

    @cached_property
    def places(self) -> dict[int, int]:
        """Where each episode lies, by its number in the data set that this was derived from."""
        return {entry.get("episode", place): place for place, entry in enumerate(self.episodes)}

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def episode(self, index: int, column: str) -> np.ndarray:
        """One episode's rows of a column."""
        start = self.starts[index]
        return self[column][start : start + self.lengths[index]]

    def _sample(self, column: str) -> None:
        """Compare some episodes of a column with their checksums, others each time: all of them where it is small."""
        others = np.random.default_rng().permutation(len(self) - 1)  # a generator of its own: no training's changes
        order = np.array([len(self) - 1, *others[:CHECKED_EPISODES]])  # the end is what a broken copy lacks
        sizes = self.lengths[order] * self.columns[column].row_bytes
        order, sizes = order[sizes <= CHECKED_BYTES], sizes[sizes <= CHECKED_BYTES]
        for index in order[np.cumsum(sizes) <= CHECKED_BYTES]:
            self._check(int(index), column)

    def locate(self, index: int) -> tuple[Shard, int]:
        """The shard that has an episode, and its first row there."""
        shard = self.shards[self._owners[index]]
        return shard, int(self.starts[index]) - shard.first

    def _check(self, index: int, column: str) -> None:
        (shard, start), length = self.locate(index), int(self.lengths[index])
        file = shard.folder / f"{column}.npy"
        if digest_rows(file, self.columns[column], start, length) != self.episodes[index]["digests"][column]:
            raise UserError(
                f"{file} was altered in episode {index} (rows {start} to {start + length - 1})",
                "restore it or make the data set again",
            )

    def check(self, progress: Progress = SILENT) -> None:
        """Read everything and compare it with the checksums; the first file that differs is named."""
        for name in self.columns:
            self[name]
        if self.hash != content_hash(self.meta["columns"], self.episodes):
            raise UserError(f"{self.path / 'meta.json'}: hash is not that of the episodes", CURE)
        for index in range(len(self)):
            for name in self.columns:
                self._check(index, name)
            progress.advance()


def content_hash(columns: Any, episodes: list[dict[str, Any]]) -> str:
    """Names what is inside a store by the checksums of its episodes."""
    return plain_hash({"columns": columns, "digests": [episode["digests"] for episode in episodes]})


def plain_hash(value: Any) -> str:
    """`stable_hash` of what is plain JSON already: it saves a walk that takes longer than reading a large store."""
    return digest(json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())


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


def read_columns(values: Any, file: Path, cure: str = CURE) -> dict[str, Column]:
    """The columns that a JSON file tells of; a name, type or shape that cannot be is named."""
    if not isinstance(values, dict) or not values:
        raise UserError(f"{file}: columns is not an object with columns", cure)
    columns = {}
    for name, value in values.items():
        where = f"{file}: columns.{name}"
        if not NAME.fullmatch(name):
            raise UserError(f"{file}: {name!r} is no name of a column", f"letters, digits, _ and - make one; {cure}")
        if not isinstance(value, dict) or value.get("dtype") not in DTYPES:
            raise UserError(f"{where}.dtype is none that a store holds", cure)
        shape = value.get("shape")
        if not isinstance(shape, list) or not all(is_count(side) for side in shape) or not _fits(value["dtype"], shape):
            raise UserError(f"{where}.shape is {str(shape)[:60]}", cure)
        columns[name] = Column(value["dtype"], tuple(shape))
    return columns


def _fits(dtype: str, shape: list[Any]) -> bool:
    """Whether rows of this shape are small enough for a store and for its files' headers."""
    size = np.dtype(dtype).itemsize
    for side in shape:  # not numpy's product, which overflows in silence
        size *= side
    try:
        return len(Column(dtype, tuple(shape)).header(ROW_LIMIT)) == HEADER and size < ROW_LIMIT
    except ValueError:
        return False


def check_part(part: Any, columns: Mapping[str, Column], where: str, cure: str = CURE) -> None:
    """Refuse what cannot be an episode's place and checksums."""
    if not isinstance(part, dict):
        raise UserError(f"{where} is not an object", cure)
    for field in ("start", "length"):
        if not is_count(part.get(field)):
            raise UserError(f"{where}.{field} is {str(part.get(field))[:60]}", cure)
    digests = part.get("digests")
    if not isinstance(digests, dict) or digests.keys() != columns.keys():
        raise UserError(f"{where}.digests does not name the columns", cure)
    if not all(isinstance(digest, str) for digest in digests.values()):
        raise UserError(f"{where}.digests holds something else than checksums", cure)
    for field in part.keys() & FACTS.keys():
        if type(part[field]) is not FACTS[field]:
            raise UserError(f"{where}.{field} is {str(part[field])[:60]}", cure)
    for field in NUMBERS:
        if part.get(field) is not None and type(part[field]) not in (int, float):
            raise UserError(f"{where}.{field} is {str(part[field])[:60]}", cure)


def read_places(
    parts: Any, columns: Mapping[str, Column], file: Path, cure: str = CURE
) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n"]]:
    """Where the episodes start and how long they are; none may lie in another."""
    if not isinstance(parts, Sequence) or isinstance(parts, str) or not parts:
        raise UserError(f"{file}: episodes is not a list of episodes", cure)
    for index, part in enumerate(parts):
        check_part(part, columns, f"{file}: episodes.{index}", cure)
    starts, lengths = (np.array([part[field] for part in parts], np.int64) for field in ("start", "length"))
    order = np.lexsort((lengths, starts))
    torn = np.flatnonzero((starts + lengths)[order][:-1] > starts[order][1:])
    if len(torn):
        first, second = order[torn[0]], order[torn[0] + 1]
        raise UserError(f"{file}: episodes {first} and {second} lie in the same rows", cure)
    if not lengths.any() or (starts + lengths).max() >= ROW_LIMIT:
        raise UserError(f"{file}: the episodes have {(starts + lengths).max()} rows", cure)
    return starts, lengths


def summarise(store: Store) -> dict[str, str]:
    """Facts about a data set, in the order a reader wants them."""
    world = store.config.get("world", {})
    size = sum(store.rows * column.row_bytes for column in store.columns.values())
    facts = {"data": str(store.path), "kind": str(store.meta.get("kind", "unknown"))}
    if world:
        moving, quality = "dynamic" if world.get("dynamic") else "static", world.get("quality")
        seen = f", {world.get('difficulty')} ({moving}), {quality} quality" if "distractor_fields" in store.meta else ""
        facts["world"] = f"{world.get('task')}{seen}"
        facts["backgrounds"] = str(store.config.get("background_set") or "none")
    frames = int(store.lengths.sum())
    facts["episodes"] = f"{len(store)} of {_range(store.lengths)} frames, {frames} in all, {size / 1e9:.3f} GB"
    facts["columns"] = ", ".join(f"{name} {c.dtype}{list(c.shape)}" for name, c in store.columns.items())
    if "actions" in store and "frames" in store:
        facts["actions"] = _actions(store, frames)
    for policy in sorted({episode["policy"] for episode in store.episodes if "policy" in episode}):
        returns = np.array(
            [episode.get("return") for episode in store.episodes if episode.get("policy") == policy], float
        )
        facts[policy] = f"{len(returns)} episodes, return {returns.mean():.1f} ± {returns.std():.1f}"
    facts["hash"] = store.hash
    return facts


def _actions(store: Store, frames: int) -> str:
    """What the actions are called and how many frames have one."""
    names = store.meta.get("action_names") or [f"{np.prod(store.columns['actions'].shape, dtype=int)} without names"]
    names = [f"one of {store.meta['action_choices']}"] if "action_choices" in store.meta else names
    labelled, episodes = frames, len(store)
    if "action_mask" in store:
        counts = [int(store.episode(index, "action_mask").sum()) for index in range(len(store))]
        labelled, episodes = sum(counts), sum(count > 0 for count in counts)
    return f"{', '.join(map(str, names))}; {labelled} of {frames} frames are labelled, in {episodes} episodes"


def _range(values: np.ndarray) -> str:
    return str(values.min()) if values.min() == values.max() else f"{values.min()} to {values.max()}"
