"""The token-based forward model of both OTF-LAMs (paper C.2, C.3).

Axes: b transitions, n tokens, s state features, d latent, p predictor width.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core.nn import Block
from otflam.lam.abstraction import SMALL
from otflam.lam.config import PredictorConfig


class TokenPredictor(nn.Module):
    """State tokens and a latent action in, tokens of the future out. It never sees a code."""

    def __init__(self, config: PredictorConfig, state: int, latent: int, tokens: int) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.LayerNorm(state), nn.Linear(state, config.dim))
        self.act = nn.Linear(latent, config.dim)
        self.places = nn.Parameter(SMALL * torch.randn(1 + tokens, config.dim))
        self.layers = nn.ModuleList(
            Block(config.dim, config.heads, config.mlp, config.dropout) for _ in range(config.depth)
        )
        self.remind = nn.ModuleList(
            nn.Linear(latent, config.dim * (2 if config.film else 1)) for _ in range(config.depth)
        )
        self.norm = nn.LayerNorm(config.dim)

    def forward(self, state: Float[Tensor, "b n s"], latent: Float[Tensor, "b d"]) -> Float[Tensor, "b n p"]:
        tokens = torch.cat([self.act(latent)[:, None], self.enter(state)], 1) + self.places
        for layer, remind in zip(self.layers, self.remind, strict=True):
            # z is added to the spatial tokens only: the action token already is z.
            shift, *scale = remind(latent)[:, None].split(tokens.shape[-1], -1)
            spatial = tokens[:, 1:] * (1 + scale[0]) + shift if scale else tokens[:, 1:] + shift
            tokens = layer(torch.cat([tokens[:, :1], spatial], 1))
        return self.norm(tokens[:, 1:])
