"""Commands for one's own videos: search for moments, suggest settings, compare videos, judge vocabularies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import tyro

from otflam.commands.base import DataSet
from otflam.core import UserError
from otflam.report import ProgressBar, say
from otflam.tokenizer import PACKAGED


@dataclass(frozen=True)
class Search:
    """Find the moments of a data set in which the most similar things happen, with pictures."""

    data: DataSet
    like: str
    """The moment: FILE@SECONDS of a video, or EPISODE@SECONDS of the data set, such as clip.mp4@12.5s or 3@0.5s."""
    out: Path = Path("search")
    """Folder for moments.png and moments.html."""
    tokenizer: Path | None = None
    """Folder of a trained tokenizer; by default the one that comes with the package."""
    lam: Path | None = None
    """Folder of a trained model: search by its latent actions instead of codes."""
    dino: str | None = None
    """Folder or hub name of DINOv2, for models that need it."""
    seconds: float = 1.0
    """Length of a moment."""
    count: int = 12
    """Moments to find."""

    def run(self) -> None:
        from otflam.data import Store
        from otflam.experiments import search
        from otflam.report import clock, draw_shots, write_shots

        with ProgressBar(f"search {self.data}", "episodes") as bar:
            found = search(
                *(Store(self.data), self.like, self.tokenizer, self.lam, self.dino, self.seconds, self.count, bar)
            )
        say(f"{'':>4} {'episode':>7} {'time':>9} {'distance':>9}  file")
        for rank, shot in enumerate(found.shots, 1):
            say(f"{rank:>4} {shot.episode:>7} {clock(shot.begin):>9} {shot.distance:>9.3f}  {shot.name}")
        say(f"{found.compared} moments compared, at a median distance of {found.typical:.3f}")
        if found.short:
            say(f"{found.short} episodes are shorter than {self.seconds:g} s and were left out: see --seconds")
        title = f"Moments like {self.like}, by {'codes' if self.lam is None else 'latents'}"
        say(f"wrote {draw_shots(found.query, found.shots, title, self.out / 'moments.png')}")
        say(f"wrote {write_shots(found.query, found.shots, title, self.out / 'moments.html')}")


@dataclass(frozen=True)
class Suggest:
    """Suggest a gap between frames, a number of codes and how many videos, from a minute of measurements."""

    data: DataSet

    def run(self) -> None:
        from otflam.data import Store
        from otflam.experiments import suggest, told

        with ProgressBar(f"measure {self.data}", "measurements") as bar:
            found = suggest(Store(self.data), bar)
        for line in told(found):
            say(line)


@dataclass(frozen=True)
class DataCompare:
    """Put two videos side by side: both under their codes, and how unlike their codes are."""

    one: tyro.conf.Positional[Path]
    """A video file, or a folder of images."""
    other: tyro.conf.Positional[Path]
    """The other one."""
    out: Path = Path("compared")
    """Folder for side-by-side.mp4 and codes.csv."""
    tokenizer: Path | None = None
    """Folder of a trained tokenizer; by default the one that comes with the package."""

    def run(self) -> None:
        from otflam.experiments import compare_videos

        with ProgressBar(f"compare {self.one}", "frames") as bar:
            found = compare_videos(self.one, self.other, self.out, self.tokenizer, bar)
        for video, moving, redrawn in zip((self.one, self.other), found.moving, found.redrawn, strict=True):
            say(f"{video}: {100 * moving:.0f} % of the patches move; codes redraw {100 * redrawn:.0f} % of the motion")
        say(f"{'code':>8} {'first':>8} {'second':>8}")
        for code in found.shares.sum(0).argsort()[::-1][:10]:
            first, second = found.shares[:, code]
            say(f"{found.names[code]:>8} {100 * first:>6.1f} % {100 * second:>6.1f} %")
        say(
            f"distance of the codes: {found.distance:.3f} (between halves of the first video {found.within[0]:.3f}, of "
            f"the second {found.within[1]:.3f}; 0: equal shares, 1: no code in common)"
        )
        for path in found.paths:
            say(f"wrote {path}")


@dataclass(frozen=True)
class TokenizerEvaluate:
    """How much of the motion of videos or data sets vocabularies lose: nMSE of all patches, and of still ones alone."""

    videos: tyro.conf.Positional[tuple[Path, ...]]
    """Video files, folders of images, or data sets; of data sets a few hundred clips are measured."""
    tokenizers: tuple[str, ...] = PACKAGED
    """Folders of trained tokenizers, or names of packaged ones."""

    def run(self) -> None:
        from otflam.experiments import redraw_all

        if not self.videos or not self.tokenizers:
            raise UserError("nothing to measure", "name videos, and tokenizers")
        width = max(len(path.name) for path in self.videos) + 2
        names = [Path(name).name[:20] for name in self.tokenizers]
        rows: list[list[float]] = []
        with ProgressBar("evaluate tokenizers", "measurements") as bar:
            for path, found in redraw_all(self.videos, self.tokenizers, bar):
                if not rows:
                    say(f"{'':{width}} {'moves':>6}" + "".join(f" {name:>20} {'still':>5}" for name in names))
                moving = "" if math.isnan(found[0].moving) else f"{100 * found[0].moving:.0f} %"
                rows.append([value for each in found for value in (each.nmse, each.still_nmse)])
                say(f"{path.name:{width}} {moving:>6}" + table_row(rows[-1]))
        if len(rows) > 1:
            say(f"{'mean':{width}} {'':>6}" + table_row([sum(each) / len(rows) for each in zip(*rows, strict=True)]))
        say("nMSE: what is lost of the motion's energy; drawing nothing scores 1")


def table_row(values: list[float]) -> str:
    """Errors of all patches and of still ones in turn."""
    return "".join(f" {value:>{5 if place % 2 else 20}.2f}" for place, value in enumerate(values))
