"""Labels inside the training of any method: a linear head must read the actions of a few episodes from the latents.

A labelled part comes with every batch. The head is thrown away afterwards: what it leaves are latents that name the
agent's actions rather than whatever else moves.

Axes: b transitions, a actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from otflam.core import Batch, Terms, TrainConfig, UserError
from otflam.data import RandomBatches, Store
from otflam.lam.model import LAM

LABELS = "labels"
"""The loss of what the head says."""
OTHER_ORDER = 1
"""Added to the seed: labelled clips come in an order of their own."""


WEIGHT, SHARE = 0.05, 0.25
"""Weight of what the head says, and labelled transitions in a batch for each other one: the same for all methods."""


@dataclass(frozen=True)
class Labels:
    """Episodes whose actions a model hears while it learns."""

    episodes: tuple[int, ...]
    share: float = SHARE
    """Labelled transitions in a batch for each of the others."""

    def __post_init__(self) -> None:
        if not self.episodes:
            raise UserError("no labelled episodes to hear", "give at least one")
        if not 0 < self.share <= 1:
            raise UserError(f"--label-share {self.share}", "give a number above 0, up to 1")


def labels_of(episodes: Sequence[int] | np.ndarray, share: float = SHARE) -> Labels:
    """Labels of some episodes, in one order whoever names them."""
    return Labels(tuple(sorted(int(index) for index in episodes)), share)


def with_labels(train: TrainConfig, weight: float = WEIGHT) -> TrainConfig:
    """A training that weighs what is heard against the method's own losses, whose scales differ."""
    return replace(train, weights=train.weights | {LABELS: weight * max(train.weights.values())})


class Heard(NamedTuple):
    """A batch and its labelled part."""

    clips: Batch
    labelled: Batch

    def to(self, device: torch.device) -> Heard:
        return Heard(self.clips.to(device), self.labelled.to(device))


class HeardClips:
    """Feeds both parts, each a pure function of (seed, step)."""

    def __init__(self, clips: RandomBatches, labelled: RandomBatches, share: float) -> None:
        self.clips, self.labelled, self.share = clips, labelled, share

    def batch(self, size: int, seed: int, step: int, rank: int, world: int) -> Heard:
        few = max(round(self.share * size / world), 1) * world  # every process hears as many
        return Heard(
            self.clips.batch(size, seed, step, rank, world),
            self.labelled.batch(few, seed + OTHER_ORDER, step, rank, world),
        )


def choices_in(store: Store) -> int:
    """How many actions there are to choose from; 0 where they are numbers."""
    if "actions" not in store:
        raise UserError(f"{store.path} has no actions", "give labelled data, or leave out --labels")
    return int(store.meta.get("action_choices", 0))


def let_hear(model: LAM, store: Store) -> None:
    """Give a model a head, and an objective that hears labels where they come with a batch."""
    choices = choices_in(store)
    model.label_head = nn.Linear(model.latent, choices or store.columns["actions"].shape[0])
    model.transient = (*model.transient, "label_head.weight", "label_head.bias")
    model.forward = partial(hear, model, model.forward, bool(choices))


def hear(model: LAM, unheard: Callable[[Batch], Terms], discrete: bool, batch: Batch | Heard) -> Terms:
    """The method's own losses, and that of actions read from latents."""
    if isinstance(batch, Batch):
        return unheard(batch)
    terms, actions = unheard(batch.clips), batch.labelled.at("actions", 0)
    said: Tensor = model.label_head(model.infer(batch.labelled))
    loss = F.cross_entropy(said, actions[:, 0].long()) if discrete else F.mse_loss(said, actions)
    return Terms({**terms.losses, LABELS: loss}, terms.metrics)
