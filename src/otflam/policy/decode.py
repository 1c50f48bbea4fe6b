"""Actions from the policy's own state representation and its predicted latent (paper §5, F.2), from few labels.

The policy is frozen, so what it says about the labelled frames is computed once, before training.

Axes: b samples, i inputs, a actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import (
    SILENT,
    Hardware,
    Progress,
    Terms,
    TrainConfig,
    UserError,
    launch,
    load_weights,
    place_of,
    to_json,
    train_into,
)
from otflam.data import Clips, Store, batch_order
from otflam.policy.actor import Actor
from otflam.policy.config import ActionDecoderConfig
from otflam.policy.spaces import ActionSpace, LatentSpace

DECODER_KIND, DECODER_VERSION = "action decoder", 1
CHUNK = 256


class Pairs(NamedTuple):
    """Inputs and the actions that belong to them."""

    inputs: Float[Tensor, "b i"]
    actions: Float[Tensor, "b a"]

    def to(self, device: torch.device) -> Pairs:
        return Pairs(self.inputs.to(device), self.actions.to(device))

    def batch(self, size: int, seed: int, step: int, rank: int = 0, world: int = 1) -> Pairs:
        """Random batch number `step`, or one of `world` equal parts of it."""
        order = torch.from_numpy(batch_order(len(self.inputs), size, seed, step))
        chosen = order[rank * size // world : (rank + 1) * size // world]
        return Pairs(self.inputs[chosen], self.actions[chosen])


class ActionDecoder(nn.Module):
    """A small network from what the frozen policy says to actions."""

    def __init__(self, config: ActionDecoderConfig, inputs: int, space: ActionSpace | LatentSpace) -> None:
        super().__init__()
        self.space = space
        layers: list[nn.Module] = []
        for _ in range(config.layers):
            layers += [nn.Linear(inputs, config.hidden), nn.ReLU6()]
            inputs = config.hidden
        self.layers = nn.Sequential(*layers, nn.Linear(inputs, space.outputs))

    def act(self, inputs: Float[Tensor, "b i"]) -> Float[Tensor, "b a"]:
        return self.space.value(self.layers(inputs))

    def forward(self, pairs: Pairs) -> Terms:
        return Terms({"action": self.space.loss(self.layers(pairs.inputs), pairs.actions)}, {})


def said_by(actor: Actor, stack: Float[Tensor, "b kc h w"]) -> Float[Tensor, "b i"]:
    """What a decoder gets of a policy: its state representation and its latent."""
    state = actor.state(stack)
    return torch.cat([state, actor.leave(state)], 1)


@torch.no_grad()
def labelled_pairs(actor: Actor, store: Store, episodes: Sequence[int] | np.ndarray) -> Pairs:
    """What the policy says about every labelled frame of some episodes, and the action taken there."""
    masked = "action_mask" in store
    clips = Clips(store, actor.offsets, ("actions", *(["action_mask"] if masked else [])), episodes, pad=True)
    known = np.flatnonzero(clips.column("action_mask")) if masked else np.arange(len(clips))
    if not len(known):
        raise UserError(f"none of the episodes {[int(index) for index in episodes]} has labels", "label some of them")
    inputs, actions = [], []
    for first in range(0, len(known), CHUNK):
        part = clips.gather(known[first : first + CHUNK])
        inputs.append(said_by(actor.eval(), actor.stacked(part.to(place_of(actor)))).cpu())
        actions.append(part.at("actions", 0))
    return Pairs(torch.cat(inputs), torch.cat(actions))


def held_out_error(pairs: Pairs, space: ActionSpace | LatentSpace) -> Callable[[ActionDecoder], dict[str, float]]:
    """What to log of a decoder at every checkpoint."""

    @torch.no_grad()
    def check(decoder: ActionDecoder) -> dict[str, float]:
        held = pairs.to(place_of(decoder))
        return {"held_out": float(space.loss(decoder.layers(held.inputs), held.actions))}

    return check


def train_decoder(
    pairs: Pairs,
    config: ActionDecoderConfig,
    space: ActionSpace | LatentSpace,
    train: TrainConfig,
    hardware: Hardware,
    out: Path,
    about: dict[str, Any],
    check: Callable[[ActionDecoder], dict[str, float]] | None = None,
    progress: Progress = SILENT,
) -> ActionDecoder:
    """Train a decoder on pairs; or continue, or find it done. `about` says what the pairs are of."""
    fabric = launch(hardware)
    torch.manual_seed(train.seed)
    model = ActionDecoder(config, pairs.inputs.shape[1], space)
    facts = {"kind": DECODER_KIND, "version": DECODER_VERSION, "model": to_json(config), **about}

    def load() -> ActionDecoder:
        load_weights(model, out)
        return model.eval()

    watch = None if check is None else lambda: check(model)
    return train_into(out, facts, model, lambda: pairs, train, fabric, load, progress, watch)
