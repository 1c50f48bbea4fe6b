"""Moments of a data set that are like one of it or of another video, by the codes or the latents of what happens there.

A moment is a window of time. By codes it is the histogram of all codes in it, by latents their mean and deviation; both
are sums over time, so that a window that moves costs nothing.

Axes: m motions, k features of a motion, n windows, d numbers of a window, t h w c frames.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int64, UInt8

from otflam.core import SILENT, Progress, UserError, digest_file
from otflam.data import Store, VideoImport, decode_pieces
from otflam.lam import LATENTS, LatentActionModel, label_store
from otflam.report import Shot
from otflam.tokenizer import encode_store, find_tokenizer, load_tokenizer, watch

DEFAULT_RATE = 10.0
"""Frames a second of episodes that have no rate."""
HOPS = 4
"""Windows that begin within the length of one."""


@dataclass(frozen=True)
class Moment:
    """Frames of an episode, from the first to before the last."""

    episode: int
    first: int
    stop: int
    distance: float = 0.0

    def overlaps(self, other: Moment) -> bool:
        return self.episode == other.episode and self.first < other.stop and other.first < self.stop


@dataclass(frozen=True)
class Found:
    """What is like a moment, and how far apart moments are as a rule."""

    query: Shot
    shots: list[Shot]
    typical: float
    """Median distance of all moments."""
    compared: int
    short: int
    """Episodes that are shorter than the window."""


class Reader(ABC):
    """What is read from motions."""

    before = 0
    """Frames before the one at which the first motion of an episode is."""
    span = 0
    """Frames that a motion reaches over, without its first."""

    @abstractmethod
    def episode(self, index: int) -> Float[np.ndarray, "m k"]:
        """Features of all motions of an episode."""

    @abstractmethod
    def frames(self, frames: UInt8[np.ndarray, "t h w c"]) -> Float[np.ndarray, "m k"]:
        """Features of all motions of frames that are not of the data set."""

    @abstractmethod
    def describe(self, means: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n d"]:
        """Windows by their mean features, as points whose distance tells how unlike they are."""


class CodeReader(Reader):
    """Histograms of codes at their Hellinger distance: 0 for the same shares, 1 for no code in common."""

    def __init__(self, store: Store, folder: Path | None, progress: Progress) -> None:
        folder = find_tokenizer(folder)
        self.tokenizer, self.store = load_tokenizer(folder), store
        self.column = encode_store(store, folder, progress.part("codes", "episodes"))
        offsets = self.tokenizer.config.motion.offsets
        self.before, self.span = -offsets[0], offsets[-1] - offsets[0]

    def episode(self, index: int) -> Float[np.ndarray, "m k"]:
        codes = self.column.episode(self.column.places[index], "codes")
        return self._counted(codes[self.before : max(self.before, len(codes) - self.span + self.before)])

    def frames(self, frames: UInt8[np.ndarray, "t h w c"]) -> Float[np.ndarray, "m k"]:
        return self._counted(watch(self.tokenizer, frames).codes.reshape(len(frames) - self.span, -1))

    def _counted(self, codes: np.ndarray) -> Float[np.ndarray, "m k"]:
        """The share of every code in every motion."""
        count, (rows, patches) = self.tokenizer.config.codebook.codes, codes.shape
        places = codes.astype(np.int64) + count * np.arange(rows)[:, None]
        return np.bincount(places.ravel(), minlength=rows * count).reshape(rows, count) / patches

    def describe(self, means: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n d"]:
        return np.sqrt(means.clip(0) / 2)


class LatentReader(Reader):
    """Latents, each number over its deviation in the data set: their mean in a window, and their deviation there."""

    def __init__(self, store: Store, folder: Path, dino: str | None, progress: Progress) -> None:
        self.model = LatentActionModel.from_pretrained(folder, dino)
        self.column = label_store(store, folder, self.model.parts.backbone, None, progress.part("latents", "episodes"))
        self.span = self.model.offsets[-1]  # what lies before an episode is its first frame
        some = np.concatenate(
            [self._rows(int(index)) for index in np.unique(np.linspace(0, len(store) - 1, 64).astype(int))]
        )
        self.mean, self.deviation = some.mean(0), some.std(0) + 1e-6

    def _rows(self, index: int) -> np.ndarray:
        rows = self.column.episode(self.column.places[index], LATENTS)
        return rows[: max(0, len(rows) - self.span)]

    def episode(self, index: int) -> Float[np.ndarray, "m k"]:
        return self._scaled(self._rows(index))

    def frames(self, frames: UInt8[np.ndarray, "t h w c"]) -> Float[np.ndarray, "m k"]:
        padded = np.concatenate([np.repeat(frames[:1], -self.model.offsets[0], 0), frames])
        return self._scaled(self.model.infer(padded).numpy())

    def _scaled(self, latents: np.ndarray) -> Float[np.ndarray, "m k"]:
        scaled = (latents.astype(np.float64) - self.mean) / self.deviation
        return np.concatenate([scaled, np.square(scaled)], 1)

    def describe(self, means: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n d"]:
        mean, square = np.split(means, 2, axis=1)
        return np.concatenate([mean, np.sqrt((square - np.square(mean)).clip(0))], 1) / np.sqrt(means.shape[1])


def window_means(features: Float[np.ndarray, "m k"], firsts: Int64[np.ndarray, " n"], rows: int) -> np.ndarray:
    """Mean features of windows of so many motions."""
    sums = np.concatenate([np.zeros((1, features.shape[1])), np.cumsum(features, 0, dtype=np.float64)])
    return (sums[firsts + rows] - sums[firsts]) / rows


def rate_of(store: Store, index: int) -> float:
    return float(store.episodes[index].get("fps") or DEFAULT_RATE)


def rows_of(seconds: float, rate: float, span: int) -> int:
    """Motions in a window of so many seconds: at least one."""
    return max(1, round(seconds * rate) - span)


def search(
    store: Store,
    like: str,
    tokenizer: Path | None = None,
    lam: Path | None = None,
    dino: str | None = None,
    seconds: float = 1.0,
    count: int = 12,
    progress: Progress = SILENT,
) -> Found:
    """The moments of a data set that are most like one of it, or of a video: FILE@SECONDS or EPISODE@SECONDS."""
    if not 0 < seconds < math.inf or count < 1:
        raise UserError(f"--seconds {seconds:g} and --count {count}", "give a positive length and at least 1 moment")
    asked = find_query(store, like, progress)
    reader = CodeReader(store, tokenizer, progress) if lam is None else LatentReader(store, lam, dino, progress)
    rows = rows_of(seconds, asked.rate, reader.span)
    features = reader.episode(asked.episode) if asked.episode >= 0 else reader.frames(asked.frames)
    if len(features) < rows:
        length = len(asked.frames) / asked.rate
        raise UserError(f"--like {like} lies in a shot of {length:.2f} s", "choose another moment, or fewer --seconds")
    first = round(asked.time * asked.rate) - (rows + reader.span) // 2
    first = min(max(first, 0), len(features) - rows)
    wanted = reader.describe(window_means(features, np.array([first]), rows))[0]
    query = Moment(asked.episode, first, first + rows + reader.span)
    moments, typical, compared, short = nearest(reader, store, wanted, seconds, query, count, progress)
    begin = asked.begin + first / asked.rate
    shown = Shot(asked.name, asked.frames[query.first : query.stop], asked.rate, asked.episode, begin)
    return Found(shown, [shot_of(store, moment) for moment in moments], typical, compared, short)


def nearest(
    reader: Reader, store: Store, wanted: np.ndarray, seconds: float, query: Moment, count: int, progress: Progress
) -> tuple[list[Moment], float, int, int]:
    """The nearest moments that overlap neither each other nor the query; the median distance, how many were compared
    and how many episodes are too short."""
    found, short = [], 0
    progress = progress.part("search", "episodes")
    for index in range(len(store)):
        features, rows = reader.episode(index), rows_of(seconds, rate_of(store, index), reader.span)
        if len(features) < rows:
            short += 1
        else:
            firsts = np.arange(0, len(features) - rows + 1, max(1, (rows + reader.span) // HOPS))
            points = reader.describe(window_means(features, firsts, rows))
            apart = np.sqrt(np.square(points - wanted).sum(1))
            found.append(np.stack([apart, np.full(len(firsts), index), firsts, firsts + rows + reader.span], 1))
        progress.reach(index + 1, len(store))
    if not found:
        raise UserError(f"no episode of {store.path} has {seconds:g} s", "choose a smaller --seconds")
    table = np.concatenate(found)
    chosen: list[Moment] = []
    for apart, index, first, stop in table[np.argsort(table[:, 0], kind="stable")]:
        moment = Moment(int(index), int(first), int(stop), float(apart))
        if not any(moment.overlaps(other) for other in (query, *chosen)):
            chosen.append(moment)
        if len(chosen) == count:
            break
    return chosen, float(np.median(table[:, 0])), len(table), short


def shot_of(store: Store, moment: Moment) -> Shot:
    """A moment with its pictures and where it is from, in seconds of its video."""
    asked = query_of(store, moment.episode, 0.0)
    frames, time = asked.frames[moment.first : moment.stop], asked.begin + moment.first / asked.rate
    return Shot(asked.name, frames, asked.rate, moment.episode, time, moment.distance)


def parse_like(text: str) -> tuple[str, float]:
    """FILE@SECONDS or EPISODE@SECONDS; minutes may stand before a colon."""
    name, _, time = text.rpartition("@")
    match = re.fullmatch(r"(?:(\d+):)?(\d+(?:\.\d*)?)s?", time)
    if not name or match is None:
        raise UserError(f"--like {text}", "give FILE@SECONDS or EPISODE@SECONDS, such as clip.mp4@12.5s or 3@0.5s")
    return name, 60 * int(match[1] or 0) + float(match[2])


@dataclass(frozen=True)
class Query:
    """The shot that a moment is asked of."""

    name: str
    frames: UInt8[np.ndarray, "t h w c"]
    rate: float
    begin: float
    """Seconds of its video before it."""
    time: float
    """Of the moment, in seconds of the shot."""
    episode: int = -1
    """Its number, if it is of the data set."""


def find_query(store: Store, like: str, progress: Progress = SILENT) -> Query:
    """The shot that is meant: an episode, by its number or because its video is of the data, or of another video."""
    name, time = parse_like(like)
    if (path := Path(name)).exists():
        sources = {digest: source for source, _, digest in store.config.get("files", ())}
        known = sources.get(digest_file(path)) if path.is_file() else None
        queries = from_data(store, known, time) if known is not None else from_video(store, path, time, progress)
        for query in queries:
            if 0 <= query.time < len(query.frames) / query.rate:
                return query
        raise UserError(f"{name} has no shot at {time:g} s", "choose another moment")
    if not name.isdigit():
        raise UserError(f"{name} does not exist", f"give a video, or the number of an episode of {store.path}")
    if int(name) >= len(store):
        raise UserError(f"{store.path} has no episode {name}", f"it has 0 to {len(store) - 1}")
    query = query_of(store, int(name), time)
    if time >= len(query.frames) / query.rate:
        raise UserError(f"episode {name} has {len(query.frames) / query.rate:.2f} s", "choose an earlier moment")
    return query


def query_of(store: Store, index: int, time: float) -> Query:
    episode, rate = store.episodes[index], rate_of(store, index)
    name = str(episode.get("source", f"episode {index}"))
    return Query(name, store.episode(index, "frames"), rate, episode.get("begin") or 0.0, time, index)


def from_data(store: Store, source: str, time: float) -> Iterator[Query]:
    for index, episode in enumerate(store.episodes):
        if episode.get("source") == source:
            yield query_of(store, index, time - (episode.get("begin") or 0.0))


def from_video(store: Store, path: Path, time: float, progress: Progress) -> Iterator[Query]:
    """The shots of a video, as they would be imported into the data set."""
    config = VideoImport(size=store.columns["frames"].shape[0])
    config = replace(config, fps=store.config.get("fps"), fit=store.config.get("fit", "crop"))
    for piece in decode_pieces(path, config, 0, progress):
        rate = float(config.fps or piece.origin.fps or DEFAULT_RATE)
        yield Query(path.name, piece.frames, rate, piece.begin, time - piece.begin)
