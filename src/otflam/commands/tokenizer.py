"""Commands that train tokenizers and use them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from otflam.commands.base import DataSet, Sharding, Sizes, checked_share, describe, required
from otflam.core import Hardware, TrainConfig, UserError, is_main_process
from otflam.presets import get_preset
from otflam.report import ProgressBar, say
from otflam.tokenizer import FrameTokenizerConfig, TokenizerConfig


@dataclass(frozen=True)
class TokenizerTraining:
    """What the trainings of both kinds of tokenizers share."""

    data: DataSet
    model: Any
    train: TrainConfig
    out: Path
    """Folder for the trained tokenizer; an interrupted training continues there."""
    share: float = 0.5
    """Share of the episodes, from the first on, to train on (at least one); the rest is held out."""
    hardware: Hardware = field(default_factory=Hardware)
    preset: Sizes = "laptop"

    @classmethod
    def of(cls, name: str, model: Any, train: TrainConfig) -> Any:
        return required(cls(Path(), model, train, Path(), preset=name), "data", "out")

    def episodes(self, store: Any) -> tuple[Any, Any]:
        """Those that train, and those that are held out."""
        from otflam.data import split_episodes

        train, held = split_episodes(store, checked_share(self.share), 1 - self.share)
        return train if len(train) else [0], held if len(train) else []  # a single video trains and is not held out

    def held_out_clips(self, clips: Callable[[Any], Any], episodes: Any, held: Any) -> tuple[Any, Any]:
        """Clips of the held-out episodes, or where these are none, or too short, of the others."""
        try:
            return clips(held), held
        except UserError:
            return clips(episodes), []

    def measured_clips(self, train: TrainConfig) -> int:
        """Clips that the result is measured on: a small share of what was trained on, and no more than a record has."""
        return max(8, min(1500, train.steps * train.batch // 8))

    def say_quality(self, error: float | None, held: Any, what: str) -> None:
        """How much is redrawn, and whether that is enough."""
        if error is None:
            say("nothing moves in these episodes, so that there is nothing to redraw")
        else:
            where = "held out" if len(held) else "on training episodes (none are held out)"
            worse = "worse than drawing nothing" if error >= 1 else "much is lost" if error > 0.5 else ""
            advice = f": {worse}; train longer, or on more data" if worse else ""
            say(f"{where}: {max(0, 100 * (1 - error)):.0f} % of the {what} is redrawn (nMSE {error:.2f}){advice}")


@dataclass(frozen=True)
class TokenizerTrain(TokenizerTraining):
    """Train a motion tokenizer on a data set."""

    model: TokenizerConfig

    @classmethod
    def defaults(cls, name: str) -> TokenizerTrain:
        return cls.of(name, get_preset(name).tokenizer, get_preset(name).tokenizer_training)

    def run(self) -> None:
        from otflam.core import leave_process_group
        from otflam.data import Store
        from otflam.evaluate import mean_energy, reconstruction
        from otflam.tokenizer import collapse_warning, motion_clips, train_tokenizer

        store = Store(self.data)
        episodes, held = self.episodes(store)
        model, train = self.model, self.train
        if store.columns["frames"].shape[-1] == 1 and model.channels == 3:  # digits have their own grid and stride
            preset = get_preset(self.preset)
            model = rebase(model, preset.tokenizer, preset.digit_tokenizer)
            train = rebase(train, preset.tokenizer_training, preset.digit_training)
        with ProgressBar(f"train {model.method} tokenizer", "steps", quiet=not is_main_process()) as bar:
            trained = train_tokenizer(store, episodes, model, train, self.hardware, self.out, bar)
        if not is_main_process():
            return
        leave_process_group()
        if (warning := collapse_warning(trained, bar.rows)) is not None:
            say(f"warning: {warning}")
        unseen, held = self.held_out_clips(lambda some: motion_clips(store, model, some), episodes, held)
        count = self.measured_clips(train)
        moves = mean_energy(trained, unseen, count) > 0
        self.say_quality(reconstruction(trained, unseen, count)["nmse"] if moves else None, held, "motion")
        say(f"tokenizer: {self.out}")


@dataclass(frozen=True)
class TokenizerTrainFrames(TokenizerTraining):
    """Train the tokenizer of frames that FLAM works on."""

    model: FrameTokenizerConfig

    @classmethod
    def defaults(cls, name: str) -> TokenizerTrainFrames:
        return cls.of(name, get_preset(name).frame_tokenizer, get_preset(name).frame_training)

    def run(self) -> None:
        from otflam.data import Store
        from otflam.tokenizer import frame_clips, frame_error, train_frame_tokenizer

        store = Store(self.data)
        episodes, held = self.episodes(store)
        with ProgressBar("train frame tokenizer", "steps", quiet=not is_main_process()) as bar:
            trained = train_frame_tokenizer(store, episodes, self.model, self.train, self.hardware, self.out, bar)
        if not is_main_process():
            return
        unseen, held = self.held_out_clips(lambda some: frame_clips(store, self.model, some), episodes, held)
        self.say_quality(frame_error(trained, unseen, self.measured_clips(self.train)), held, "frames' variance")
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
        from otflam.experiments import draw_vocabulary

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
    cuts: bool = True
    """Look for cuts between shots; no motion spans one, and shots.csv tells where they are."""

    def run(self) -> None:
        with ProgressBar(f"tokenize {self.video}", "frames") as bar:
            bar.note("loading the tokenizer")  # at once, for it takes seconds
            from otflam.experiments import tokenize_video, verdict

            found = tokenize_video(self.video, self.out, self.tokenizer, bar, self.cuts)
        for path in found.paths:
            say(f"wrote {path}")
        say(verdict(found, self.video, self.tokenizer is not None))


@dataclass(frozen=True)
class TokenizerEncode:
    """Compute all codes of a data set once; they are kept beside it."""

    data: DataSet
    tokenizer: Path
    """Folder of a trained tokenizer."""
    sharding: Sharding = field(default_factory=Sharding)

    def run(self) -> None:
        from otflam.data import Store
        from otflam.tokenizer import encode_store

        with ProgressBar(f"encode {self.data}", "episodes") as bar:
            store = Store(self.data)
            self.sharding.derive(encode_store, store, (self.tokenizer,), None, bar)
            codes = encode_store(store, self.tokenizer, bar)
        describe(codes, store)
