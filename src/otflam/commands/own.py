"""Commands for one's own videos: search for moments, suggest settings, compare two videos."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from otflam.commands.base import DataSet
from otflam.report import ProgressBar, say


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
        say(f"{'code':>6} {'first':>8} {'second':>8}")
        for code in found.shares.sum(0).argsort()[::-1][:10]:
            first, second = found.shares[:, code]
            say(f"{code:>6} {100 * first:>6.1f} % {100 * second:>6.1f} %")
        say(
            f"distance of the codes: {found.distance:.3f} (between halves of the first video {found.within[0]:.3f}, of "
            f"the second {found.within[1]:.3f}; 0: equal shares, 1: no code in common)"
        )
        for path in found.paths:
            say(f"wrote {path}")
