"""Commands that train tokenizers and use them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from otflam.commands.base import DataSet, Sharding, Sizes, altered, checked_share, describe, required
from otflam.commands.settings import AS_RECORDED, HALF, Settings, others, tokenizer_run
from otflam.core import Hardware, TrainConfig, UserError, is_main_process
from otflam.presets import get_preset
from otflam.report import ProgressBar, say
from otflam.tokenizer import PACKAGED, FrameTokenizerConfig, TokenizerConfig


@dataclass(frozen=True)
class TokenizerTraining:
    """What the trainings of both kinds of tokenizers share."""

    data: Any
    model: Any
    train: TrainConfig
    out: Path
    """Folder for the trained tokenizer; an interrupted training continues there."""
    share: float = HALF
    """Share of the episodes, from the first on, to train on (at least one); the rest is held out."""
    hardware: Hardware = field(default_factory=Hardware)
    preset: Sizes = "laptop"
    settings: Settings = None
    kind: ClassVar[str]

    @classmethod
    def of(cls, name: str, model: Any, train: TrainConfig) -> Any:
        return required(cls(Path(), model, train, Path(), preset=name), "data", "out")

    def configured(self, file: Path) -> Any:
        """The same with the settings of a run."""
        run = tokenizer_run(file, self.kind, type(self.model))
        return altered(self, model=run.model, train=run.train, share=AS_RECORDED)

    def episodes(self, store: Any) -> tuple[Any, Any]:
        """Those that train, and those that are held out."""
        from otflam.data import split_episodes

        share = self.share
        if self.settings is not None and share == AS_RECORDED:
            run, share = tokenizer_run(self.settings, self.kind, type(self.model)), HALF
            if run.data == store.hash:
                return run.episodes, others(len(store), run.episodes)
        train, held = split_episodes(store, checked_share(share), 1 - share)
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
    """Train a motion tokenizer on a data set, or on several at once."""

    kind: ClassVar[str] = "tokenizer"
    data: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """The data sets; frames of several are brought to one size and three colours."""
    model: TokenizerConfig
    weights: tuple[float, ...] = ()
    """How much each data set counts; by default all alike."""
    gap: str | None = None
    """Seconds between the frames of a motion, drawn for every clip, such as 0.05..0.2; by default --stride frames."""

    @classmethod
    def defaults(cls, name: str) -> TokenizerTrain:
        preset = get_preset(name)
        return required(cls((), preset.tokenizer, preset.tokenizer_training, Path(), preset=name), "out")

    def run(self) -> None:
        from otflam.core import leave_process_group
        from otflam.data import Store
        from otflam.evaluate import mean_energy, reconstruction
        from otflam.tokenizer import (
            Portion,
            collapse_warning,
            mix_motion,
            motion_clips,
            train_on_mixture,
            train_tokenizer as train_on_one,
        )

        if not self.data:
            raise UserError("no data set is named", "give the folder of one, or of several")
        stores, gap = [Store(path) for path in self.data], parse_gap(self.gap)
        splits = [self.episodes(store) for store in stores]
        model, train = self.model, self.train
        alone = len(stores) == 1 and gap is None
        if alone and stores[0].columns["frames"].shape[-1] == 1 and model.channels == 3:
            preset = get_preset(self.preset)  # digits have their own grid and stride
            model = rebase(model, preset.tokenizer, preset.digit_tokenizer)
            train = rebase(train, preset.tokenizer_training, preset.digit_training)
        weights = self.weights or (1.0,) * len(stores)
        if len(weights) != len(stores):
            raise UserError(f"{len(weights)} weights for {len(stores)} data sets", "give one for each, in their order")
        with ProgressBar(f"train {model.method} tokenizer", "steps", quiet=not is_main_process()) as bar:
            if alone:
                trained = train_on_one(stores[0], splits[0][0], model, train, self.hardware, self.out, bar)
            else:
                parts = [Portion(*each) for each in zip(stores, (used for used, _ in splits), weights, strict=True)]
                trained = train_on_mixture(parts, gap, model, train, self.hardware, self.out, bar)
        if not is_main_process():
            return
        leave_process_group()
        if (warning := collapse_warning(trained, bar.rows)) is not None:
            say(f"warning: {warning}")

        def clips(store: Store, some: Any) -> Any:
            return motion_clips(store, model, some) if alone else mix_motion([Portion(store, some)], None, model)

        for store, (episodes, held) in zip(stores, splits, strict=True):
            if not alone:
                say(f"{store.path}:")
            unseen, held = self.held_out_clips(lambda some, store=store: clips(store, some), episodes, held)
            count = self.measured_clips(train)
            moves = mean_energy(trained, unseen, count) > 0
            self.say_quality(reconstruction(trained, unseen, count)["nmse"] if moves else None, held, "motion")
        say(f"tokenizer: {self.out}")


def parse_gap(text: str | None) -> Any:
    """Two numbers of seconds with two dots between them."""
    from otflam.tokenizer import Gap

    if text is None:
        return None
    try:
        least, most = map(float, text.split(".."))
    except ValueError:
        least = most = math.nan
    if not 0 < least <= most < math.inf:
        raise UserError(f"--gap {text}", "give the shortest and the longest time in seconds, such as 0.05..0.2")
    return Gap(least, most)


@dataclass(frozen=True)
class TokenizerTrainFrames(TokenizerTraining):
    """Train the tokenizer of frames that FLAM works on."""

    kind: ClassVar[str] = "frame tokenizer"
    data: DataSet
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
    out: Path
    """Folder for the pictures."""
    tokenizer: Path | None = None
    """Folder of a trained tokenizer, or a packaged one: motion-general-64 (default), motion-general-256, walker-run."""
    against: Path | None = None
    """Folder of another tokenizer, e.g. a monolithic one, to compare redrawn motion with."""

    def run(self) -> None:
        from otflam.experiments import draw_vocabulary
        from otflam.tokenizer import find_tokenizer

        for path in draw_vocabulary(self.data, find_tokenizer(self.tokenizer), self.against, self.out):
            say(f"picture: {path}")


@dataclass(frozen=True)
class Tokenize:
    """Turn any video into motion codes: the codes, an overlay video and a contact sheet."""

    video: tyro.conf.Positional[Path]
    """A video file, or a folder of images."""
    out: Path
    """Folder for codes.npy, overlay.mp4 and sheet.png."""
    tokenizer: Path | None = None
    """Folder of a trained tokenizer, or a packaged one: motion-general-64 (default), motion-general-256, walker-run."""
    cuts: bool = True
    """Look for cuts between shots; no motion spans one, and shots.csv tells where they are."""

    def run(self) -> None:
        with ProgressBar(f"tokenize {self.video}", "frames") as bar:
            bar.note("loading the tokenizer")  # at once, for it takes seconds
            from otflam.experiments import tokenize_video, verdict

            found = tokenize_video(self.video, self.out, self.tokenizer, bar, self.cuts)
        for path in found.paths:
            say(f"wrote {path}")
        own = self.tokenizer is not None and str(self.tokenizer) not in PACKAGED
        say(verdict(found, self.video, own))


@dataclass(frozen=True)
class TokenizerEncode:
    """Compute all codes of a data set once; they are kept beside it."""

    data: DataSet
    tokenizer: Path
    """Folder of a trained tokenizer, or the name of a packaged one."""
    sharding: Sharding = field(default_factory=Sharding)

    def run(self) -> None:
        from otflam.data import Store
        from otflam.tokenizer import encode_store, find_tokenizer

        with ProgressBar(f"encode {self.data}", "episodes") as bar:
            store, folder = Store(self.data), find_tokenizer(self.tokenizer)
            self.sharding.derive(encode_store, store, (folder,), None, bar)
            codes = encode_store(store, folder, bar)
        describe(codes, store)
