"""Commands that train latent action models and use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro

from otflam.commands.base import (
    NO_PREFIX,
    DataSet,
    Sharding,
    Sizes,
    backbone_of,
    checked_share,
    describe,
    first_episodes,
    required,
)
from otflam.core import SILENT, Hardware, Progress, TrainConfig, UserError, is_main_process
from otflam.lam import METHODS, Base, Method
from otflam.presets import get_preset
from otflam.report import ProgressBar, say
from otflam.tokenizer import PACKAGED

if TYPE_CHECKING:
    from otflam.data import Store
    from otflam.lam import Labels


@dataclass(frozen=True)
class LamTrain:
    """What the trainings of all methods share."""

    method: ClassVar[str]
    prefixes: ClassVar[bool] = True
    """Two parts of a model share names of options, such as --abstraction.dim and --predictor.dim."""

    data: DataSet
    model: Any
    train: Annotated[TrainConfig, NO_PREFIX]
    out: Path
    """Folder for the trained model; an interrupted training continues there."""
    share: float = 0.5
    """Share of the episodes, from the first on, to train on; the next ones are held out and show its health."""
    labels: int = 0
    """Labelled episodes whose actions the model hears while it learns; those that 'otflam policy train' would take."""
    label_seed: int = 0
    """Which episodes are labelled: as the --seed of 'otflam policy train'."""
    label_weight: float = 0.05
    """Weight of the error of the actions that a linear head reads, times the greatest weight of the method's own."""
    label_share: float = 0.25
    """Labelled transitions in a batch for each of the others."""
    views: Literal["none", "shift", "warp"] = "none"
    """Other views of every clip in training, all its frames alike: shifted a little; or shifted, turned and tilted."""
    hardware: Annotated[Hardware, NO_PREFIX] = field(default_factory=Hardware)
    preset: Sizes = "laptop"

    @classmethod
    def defaults(cls, name: str) -> LamTrain:
        preset = get_preset(name)
        model, training = preset.lam[cls.method], preset.lam_training[cls.method]
        command = cls(Path(), model, training, Path(), preset=name, **cls.more(name))
        base = () if METHODS[cls.method].base == MOTION else ("tokenizer", "low")  # a packaged vocabulary will do
        return required(command, *(name for name in ("data", "out", *base) if hasattr(command, name)))

    @classmethod
    def more(cls, name: str) -> dict[str, Any]:
        """Options that only some methods have."""
        return {}

    def run(self) -> None:
        self.train_with()

    def train_with(self, backbone: Any = None, online: bool = False, most: int | None = None) -> None:
        import numpy as np

        from otflam.core import read_json
        from otflam.data import Store, split_episodes
        from otflam.lam import HELD_OUT, train_lam
        from otflam.tokenizer import find_tokenizer

        if most is not None and most < 0:
            raise UserError(f"--episodes {most}", "give 0 for all, or how many")
        store, base = Store(self.data), getattr(self, "tokenizer", getattr(self, "low", None))
        base = find_tokenizer(base) if METHODS[self.method].base == MOTION else base
        train, held = split_episodes(store, checked_share(self.share), 1 - self.share)
        labels, training = self.heard(store)
        if labels is not None:  # these follow those to train on: the last ones are never labelled
            held = held[~np.isin(held, labels.episodes)][-HELD_OUT:]
        held = held[:HELD_OUT] if len(held) else train
        train = train[:most] if len(train) else held
        with ProgressBar(f"train {self.method}", "steps", quiet=not is_main_process()) as bar:
            train_lam(
                self.method, store, (train, held), self.model, training, self.hardware, self.out, base, backbone,
                online, bar, labels, self.views,
            )  # fmt: skip
        if is_main_process():
            where = " (on training episodes: none are held out)" if {*held.tolist()} & {*train.tolist()} else ""
            say(f"{self.method}: {read_json(self.out / 'health.json', 'train it again')['verdict']}{where}")
            say(f"model: {self.out}")

    def heard(self, store: Store) -> tuple[Labels | None, TrainConfig]:
        """The labels that the model hears, if any, and a training that weighs them."""
        from otflam.lam import labels_of, with_labels
        from otflam.policy import Splits

        if not self.labels:
            return None, self.train
        chosen = Splits.of(store).labelled(self.labels, self.label_seed)
        return labels_of(chosen, self.label_share), with_labels(self.train, self.label_weight)


@dataclass(frozen=True)
class LamTrainOnFeatures(LamTrain):
    """The training of a method that predicts features of a frozen backbone."""

    dino: str = "facebook/dinov2-small"
    """Folder or hub name of the DINOv2 backbone (see 'otflam dino prepare')."""
    episodes: int = 0
    """Train on at most this many episodes, for features are costly; 0: on all of the share."""
    online: bool = False
    """Run the backbone in every step instead of storing its features once."""

    @classmethod
    def more(cls, name: str) -> dict[str, Any]:
        preset = get_preset(name)
        return {"episodes": preset.featured, "online": preset.featured == 0}

    def run(self) -> None:
        from otflam.data import Store
        from otflam.lam import Backbone, features_cost

        backbone = Backbone.load(self.dino, self.model.size)
        if self.online and is_main_process():
            say(f"running {backbone.name} in every step; stored, {features_cost(Store(self.data), backbone, None)}")
        self.train_with(backbone, self.online, self.episodes or None)


MOTION: Base = "motion tokenizer"
BASES: dict[Base, tuple[str, str]] = {
    MOTION: ("tokenizer", "Folder of a trained tokenizer, or the name of a packaged one."),
    "frame tokenizer": ("tokenizer", "Folder of a trained frame tokenizer (see 'otflam tokenizer train-frames')."),
    "latent action model": ("low", "Folder of the trained low-level model (see 'otflam lam train lapo-64')."),
}
"""The option that names what a method stands on, and its help."""


