"""Commands that train tokenizers and use them."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from otflam.commands.base import checked_share, describe, required
from otflam.core.training import Hardware, TrainConfig
from otflam.presets import preset
from otflam.report.progress import Progress, say
from otflam.tokenizer.config import FrameTokenizerConfig, TokenizerConfig


@dataclass(frozen=True)
class TokenizerTrain:
    """Train a motion tokenizer on a data set."""

    data: tyro.conf.Positional[Path]
    """The data set."""
    model: TokenizerConfig
    train: TrainConfig
    out: Path
    """Folder for the trained tokenizer; an interrupted training continues there."""
    share: float = 0.5
    """Share of the episodes, from the first on, to train on (at least one); the rest is held out."""
    hardware: Hardware = field(default_factory=Hardware)
    preset: str = "laptop"
    """Sizes to start from: tiny, demo, laptop or paper; other options override it."""

    @classmethod
    def defaults(cls, name: str) -> TokenizerTrain:
        chosen = preset(name)
        command = cls(Path(), chosen.tokenizer, chosen.tokenizer_training, Path(), preset=name)
        return required(required(command, "data"), "out")

    def run(self) -> None:
        from otflam.data.clips import split_episodes
        from otflam.data.store import Store
        from otflam.tokenizer.build import collapse_warning, train_tokenizer

        store = Store(self.data)
        rows: list[dict[str, float]] = []
        model, train = self.model, self.train
        if store.columns["frames"].shape[-1] == 1 and model.channels == 3:  # digits have their own grid and stride
            chosen = preset(self.preset)
            model = rebase(model, chosen.tokenizer, chosen.digit_tokenizer)
            train = rebase(train, chosen.tokenizer_training, chosen.digit_training)
        episodes = split_episodes(store, checked_share(self.share), 1 - self.share)[0]
        episodes = episodes if len(episodes) else [0]  # a single video trains and is not held out
        first = os.environ.get("LOCAL_RANK", "0") == "0"  # of the processes that train together, one speaks
        with Progress(f"train {model.method} tokenizer", "steps", quiet=not first) as bar:

            def log(row: dict[str, float]) -> None:
                rows.append(row)
                bar.log(row)

            trained = train_tokenizer(
                store, episodes, model, train, self.hardware, self.out, bar.start, bar.advance, log
            )
        if first and (warning := collapse_warning(trained, rows)) is not None:
            say(f"warning: {warning}")
        if first:
            say(f"tokenizer: {self.out}")


@dataclass(frozen=True)
class TokenizerTrainFrames:
    """Train the tokenizer of frames that FLAM works on."""

    data: tyro.conf.Positional[Path]
    """The data set."""
    model: FrameTokenizerConfig
    train: TrainConfig
    out: Path
    """Folder for the trained tokenizer; an interrupted training continues there."""
    share: float = 0.5
    """Share of the episodes, from the first on, to train on (at least one)."""
    hardware: Hardware = field(default_factory=Hardware)
    preset: str = "laptop"
    """Sizes to start from: tiny, demo, laptop or paper; other options override it."""

    @classmethod
    def defaults(cls, name: str) -> TokenizerTrainFrames:
        chosen = preset(name)
        command = cls(Path(), chosen.frame_tokenizer, chosen.frame_training, Path(), preset=name)
        return required(required(command, "data"), "out")

    def run(self) -> None:
        from otflam.data.clips import split_episodes
        from otflam.data.store import Store
        from otflam.tokenizer.build import train_frame_tokenizer

        store = Store(self.data)
        episodes = split_episodes(store, checked_share(self.share), 1 - self.share)[0]
        episodes = episodes if len(episodes) else [0]
        first = os.environ.get("LOCAL_RANK", "0") == "0"
        with Progress("train frame tokenizer", "steps", quiet=not first) as bar:
            train_frame_tokenizer(
                store, episodes, self.model, self.train, self.hardware, self.out, bar.start, bar.advance, bar.log
            )
        if first:
            say(f"frame tokenizer: {self.out}")


def rebase(chosen: Any, old: Any, new: Any) -> Any:
    """Settings that differ from one set of defaults, on top of another set."""
    if not dataclasses.is_dataclass(chosen):
        return new if chosen == old else chosen
    names = [field.name for field in dataclasses.fields(chosen)]
    return type(chosen)(**{name: rebase(*(getattr(part, name) for part in (chosen, old, new))) for name in names})


@dataclass(frozen=True)
class TokenizerShow:
    """Draw a vocabulary: motion inputs, codebook, code assignments, atlas of codes, redrawn motion."""

    data: tyro.conf.Positional[Path]
    """The data set to show it on."""
    tokenizer: Path
    """Folder of a trained tokenizer."""
    out: Path
    """Folder for the pictures."""
    against: Path | None = None
    """Folder of another tokenizer, e.g. a monolithic one, to compare redrawn motion with."""

    def run(self) -> None:
        from otflam.experiments.pictures import draw_vocabulary

        for path in draw_vocabulary(self.data, self.tokenizer, self.against, self.out):
            say(f"picture: {path}")


@dataclass(frozen=True)
class Tokenize:
    """Turn any video into motion codes: the codes, an overlay video and a contact sheet."""

    video: tyro.conf.Positional[Path]
    """A video file, or a folder of images."""
    out: Path
    """Folder for codes.npy, overlay.mp4 and sheet.png."""
    tokenizer: Path | None = None
    """Folder of a trained tokenizer; by default the one that comes with the package."""

    def run(self) -> None:
        from otflam.experiments.tokenize import tokenize_video

        for path in tokenize_video(self.video, self.out, self.tokenizer):
            say(f"wrote {path}")


@dataclass(frozen=True)
class TokenizerEncode:
    """Compute all codes of a data set once; they are kept beside it."""

    data: tyro.conf.Positional[Path]
    """The data set."""
    tokenizer: Path
    """Folder of a trained tokenizer."""

    def run(self) -> None:
        from otflam.data.store import Store
        from otflam.tokenizer.encode import encode_store

        with Progress(f"encode {self.data}", "episodes") as bar:
            codes = encode_store(Store(self.data), self.tokenizer, bar.reach)
        describe(codes)
