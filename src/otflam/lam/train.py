"""Training of latent action models, all by one path."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from otflam.core import (
    SILENT,
    SMALLER_STEPS,
    Feed,
    Hardware,
    Machine,
    Progress,
    TrainConfig,
    UserError,
    launch,
    read_json,
    stable_hash,
    to_json,
    train_into,
    write_json,
)
from otflam.data import Clips, DatasetClips, RandomBatches, Store
from otflam.lam.audit import BATCHES as AUDIT_BATCHES, audit, audit_verdict
from otflam.lam.build import LAM_KIND, build_lam, describe_parts, find_parts, load_lam
from otflam.lam.features import Backbone
from otflam.lam.health import check_health, check_size, verdict
from otflam.lam.labels import HeardClips, Labels, let_hear
from otflam.lam.method import ModelConfig
from otflam.lam.model import LAM, Parts
from otflam.lam.views import Views, let_vary

LAM_VERSION = 2
"""Bump when training would give other weights: then nothing trained before is taken for its result."""


def train_lam(
    method: str,
    store: Store,
    split: tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray],
    config: ModelConfig,
    train: TrainConfig,
    hardware: Hardware,
    out: Path,
    base: Path | None = None,
    backbone: Backbone | None = None,
    online: bool = False,
    progress: Progress = SILENT,
    labels: Labels | None = None,
    views: Views = "none",
) -> LAM:
    """Train on the first part of a `split` and watch the model's health on the second; or continue, or find it done.

    `base` is the folder of the trained model that this one works on, if it does: a tokenizer or a low-level model.
    With `labels` it hears the actions of some episodes, and `train` must have a weight for that. Other `views` of clips
    have no stored features, so that a backbone then runs in every step.
    """
    if "frames" not in store:
        raise UserError(f"{store.path} has no frames", "give a data set")
    height, width, colours = store.columns["frames"].shape
    begun = begin(method, (height, width, colours), config, train, hardware, base, backbone)
    model, heard = begun.model, () if labels is None else labels.episodes
    used = np.concatenate([np.asarray(episodes, np.int64) for episodes in (*split, heard)])
    about: dict[str, Any] = {"data": store.hash}
    about |= {"episodes": [[int(index) for index in episodes] for episodes in split]}
    if labels is not None:
        if not set(heard).isdisjoint(used[: len(used) - len(heard)].tolist()):
            raise UserError("labelled episodes that are among the others", "label others, and hold out others")
        let_hear(model, store)
        about["labels"] = to_json(labels)
    for episodes in split:
        Clips(store, model.training_offsets, (), episodes)  # refuses data that do not fit before anything is written
    check_base(base, store, split[1])
    columns: dict[str, Store] = {}
    online = online or views != "none"

    def clips(number: int) -> Clips:
        return Clips(store, model.training_offsets, (), split[number], columns)

    def feed() -> Feed:
        if labels is None:
            return clips(0)
        labelled = Clips(store, model.training_offsets, ("actions",), labels.episodes, columns)
        return HeardClips(clips(0), labelled, labels.share)

    def prepare() -> None:
        columns.update(model.columns(begun.parts, store, used, progress, online))

    return train_on(begun, feed, lambda: clips(1), out, about | {"online": online}, prepare, progress, views)


def train_on_dataset(
    method: str,
    datasets: tuple[Any, Any],
    config: ModelConfig,
    train: TrainConfig,
    out: str | Path,
    hardware: Hardware | None = None,
    base: Path | None = None,
    backbone: Backbone | None = None,
    progress: Progress = SILENT,
    views: Views = "none",
) -> LAM:
    """The same on two map-style torch datasets of clips (data/clips.py::DatasetClips): to train on, and to watch."""
    if not all(map(len, datasets)):
        raise UserError("a dataset without clips", "give at least one to train on and one to watch")
    first = datasets[0][0]
    frames = first["frames"] if isinstance(first, Mapping) else first
    if getattr(frames, "ndim", 0) != 4:
        raise UserError("an item of the dataset that is no clip", "give frames [time, height, width, channel] as bytes")
    height, width, colours = frames.shape[1:]
    begun = begin(method, (height, width, colours), config, train, hardware or Hardware(), base, backbone)
    clips = [DatasetClips(dataset, begun.model.training_offsets) for dataset in datasets]
    about = {"data": stable_hash([each.hash for each in clips]), "episodes": [[], []], "online": True}
    return train_on(begun, lambda: clips[0], lambda: clips[1], Path(out), about, None, progress, views)


class Begun(NamedTuple):
    """A fresh model and what it is trained with."""

    method: str
    model: LAM
    config: ModelConfig
    train: TrainConfig
    parts: Parts
    fabric: Machine


def begin(
    method: str,
    frames: tuple[int, int, int],
    config: ModelConfig,
    train: TrainConfig,
    hardware: Hardware,
    base: Path | None,
    backbone: Backbone | None,
) -> Begun:
    """Build a model on its parts, from the seed of its training."""
    parts, fabric = find_parts(method, frames, base, backbone), launch(hardware)
    torch.manual_seed(train.seed)
    return Begun(method, build_lam(method, config, parts), config, train, parts, fabric)


def train_on(
    begun: Begun,
    clips: Callable[[], Feed],
    held_out: Callable[[], RandomBatches],
    out: Path,
    about: dict[str, Any],
    prepare: Callable[[], None] | None,
    progress: Progress,
    views: Views,
) -> LAM:
    """Train on clips and watch the model's health on others; `prepare` computes what is frozen, if anything is."""
    method, model, config, train, parts, fabric = begun
    facts = {"kind": LAM_KIND, "version": LAM_VERSION, "method": method, "model": to_json(config), **about}
    facts |= describe_parts(method, parts) | ({} if views == "none" else {"views": views})
    let_vary(model, views)

    def feed() -> Feed:
        if parts.backbone is not None:
            parts.backbone.to(fabric.device)
        if prepare is not None:
            prepare()
        progress.part(f"train {method}", "steps")
        return clips()

    def check() -> dict[str, float]:
        # More than once a training: whether the latent matters shows early, and is what one wants to know.
        return check_health(model, held_out(), *check_size(train.save_every * train.batch, 2))

    def finish() -> None:
        size = check_size(train.steps * train.batch)
        health = check_health(model, held_out(), *size)
        health |= audit(model, held_out(), min(size[0], AUDIT_BATCHES), size[1])
        if not all(map(math.isfinite, health.values())):
            raise UserError("the trained model's predictions are not finite", SMALLER_STEPS)
        write_json(out / "health.json", {**health, "verdict": f"{verdict(health)}; {audit_verdict(health)}"})

    def load() -> LAM:
        return load_lam(out, parts.backbone)[0]

    return train_into(out, facts, model, feed, train, fabric, load, progress, check, finish)


def check_base(base: Path | None, store: Store, held: Sequence[int] | np.ndarray) -> None:
    """Refuse a tokenizer or low-level model that has seen the episodes on which this model is to be judged."""
    if base is None:
        return
    about = read_json(base / "config.json", "give the folder of a trained model")
    seen = about.get("episodes", [])  # a copy made in Python does not tell
    seen = seen[0] if about["kind"] == LAM_KIND else seen
    if about.get("data") == store.hash and not set(seen).isdisjoint(int(index) for index in held):
        raise UserError(f"{base} was trained on episodes that are held out here", "train it with the same --share")
