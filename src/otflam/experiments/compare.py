"""Two videos side by side: how often each code occurs where something moves, and both under their codes.

Axes: t frames, k codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, count
from pathlib import Path

import numpy as np
from jaxtyping import Float
from PIL import Image

from otflam.core import SILENT, Progress, UserError, write_text
from otflam.data import count_frames, read_frames
from otflam.evaluate import Tally
from otflam.experiments.tokenize import DEFAULT_FPS, CodedFrame, video_tokenizer, watch_frames
from otflam.report import name_code, overlay, writing_video
from otflam.tokenizer import OTF

HEIGHT = 360
"""Pixels of both videos in the picture."""


@dataclass(frozen=True)
class Compared:
    """What two videos have in common."""

    shares: Float[np.ndarray, "2 k"]
    """Of every code, where something moves."""
    distance: float
    """Hellinger distance of the shares: 0 if they are equal, 1 if no code is in both."""
    within: tuple[float, float]
    """The same between the halves of each video: what a distance of one kind of video is."""
    moving: tuple[float, float]
    """Share of patches that move."""
    redrawn: tuple[float, float]
    """Share of the motion that the codes draw again."""
    names: list[str]
    """Of the codes."""
    paths: tuple[Path, Path]


class Watched:
    """One of the videos, frame by frame, with what is counted on the way."""

    def __init__(self, tokenizer: OTF, video: Path) -> None:
        self.tokenizer, self.video, self.tally = tokenizer, video, Tally(tokenizer)
        config = tokenizer.config
        frames = read_frames(video, config.grid * config.patch, config.patch, cuts=True)
        first = next(frames)
        self.rate = first.fps or DEFAULT_FPS
        self.moments = watch_frames(tokenizer, self.tally, chain([first], frames))
        self.counts: list[Float[np.ndarray, " k"]] = []
        self.last: CodedFrame | None = None

    def at(self, time: Fraction) -> CodedFrame | None:
        """The frame that is shown at a time, in seconds; none behind the end."""
        while len(self.counts) <= time * self.rate:
            self.last = next(self.moments, None)
            if self.last is None:
                return None
            moves = self.last.codes[self.last.strength > 0]
            self.counts.append(np.bincount(moves, minlength=self.tokenizer.codes).astype(np.float64))
        return self.last

    def finish(self) -> Float[np.ndarray, "t k"]:
        if not sum(each.sum() for each in self.counts):
            raise UserError(f"nothing moves in {self.video}, or it is too short", "there are no codes to compare")
        return np.stack(self.counts)


def compare_videos(
    one: Path, other: Path, out: Path, folder: Path | None = None, progress: Progress = SILENT
) -> Compared:
    """Write side-by-side.mp4 and codes.csv, and tell how unlike the codes of two videos are."""
    tokenizer = video_tokenizer(folder)
    pair = [Watched(tokenizer, video) for video in (one, other)]
    rate = max(each.rate for each in pair)
    total = max(float(count_frames(each.video) * rate / each.rate) for each in pair)
    with writing_video(out / "side-by-side.mp4", rate) as add:
        blank: list[Image.Image | None] = [None, None]
        for number, moments in enumerate(both(pair, rate), 1):
            tiles = [shown(each, tokenizer, blank[side]) for side, each in enumerate(moments)]
            blank = [Image.new("RGB", tile.size) if tile is not None else None for tile in tiles]
            if all(tile is not None for tile in tiles):
                add(np.concatenate([np.asarray(tile) for tile in tiles if tile is not None], 1))
            progress.reach(number, max(round(total), number))
    counts = [each.finish() for each in pair]
    shares = np.stack([share(each) for each in counts])
    halves = [hellinger(*(share(half) for half in np.array_split(each, 2))) for each in counts]
    write_text(out / "codes.csv", table(shares))
    moving, redrawn = ((pair[0].tally.moving, pair[1].tally.moving), (pair[0].tally.redrawn, pair[1].tally.redrawn))
    names = [name_code(tokenizer, code) for code in range(tokenizer.codes)]
    paths = (out / "side-by-side.mp4", out / "codes.csv")
    return Compared(shares, hellinger(*shares), (halves[0], halves[1]), moving, redrawn, names, paths)


def both(pair: list[Watched], rate: Fraction) -> Iterator[tuple[CodedFrame | None, ...]]:
    """What both show at the same times, until both have ended."""
    for number in count():
        now = tuple(each.at(number / rate) for each in pair)
        if all(moment is None for moment in now):
            return
        yield now


def shown(moment: CodedFrame | None, tokenizer: OTF, blank: Image.Image | None) -> Image.Image | None:
    """A frame under its codes; behind the end of its video black."""
    if moment is None:
        return blank
    width = max(1, round(moment.picture.width * HEIGHT / moment.picture.height))
    picture = moment.picture.resize((width, HEIGHT), Image.Resampling.BILINEAR)
    return overlay(picture, moment.codes, moment.strength, tokenizer)


def share(counts: Float[np.ndarray, "t k"]) -> Float[np.ndarray, " k"]:
    total = counts.sum(0)
    return total / max(total.sum(), 1.0)


def hellinger(one: Float[np.ndarray, " k"], other: Float[np.ndarray, " k"]) -> float:
    return float(np.sqrt(np.square(np.sqrt(one) - np.sqrt(other)).sum() / 2))


def table(shares: Float[np.ndarray, "2 k"]) -> str:
    lines = [f"{code},{one:.6f},{other:.6f}" for code, (one, other) in enumerate(shares.T)]
    return "\n".join(["code,first,second", *lines]) + "\n"
