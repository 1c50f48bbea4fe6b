"""LAOM: no pixels are drawn, nothing is quantised, and the latent may be wide.

One encoder serves both halves. The inverse model compares two observations several steps apart; the forward model must
foresee what a slowly following copy of the encoder will say of the next one. Every observation is shifted, turned and
tilted by itself in training, so that where the camera stands cannot be part of what is said.

Axes: b transitions, k c stacked frames and their colours, h w pixels, n = u v places, f features.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import Batch, Terms, conv_encoder, start_orthogonal, warp_images
from otflam.lam.laom import LaomConfig
from otflam.lam.lapo.model import Seen, Stacked, signed
from otflam.lam.model import Latents, at_least_one, latent_stats

Features = Float[Tensor, "b _"]
"""All that is seen of an observation."""
Placed = Float[Tensor, "b n f"]
"""The same place by place."""
WIDER = 4
"""How much wider the hidden layer of a stage is."""


class Stage(nn.Module):
    """Joins what is known with what is read again, then thinks about it."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.join = nn.Linear(inputs, hidden)
        self.think = nn.Sequential(nn.Linear(hidden, WIDER * hidden), nn.ReLU6(), nn.Linear(WIDER * hidden, hidden))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: Features) -> Features:
        x = self.join(x)
        return self.norm(x + self.think(x))


class Reader(nn.Module):
    """Stages of which each but the first reads a part of the input again."""

    def __init__(self, once: int, again: int, hidden: int, stages: int, outputs: int) -> None:
        """`again` numbers are read at every stage, `once` only at the first."""
        super().__init__()
        widths = [once + again] + [hidden + again] * (stages - 1)
        self.stages = nn.ModuleList(Stage(width, hidden) for width in widths)
        self.leave = nn.Linear(hidden, outputs)

    def forward(self, once: Features | None, again: Features) -> Features:
        x = once
        for stage in self.stages:
            x = stage(again if x is None else torch.cat([x, again], 1))
        return self.leave(x)


class Laom(Stacked):
    config: LaomConfig

    def __init__(self, config: LaomConfig, size: int, colours: int) -> None:
        at_least_one(config, "hidden", "stages")
        super().__init__(config, size, colours)
        flat = self.wide * self.side**2
        self.encode = nn.Sequential(conv_encoder(self.stacked, self.widths, config.blocks), nn.Flatten())
        self.inverse = Reader(0, 2 * flat, config.hidden, config.stages, config.latent)
        self.forth = Reader(flat, config.latent, config.hidden, config.stages, flat)
        start_orthogonal(self)
        self.slow = copy.deepcopy(self.encode).requires_grad_(False)

    def observe(self, batch: Batch) -> Seen:
        seen = super().observe(batch)
        return Seen(self.warped(seen.now), self.warped(seen.ahead), None)

    def warped(self, images: Float[Tensor, "b kc h w"]) -> Float[Tensor, "b kc h w"]:
        return warp_images(images) if self.training and self.config.augment else images

    def infer_latent(self, seen: Seen) -> Latents:
        return self.inverse(None, torch.cat([self.encode(seen.now), self.encode(seen.ahead)], 1))

    def present(self, seen: Seen) -> Features:
        return self.encode(seen.now)

    def predict_future(self, seen: Seen, latent: Latents) -> Placed:
        return self.placed(self.forth(self.present(seen), latent))

    def placed(self, features: Features) -> Placed:
        return rearrange(features, "b (f u v) -> b (u v) f", u=self.side, v=self.side)

    @torch.no_grad()
    def seen_at(self, batch: Batch, offset: int) -> Features:
        """An observation as the slow copy sees it."""
        return self.slow(self.warped(signed(batch.stack(offset, self.config.frames))))

    def current(self, batch: Batch) -> Placed:
        return self.placed(self.seen_at(batch, 0))

    def future(self, batch: Batch) -> Placed:
        return self.placed(self.seen_at(batch, self.stride))

    def forward(self, batch: Batch) -> Terms:
        seen = self.observe(batch)
        now, ahead = self.encode(seen.now), self.encode(seen.ahead)
        latent = self.inverse(None, torch.cat([now, ahead], 1))
        # Only the inverse half teaches the encoder: the other would teach it to say what is easily foreseen.
        foreseen, target = self.forth(now.detach(), latent), self.seen_at(batch, self.stride)
        said = {"target_std": target.float().std(0).mean()}  # near zero: the encoder says the same of everything
        return Terms({"next": F.mse_loss(foreseen, target)}, latent_stats(latent) | said)

    @torch.no_grad()
    def after_step(self) -> None:
        """The slow copy follows."""
        for slow, fast in zip(self.slow.parameters(), self.encode.parameters(), strict=True):
            slow.lerp_(fast, self.config.rate)
