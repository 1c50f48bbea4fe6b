"""The token-based forward model of both OTF-LAMs (paper C.2, C.3).

Axes: b transitions, n tokens, s state features, d latent, p predictor width.
"""

from __future__ import annotations

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import NEAR_ZERO, Block
from otflam.lam.otf_lam import PredictorConfig


class TokenPredictor(nn.Module):
    """State tokens and a latent action in, tokens of the future out. It never sees a code."""

    def __init__(self, config: PredictorConfig, state: int, latent: int, tokens: int) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.LayerNorm(state), nn.Linear(state, config.dim))
        self.act = nn.Linear(latent, config.dim)
        self.places = nn.Parameter(NEAR_ZERO * torch.randn(1 + tokens, config.dim))
        self.layers = nn.ModuleList(
            Block(config.dim, config.heads, config.mlp, config.dropout) for _ in range(config.depth)
        )
        width = config.dim * (tokens if config.placed else 1)
        self.remind = nn.ModuleList(nn.Linear(latent, width) for _ in range(config.depth))
        # The latent starts without a say: as noise it would be unlearned before it could be of use.
        for parameter in (*self.act.parameters(), *self.remind.parameters()):
            nn.init.zeros_(parameter)
        self.norm = nn.LayerNorm(config.dim)

    def forward(self, state: Float[Tensor, "b n s"], latent: Float[Tensor, "b d"]) -> Float[Tensor, "b n p"]:
        tokens = torch.cat([self.act(latent)[:, None], self.enter(state)], 1) + self.places
        for layer, remind in zip(self.layers, self.remind, strict=True):
            # z is added to the spatial tokens only: the action token already is z.
            told = rearrange(remind(latent), "b (n p) -> b n p", p=tokens.shape[-1])  # n is 1 unless placed
            spatial = tokens[:, 1:] + told
            tokens = layer(torch.cat([tokens[:, :1], spatial], 1))
        return self.norm(tokens[:, 1:])
