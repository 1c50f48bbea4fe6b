"""The settings that a run has stored, as the defaults of the command that trained it.

A run knows its settings and its episodes, but not where its data or the models that it stands on lie: these are given
anew. On the same data the same episodes are taken.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from otflam.core import ADDED, TrainConfig, UserError, from_json, read_json, to_json
from otflam.envs import Recipe
from otflam.policy import PolicyConfig

T = TypeVar("T")
Settings = Annotated[
    Path | None,
    tyro.conf.arg(name="config", help="The config.json of a run whose settings to take; options beside it win."),
]
AS_RECORDED = 0.0
"""A share of episodes: those of the run, on the same data; a half on others."""
SEED_AS_RECORDED = -1
HALF = 0.5
CURE = "give the config.json that such a run keeps in its folder"
PARTS_OF_LAM = ("frames", "tokenizer", "low", "backbone")
"""What a model stands on and sees: known by content, and given anew."""
PARTS_OF_MIXTURE = ("gap", "mixture")
"""What a vocabulary of several data sets learned from: given anew."""
OTHER = {True: "train", False: "reference"}
LABELS = "labels"


@dataclass(frozen=True)
class HeardLabels:
    """What a model heard while it learned."""

    episodes: tuple[int, ...]
    share: float


@dataclass(frozen=True)
class TrainedRun:
    """What the config.json of every training of a model says."""

    kind: str
    version: int
    model: Any
    data: str
    train: TrainConfig
    versions: dict[str, str]


@dataclass(frozen=True)
class Origin:
    """What the config.json of an agent says of how it was made."""

    data: str
    labelled: tuple[int, ...]
    unlabelled: tuple[int, ...]
    config: PolicyConfig
    versions: dict[str, str]
    stages: tuple[int, ...]
    lam: str | None = field(default=None, metadata=ADDED)
    grounding: str | None = field(default=None, metadata=ADDED)
    reference: str | None = field(default=None, metadata=ADDED)


def read_run(file: Path, kind: str) -> dict[str, Any]:
    """The JSON of a run of some kind."""
    values = read_json(file, CURE)
    if not isinstance(values, dict):
        raise UserError(f"{file} is no JSON object", CURE)
    if values.get("kind", "expert") != kind:
        raise UserError(f"{file} is not of the kind {kind!r}", CURE)
    return values


def tokenizer_run(file: Path, kind: str, model: type) -> Any:
    """The run of a tokenizer, with its `model` and `episodes`."""
    fields = [("model", model), ("episodes", tuple[int, ...])]
    values = {name: value for name, value in read_run(file, kind).items() if name not in PARTS_OF_MIXTURE}
    values.setdefault("episodes", [])  # a mixture has some of each of its data sets
    return from_json(make_dataclass("TokenizerRun", fields, bases=(TrainedRun,), frozen=True), values, str(file))


def lam_run(file: Path, method: str, model: type) -> Any:
    """The run of a latent action model."""
    values = read_run(file, "lam")
    if values.get("method") != method:
        raise UserError(f"{file} is of the method {values.get('method')!r}", "use 'otflam lam train' with that method")
    fields: list[Any] = [("model", model), ("method", str), ("episodes", tuple[tuple[int, ...], ...]), ("online", bool)]
    fields += [("labels", HeardLabels | None, field(default=None, metadata=ADDED))]
    fields += [("views", str, field(default="none", metadata=ADDED))]
    values = {name: value for name, value in values.items() if name not in PARTS_OF_LAM}
    shape = make_dataclass("LamRun", fields, bases=(TrainedRun,), frozen=True)
    return from_json(shape, values, str(file))


def lam_settings(file: Path, method: str, model: type) -> dict[str, Any]:
    """The options of the training of a latent action model that a run decides."""
    run = lam_run(file, method, model)
    found = {"model": run.model, "train": run.train, "views": run.views, "share": AS_RECORDED}
    if (heard := run.labels) is not None:
        found["train"], found["label_weight"] = unheard(run.train)
        found |= {"labels": len(heard.episodes), "label_share": heard.share, "label_seed": SEED_AS_RECORDED}
    return found


def unheard(train: TrainConfig) -> tuple[TrainConfig, float]:
    """A training without the weight of labels, and that weight as an option tells it: times the greatest other one."""
    weights = {name: weight for name, weight in train.weights.items() if name != LABELS}
    most, heard = max(weights.values()), train.weights[LABELS]
    told = heard / most
    near = (told, math.nextafter(told, math.inf), math.nextafter(told, 0))
    return replace(train, weights=weights), next((each for each in near if each * most == heard), told)


def agent_run(file: Path, preset: PolicyConfig, reference: bool = False) -> Origin:
    """How an agent was made; a part of its settings that decided nothing is that of the preset."""
    values = read_run(file, "agent").get("made_from")
    if not isinstance(values, dict) or not isinstance(values.get("config"), dict):
        raise UserError(f"{file} does not say how its agent was made", CURE)
    values = values | {"config": {"finetune": to_json(preset.finetune)} | values["config"]}
    run = from_json(Origin, values, f"{file}: made_from")
    if (run.reference is not None) != reference:
        raise UserError(f"{file} is of an agent that 'otflam policy {OTHER[reference]}' trained", "use that command")
    return run


def expert_run(file: Path) -> tuple[Recipe, int]:
    """The recipe and the seed of an expert."""
    values = read_run(file, "expert")
    recipe = {name: value for name, value in values.items() if name not in ("task", "seed")}
    if not isinstance(values.get("seed"), int):
        raise UserError(f"{file} has no seed", CURE)
    return from_json(Recipe, recipe, str(file)), values["seed"]


def others(count: int, episodes: Collection[int]) -> list[int]:
    """The episodes of a data set that are not among some."""
    return sorted(set(range(count)) - set(episodes))
