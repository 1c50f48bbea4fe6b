"""Commands that train latent action models and use them."""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro

from otflam.commands.base import (
    NO_PREFIX,
    DataSet,
    Sharding,
    Sizes,
    altered,
    backbone_of,
    base_of_episodes,
    checked_share,
    describe,
    first_episodes,
    label_episodes,
    required,
)
from otflam.commands.settings import AS_RECORDED, HALF, SEED_AS_RECORDED, Settings, lam_run, lam_settings
from otflam.core import Hardware, TrainConfig, UserError, is_main_process
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
    share: float = HALF
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
    settings: Settings = None

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

    def configured(self, file: Path) -> LamTrain:
        """The same with the settings of a run."""
        return altered(self, **lam_settings(file, self.method, type(self.model)))

    def recorded(self, store: Store) -> Any:
        """The run whose settings are taken, if it was on the same data."""
        run = lam_run(self.settings, self.method, type(self.model)) if self.settings else None
        return run if run is not None and run.data == store.hash else None

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
        as_recorded = self.settings is not None and self.share == AS_RECORDED
        recorded, share = (self.recorded(store), HALF) if as_recorded else (None, self.share)
        train, held = split_episodes(store, checked_share(share), 1 - share)
        labels, training = self.heard(store)
        if recorded is not None:
            train, held = (np.array(episodes) for episodes in recorded.episodes)
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
            apart = set(held.tolist()).isdisjoint(train.tolist())
            where = "" if apart else " (on training episodes: none are held out)"
            say(f"{self.method}: {read_json(self.out / 'health.json', 'train it again')['verdict']}{where}")
            say(f"model: {self.out}")

    def heard(self, store: Store) -> tuple[Labels | None, TrainConfig]:
        """The labels that the model hears, if any, and a training that weighs them."""
        from otflam.lam import labels_of, with_labels
        from otflam.policy import Splits

        if not self.labels:
            return None, self.train
        run = self.recorded(store) if self.label_seed == SEED_AS_RECORDED else None
        known = run.labels.episodes if run is not None and run.labels is not None else ()
        drawn = Splits.of(store).labelled(self.labels, max(self.label_seed, 0))
        chosen = known if len(known) == self.labels else drawn
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

    def configured(self, file: Path) -> LamTrain:
        run = lam_run(file, self.method, type(self.model))
        return altered(super().configured(file), episodes=len(run.episodes[0]), online=run.online)

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
