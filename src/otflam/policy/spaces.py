"""What a network may put out: latents on a common scale, actions within their bounds, or one of several choices.

Axes: b samples, r raw outputs of a network, d latent, a actions.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import UserError
from otflam.data import Store


def choices_of(store: Store, discrete: int = 0) -> int:
    """How many actions there are to choose from, by the data or else as it is said; 0: actions are continuous."""
    known = store.meta.get("action_choices", discrete)
    if discrete and known != discrete:
        raise UserError(f"--decoder.discrete {discrete} for {store.path}", f"its actions are one of {known}")
    return known


class LatentSpace(nn.Module):
    """Latents, centred and divided by one number, their overall deviation.

    An error of 1 then means that nothing is known, whatever the method, and the loss is the paper's but for a factor.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.outputs, self.discrete = width, 0
        self.mean, self.scale = nn.Buffer(torch.zeros(width)), nn.Buffer(torch.ones(()))

    @classmethod
    def of(cls, latents: Float[np.ndarray, "n d"]) -> LatentSpace:
        space = cls(latents.shape[1])
        space.mean.copy_(torch.from_numpy(latents.mean(0)))
        space.scale.copy_(torch.tensor(max(float(latents.var(0).mean()) ** 0.5, 1e-6)))
        return space

    def normal(self, latents: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        return (latents - self.mean) / self.scale

    def value(self, raw: Float[Tensor, "b r"]) -> Float[Tensor, "b r"]:
        return raw

    def drawn(self, raw: Float[Tensor, "b r"], chances: Float[Tensor, " b"]) -> Float[Tensor, "b r"]:
        """The same: there is nothing to choose from."""
        return self.value(raw)

    def loss(self, raw: Float[Tensor, "b r"], latents: Float[Tensor, "b d"]) -> Float[Tensor, ""]:
        return F.mse_loss(raw, self.normal(latents))


SHARPER = 2.0
"""Power of the odds by which a choice is drawn: what was random in the data is so less often."""


class ActionSpace(nn.Module):
    """Numbers within bounds, or one of several choices."""

    def __init__(self, width: int, discrete: int = 0) -> None:
        super().__init__()
        if discrete and width != 1:
            raise UserError(f"--discrete {discrete} for {width} action values", "discrete actions are one number each")
        self.discrete, self.outputs = discrete, discrete or width
        self.low, self.high = nn.Buffer(-torch.ones(width)), nn.Buffer(torch.ones(width))

    @classmethod
    def of(cls, store: Store, discrete: int = 0) -> ActionSpace:
        """The simulator's choices or bounds; for other data `discrete`, or the bounds of the labels that are there."""
        if "actions" not in store:
            raise UserError(f"{store.path} has no actions", "give labelled data")
        discrete = choices_of(store, discrete)
        labels = np.asarray(store["actions"])
        low, high = store.meta.get("action_low", labels.min(0)), store.meta.get("action_high", labels.max(0))
        space = cls.between(np.asarray(low), np.asarray(high), discrete)
        if discrete and not (labels.min() >= 0 and labels.max() < discrete):
            raise UserError(
                f"{store.path} has actions from {labels.min():g} to {labels.max():g}",
                f"with --discrete {discrete} they are 0 to {discrete - 1}",
            )
        return space

    @classmethod
    def between(cls, low: Float[np.ndarray, " a"], high: Float[np.ndarray, " a"], discrete: int = 0) -> ActionSpace:
        space = cls(len(low), discrete)
        space.low.copy_(torch.from_numpy(low))
        space.high.copy_(torch.from_numpy(high))
        return space

    def value(self, raw: Float[Tensor, "b r"]) -> Float[Tensor, "b a"]:
        if self.discrete:
            return raw.argmax(1, keepdim=True).to(torch.float32)
        # The public decoder is linear and its actions are clipped when they are executed. Ours are learned as executed,
        # so every policy and decoder ends in the bounds: what is learned is what is played (docs/decisions.md).
        return self.low + (self.high - self.low) * (raw.tanh() + 1) / 2

    def drawn(self, raw: Float[Tensor, "b r"], chances: Float[Tensor, " b"]) -> Float[Tensor, "b a"]:
        """What is played: a choice by its odds, given a number from 0 to 1 for each; else the value.

        Who imitates a player that draws its choices must draw them too: the likeliest choice, every time, never does
        what a good player does now and then (docs/decisions.md).
        """
        if not self.discrete:
            return self.value(raw)
        reached = (SHARPER * raw).softmax(1).cumsum(1) < chances[:, None]
        return reached.sum(1, keepdim=True).clamp(max=self.discrete - 1).to(torch.float32)

    def loss(self, raw: Float[Tensor, "b r"], actions: Float[Tensor, "b a"]) -> Float[Tensor, ""]:
        if self.discrete:
            return F.cross_entropy(raw, actions[:, 0].long())
        return F.mse_loss(self.value(raw), actions)