def training_command(method: Method) -> type[LamTrain]:
    """The command that trains a method, made from its declaration."""
    kind: Any = method.config
    options: list[Any] = [("model", Annotated[kind, NO_PREFIX])]
    if method.base is not None:
        name, about = BASES[method.base]
        named: Any = Annotated[Path, tyro.conf.arg(help=about)]
        options.append((name, named, Path(PACKAGED[0] if method.base == MOTION else "")))
    facts = {"method": method.name, "__doc__": f"Train {method.summary}", "__module__": __name__}
    name = f"Train{method.name.title().replace('-', '')}"
    shared = LamTrainOnFeatures if method.features else LamTrain
    made: Any = make_dataclass(name, options, bases=(shared,), namespace=facts, frozen=True)
    return made


def training_commands() -> dict[str, type[LamTrain]]:
    """Of all methods, those of installed packages included."""
    return {f"lam train {name}": training_command(method) for name, method in METHODS.items()}


@dataclass(frozen=True)
class LamUse:
    """What the uses of a trained model share."""

    data: DataSet
    lam: Path
    """Folder of a trained latent action model."""
    dino: str | None = None
    """Folder or hub name of the DINOv2 backbone, for a model that predicts its features."""

    def backbone(self) -> Any:
        return backbone_of(self.lam, self.dino)


@dataclass(frozen=True)
class LamLabel(LamUse):
    """Compute the latent actions of all transitions of a data set once; they are kept beside it."""

    episodes: int = 0
    """Only for this many episodes, from the first on; 0: for all."""
    sharding: Sharding = field(default_factory=Sharding)

    def run(self) -> None:
        from otflam.data import Store
        from otflam.lam import has_base

        with ProgressBar(f"label {self.data}", "episodes") as bar:
            store = Store(self.data)
            chosen = first_episodes(store, self.episodes)
            if has_base(self.lam):
                self.sharding.derive(base_of_episodes, store, (self.lam,), None, bar)
            self.sharding.derive(label_episodes, store, (self.lam, self.dino), chosen, bar)
            latents = label_episodes(store, self.lam, self.dino, chosen, bar)
        describe(latents, store)


def base_of_episodes(store: Store, lam: Path, episodes: Sequence[int] | None) -> None:
    """What a model needs of the one that it stands on, for some episodes, on a GPU if there is one."""
    from otflam.core import device_of
    from otflam.lam import label_base

    label_base(store, lam, episodes, device_of(Hardware()))


def label_episodes(
    store: Store, lam: Path, dino: str | None, episodes: Sequence[int] | None, progress: Progress = SILENT
) -> Store:
    """The latents of some episodes, by a model that is loaded here, on a GPU if there is one."""
    from otflam.core import device_of
    from otflam.lam import label_store

    return label_store(store, lam, backbone_of(lam, dino), episodes, progress, device=device_of(Hardware()))


@dataclass(frozen=True)
class LamExport(LamUse):
    """Write the latent actions of a data set as one table: video, frame, time, latent and codes."""

    to: Literal["parquet", "npz"] = field(kw_only=True)
    """Format of the file; parquet needs the extra 'otflam[parquet]'."""
    out: Path = field(kw_only=True)
    """The file to write."""
    episodes: int = 0
    """Only of this many episodes, from the first on; 0: of all."""

    def run(self) -> None:
        from otflam.data import Store
        from otflam.lam import export_latents

        with ProgressBar(f"export {self.data}", "episodes") as bar:
            store, backbone = Store(self.data), self.backbone()
            chosen = first_episodes(store, self.episodes)
            rows = export_latents(store, self.lam, self.to, self.out, backbone, chosen, bar)
        say(f"wrote {self.out}: {rows} rows")


@dataclass(frozen=True)
class LamAudit(LamUse):
    """Ask a trained model what its latents say besides what happened: stillness, shifts, the scene, a rival."""

    def run(self) -> None:
        from otflam.data import Store
        from otflam.lam import AUDITS, audit_trained, audit_verdict

        with ProgressBar(f"audit {self.lam}", "episodes") as bar:
            found = audit_trained(Store(self.data), self.lam, self.backbone(), bar)
        for name in AUDITS:
            if name in found:
                say(f"{name:<14} {found[name]:6.3f}  {AUDITS[name]}")
        say(audit_verdict(found))


@dataclass(frozen=True)
class LamPredict(LamUse):
    """Draw what a model predicts: with the right latent, with another transition's, and over several steps."""

    out: Path = Path("predictions.png")
    """The picture."""
    samples: int = 6
    """Transitions to show."""
    steps: int = 8
    """Steps to predict from predictions, with the latents of the real transitions."""

    def run(self) -> None:
        from otflam.experiments import draw_predictions_of

        for path in draw_predictions_of(self.data, self.lam, self.backbone(), self.samples, self.steps, self.out):
            say(f"picture: {path}")


@dataclass(frozen=True)
class LamShow:
    """Draw what is inside a model: which slot of FLAM owns what, or the skills of HiLAM over time."""

    data: DataSet
    lam: Path
    """Folder of a trained FLAM or HiLAM."""
    out: Path = Path("inside.png")
    """The picture."""
    samples: int = 8
    """Frames to show slots on."""
    episode: int | None = None
    """The episode; by default the first that was held out from the training."""

    def run(self) -> None:
        from otflam.data import Store
        from otflam.report import draw_inside

        say(f"picture: {draw_inside(Store(self.data), self.lam, self.samples, self.episode, self.out)}")
