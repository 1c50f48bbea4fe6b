"""Actions from few labels: decoded from what a frozen policy says (paper §5, F.2), or guessed for unlabelled episodes.

A decoder gets the policy's own state representation and its predicted latent, computed once, before training. An
inverse dynamics model guesses actions from frames (a reference row). A decoder guesses them from latent actions
(`+relabel`, ours): first decode, then clone, so that the policy need not imitate what latents know beside the action.

Axes: b samples, i inputs, t time steps, d latent, a actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float32
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
    stable_hash,
    to_json,
    train_into,
)
from otflam.data import Clips, Store, batch_order, derive
from otflam.policy.clone import ACTIONS, Actor, Clone, Target
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

    def act(self, inputs: Float[Tensor, "b i"], chances: Float[Tensor, " b"] | None = None) -> Float[Tensor, "b a"]:
        """The likeliest action; with `chances` the one that is played."""
        raw = self.layers(inputs)
        return self.space.value(raw) if chances is None else self.space.drawn(raw, chances)

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


def relabel(
    store: Store,
    guess: Callable[[Clips], Float32[np.ndarray, "n a"]],
    seen: Callable[[Sequence[int]], Clips],
    model_hash: str,
    labelled: Sequence[int] | np.ndarray,
    unlabelled: Sequence[int] | np.ndarray,
    progress: Progress = SILENT,
) -> Target:
    """Actions of all these episodes: the true ones where they are known, else guesses from what is `seen`."""
    known, inside = {int(index) for index in labelled}, seen([int(index) for index in unlabelled]).inside

    def compute(index: int) -> np.ndarray:
        actions = np.array(store.episode(index, ACTIONS))
        if index not in known:
            actions[:] = 0
        if index not in known and len(actions) > inside[-1]:
            clips = seen([index])
            actions[clips.anchors(np.arange(len(clips))) - store.starts[index]] = guess(clips)
        return actions

    everything = np.concatenate([np.asarray(unlabelled), np.asarray(labelled)])
    key = stable_hash([model_hash, sorted(known), "relabel"])
    column = store.columns[ACTIONS]
    return Target(ACTIONS, derive(store, ACTIONS, key, column, compute, progress, everything), inside)


def seen_frames(store: Store, offsets: tuple[int, ...], episodes: Sequence[int]) -> Clips:
    """What an inverse dynamics model sees of some episodes."""
    return Clips(store, offsets, (), episodes, pad=True)


@torch.inference_mode()
def guess_from_frames(model: Clone, clips: Clips) -> Float32[np.ndarray, "n a"]:
    actor, parts = model.actor.eval(), []
    for first in range(0, len(clips), CHUNK):
        batch = clips.gather(np.arange(first, min(first + CHUNK, len(clips)))).to(place_of(model))
        parts.append(model.space.value(actor(actor.stacked(batch))).cpu())
    return torch.cat(parts).numpy()


@torch.inference_mode()
def guess_from_latents(decoder: ActionDecoder, space: LatentSpace, clips: Clips) -> Float32[np.ndarray, "n a"]:
    return decoder.act(space.normal(torch.from_numpy(clips.column("latents")))).numpy()


def latent_pairs(space: LatentSpace, clips: Clips) -> Pairs:
    """Latents that a latent action model gave labelled transitions, and their actions."""
    latents = torch.from_numpy(clips.column("latents"))
    return Pairs(space.normal(latents), torch.from_numpy(clips.column(ACTIONS)))
