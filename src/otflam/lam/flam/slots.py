"""Slots: a few vectors that share out the places of a picture, each keeping its identity over time.

Axes: b clips, t frames, p places, k slots, d features.
"""

from __future__ import annotations

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import NEAR_ZERO, Attention, Block

LEAST = 1e-6
"""Added to the share of every slot, so that one which owns nothing has a mean."""


class SlotAttention(nn.Module):
    """Slots compete for places: every place is shared out among them, and each slot moves to the mean of its share.

    Each slot starts from its own learned vector, so that the same slot means the same thing in every frame.
    """

    def __init__(self, dim: int, slots: int, mlp: int, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.start = nn.Parameter(torch.randn(slots, dim) / dim**0.5)
        self.place_norm, self.slot_norm, self.think_norm = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query, self.key, self.value = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.update = nn.GRUCell(dim, dim)
        self.think = nn.Sequential(nn.Linear(dim, mlp), nn.GELU(), nn.Linear(mlp, dim))

    def forward(self, places: Float[Tensor, "b p d"]) -> tuple[Float[Tensor, "b k d"], Float[Tensor, "b k p"]]:
        """The slots, and the share of every place that each of them owns."""
        seen = self.place_norm(places)
        key, value = self.key(seen), self.value(seen)
        slots = self.start.expand(len(places), -1, -1)
        shares = torch.empty(0)
        for _ in range(self.rounds):
            query = self.query(self.slot_norm(slots))
            shares = (query @ key.mT / key.shape[-1] ** 0.5).softmax(1)
            mean = (shares + LEAST) / (shares + LEAST).sum(-1, keepdim=True)
            moved = self.update((mean @ value).flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
            slots = moved + self.think(self.think_norm(moved))
        return slots, shares


class Factorizer(nn.Module):
    """Slots of every frame; then each slot looks back at its own past, and only there."""

    def __init__(self, dim: int, slots: int, heads: int, mlp: int, blocks: int, rounds: int, frames: int) -> None:
        super().__init__()
        self.share_out = SlotAttention(dim, slots, mlp, rounds)
        self.times = nn.Parameter(NEAR_ZERO * torch.randn(frames, dim))
        self.remember = nn.Sequential(*(Block(dim, heads, mlp, 0.0, causal=True) for _ in range(blocks)))

    def forward(self, places: Float[Tensor, "b t p d"]) -> tuple[Float[Tensor, "b t k d"], Float[Tensor, "b t k p"]]:
        count, times = places.shape[:2]
        slots, shares = self.share_out(places.flatten(0, 1))
        own = rearrange(slots, "(b t) k d -> (b k) t d", b=count)
        own = self.remember(own + self.times[:times])
        return rearrange(own, "(b k) t d -> b t k d", b=count), rearrange(shares, "(b t) k p -> b t k p", b=count)


class Consult(nn.Module):
    """Layers in which every question is answered by the slots, all of them, and by no other question."""

    def __init__(self, dim: int, heads: int, mlp: int, blocks: int) -> None:
        super().__init__()
        self.slot_norm = nn.LayerNorm(dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * blocks))
        self.asks = nn.ModuleList(Attention(dim, heads) for _ in range(blocks))
        self.thinks = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, mlp), nn.GELU(), nn.Linear(mlp, dim)) for _ in range(blocks)
        )

    def forward(self, questions: Float[Tensor, "b n d"], slots: Float[Tensor, "b k d"]) -> Float[Tensor, "b n d"]:
        known = self.slot_norm(slots)
        for number, (ask, think) in enumerate(zip(self.asks, self.thinks, strict=True)):
            questions = questions + ask(self.norms[2 * number](questions), known)
            questions = questions + think(self.norms[2 * number + 1](questions))
        return questions
