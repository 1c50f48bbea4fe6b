"""Training of latent action models, all by one path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from otflam.core import (
    SILENT,
    SMALLER_STEPS,
    Hardware,
    Progress,
    TrainConfig,
    UserError,
    launch,
    read_json,
    to_json,
    train_into,
    write_json,
)
from otflam.data import Clips, Store
from otflam.lam.build import LAM_KIND, build_lam, describe_parts, find_parts, load_lam
from otflam.lam.features import Backbone
from otflam.lam.health import check_health, check_size, verdict
from otflam.lam.method import ModelConfig
from otflam.lam.model import LAM

LAM_VERSION = 1
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
) -> LAM:
    """Train on the first part of a `split` and watch the model's health on the second; or continue, or find it done.

    `base` is the folder of the trained model that this one works on, if it does: a tokenizer or a low-level model.
    """
    parts = find_parts(method, store, base, backbone)
    fabric = launch(hardware)
    torch.manual_seed(train.seed)
    model = build_lam(method, config, parts)
    used = np.concatenate([np.asarray(episodes) for episodes in split])
    about = {"kind": LAM_KIND, "version": LAM_VERSION, "method": method, "model": to_json(config), "data": store.hash}
    about |= {"episodes": [[int(index) for index in episodes] for episodes in split], "online": online}
    about |= describe_parts(method, parts)
    for episodes in split:
        Clips(store, model.training_offsets, (), episodes)  # refuses data that do not fit before anything is written
    check_base(base, store, split[1])
    columns: dict[str, Store] = {}

    def clips(number: int) -> Clips:
        return Clips(store, model.training_offsets, (), split[number], columns)

    def feed() -> Clips:
        if backbone is not None:
            backbone.to(fabric.device)
        columns.update(model.columns(parts, store, used, progress, online))
        progress.part(f"train {method}", "steps")
        return clips(0)

    def check() -> dict[str, float]:
        # More than once a training: whether the latent matters shows early, and is what one wants to know.
        return check_health(model, clips(1), *check_size(train.save_every * train.batch, 2))

    def finish() -> None:
        health = check_health(model, clips(1), *check_size(train.steps * train.batch))
        if not all(map(math.isfinite, health.values())):
            raise UserError("the trained model's predictions are not finite", SMALLER_STEPS)
        write_json(out / "health.json", {**health, "verdict": verdict(health)})

    return train_into(
        out, about, model, feed, train, fabric, lambda: load_lam(out, backbone)[0], progress, check, finish
    )


def check_base(base: Path | None, store: Store, held: Sequence[int] | np.ndarray) -> None:
    """Refuse a tokenizer or low-level model that has seen the episodes on which this model is to be judged."""
    if base is None:
        return
    told = read_json(base / "config.json", "give the folder of a trained model")
    seen = told.get("episodes", [])  # a copy made in Python does not tell
    seen = seen[0] if told["kind"] == LAM_KIND else seen
    if told.get("data") == store.hash and not set(seen).isdisjoint(int(index) for index in held):
        raise UserError(f"{base} was trained on episodes that are held out here", "train it with the same --share")
