"""The two transformers of both OTF-LAMs: the action abstraction module (paper §4.1, C.1), in which local codes, in the
context of the state, become one latent, and the token-based forward model (paper C.2, C.3).

Axes: b transitions, n tokens, s state features, c code features, l queries, d latent, p predictor width.
"""

from __future__ import annotations

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import CODE_SIZED, NEAR_ZERO, SHARPENED, Attention, Block, start_orthogonal
from otflam.lam.otf_lam import AbstractionConfig, PredictorConfig


class ActionAbstraction(nn.Module):
    def __init__(self, config: AbstractionConfig, state: int, code: int, tokens: int) -> None:
        super().__init__()
        self.places = nn.Parameter(CODE_SIZED * torch.randn(tokens, config.dim))
        self.queries = nn.Parameter(NEAR_ZERO * torch.randn(config.queries, config.dim))
        width = state + code + config.dim
        self.enter = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, config.dim))
        self.query_norm, self.token_norm = nn.LayerNorm(config.dim), nn.LayerNorm(config.dim)
        self.read = Attention(config.dim, config.heads)
        self.mix = nn.Sequential(
            *(Block(config.dim, config.heads, config.mlp, config.dropout) for _ in range(config.depth))
        )
        flat = config.queries * config.dim
        self.leave = nn.Sequential(nn.LayerNorm(flat), nn.Linear(flat, config.latent))
        # The paper does not say how weights start. From torch's own start the queries read nearly the same mean of all
        # tokens, and in thousands of steps the latent used one direction (docs/log.md).
        start_orthogonal(self)
        with torch.no_grad():
            self.read.query.weight.mul_(SHARPENED)

    def forward(self, state: Float[Tensor, "b n s"], code: Float[Tensor, "b n c"]) -> Float[Tensor, "b d"]:
        places = self.places.expand(len(state), -1, -1)
        tokens = self.enter(torch.cat([state, code, places.to(state.dtype)], -1))  # u = φ_in([s, c, p])
        queries = self.queries.expand(len(state), -1, -1)
        read = queries + self.read(self.query_norm(queries), self.token_norm(tokens))  # H = Q + CrossAttn(Q, U, U)
        return self.leave(rearrange(self.mix(read), "b l d -> b (l d)"))


def merge_cells(vectors: Float[Tensor, "b p c"], side: int, cell: int) -> Float[Tensor, "b n c2"]:
    """The vectors of cell × cell neighbouring patches side by side, as one token."""
    return rearrange(vectors, "b (u i v j) c -> b (u v) (i j c)", u=side, i=cell, v=side, j=cell)


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
