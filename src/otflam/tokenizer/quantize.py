"""A codebook that follows what it encodes (paper §3.1, B.4): nearest neighbour, moving averages, revival of dead codes.

Axes: n tokens, d features, k codes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from otflam.core import UserError, gather_rows, sum_over_processes
from otflam.tokenizer.config import CodebookConfig

LLOYD_ITERATIONS = 20
SMOOTHING = 1e-5
"""Added to every code's share, so that a code without tokens does not divide by zero."""
FEW = 8
"""Codes for each of their numbers up to which all pairs of them are looked at."""
DISTANCES = 2**21
"""Between tokens and codes, at a time: a table of more leaves the cache between the product and the search."""


class Quantized(NamedTuple):
    tokens: Float[Tensor, "n d"]
    """The codes in place of the tokens, passing gradients straight through to them."""
    codes: Int64[Tensor, " n"]
    distance: Float[Tensor, ""]
    """Mean squared distance of token and code; its gradient moves the tokens only."""


class Codebook(nn.Module):
    """K vectors, updated by moving averages of the tokens they are nearest to; gradients do not move them."""

    def __init__(self, config: CodebookConfig, reserved: int = 0) -> None:
        """The first `reserved` codes stay zero: no token is nearest to them."""
        super().__init__()
        self.config, self.reserved = config, reserved
        self.vectors = nn.Buffer(torch.zeros(config.codes, config.dim))
        self.counts = nn.Buffer(torch.zeros(config.codes))
        self.sums = nn.Buffer(torch.zeros(config.codes, config.dim))
        self.idle = nn.Buffer(torch.zeros(config.codes, dtype=torch.int64))
        self.resets = nn.Buffer(torch.zeros((), dtype=torch.int64))

    def nearest(self, tokens: Float[Tensor, "n d"]) -> Int64[Tensor, " n"]:
        """argmin_k ‖f − c_k‖² (eq. 5); the token's own norm is the same for all codes and left out."""
        with torch.autocast(tokens.device.type, enabled=False):
            squares, rows = self.vectors.square().sum(1), max(1, DISTANCES // len(self.vectors))
            squares[: self.reserved] = math.inf
            parts = tokens.float().split(rows)
            return torch.cat([torch.addmm(squares, part, self.vectors.T, alpha=-2).argmin(1) for part in parts])

    def forward(self, tokens: Float[Tensor, "n d"]) -> Quantized:
        """Quantise, and in training let the codes follow; in full precision, which decides between near codes."""
        with torch.autocast(tokens.device.type, enabled=False):
            return self._quantize(tokens.float())

    def _quantize(self, tokens: Float[Tensor, "n d"]) -> Quantized:
        if not len(tokens):  # nothing moved
            return Quantized(tokens, tokens.new_zeros(0, dtype=torch.int64), tokens.sum())
        codes = self.nearest(tokens.detach())
        chosen = self.vectors[codes]
        if self.training:
            self.follow(tokens.detach(), codes)
        return Quantized(tokens + (chosen - tokens).detach(), codes, F.mse_loss(tokens, chosen))

    @torch.no_grad()
    def follow(self, tokens: Float[Tensor, "n d"], codes: Int64[Tensor, " n"]) -> None:
        """Move every code towards the mean of its tokens, over all processes, and revive dead ones."""
        keep = self.config.decay
        counts = torch.bincount(codes, minlength=len(self.vectors)).to(tokens.dtype)
        sums = torch.zeros_like(self.sums).index_add_(0, codes, tokens)
        sum_over_processes(counts)
        sum_over_processes(sums)
        self.counts.mul_(keep).add_(counts, alpha=1 - keep)
        self.sums.mul_(keep).add_(sums, alpha=1 - keep)
        total = self.counts.sum()
        smoothed = (self.counts + SMOOTHING) / (total + len(self.counts) * SMOOTHING) * total
        self.vectors.copy_(self.sums / smoothed[:, None])
        if self.config.repulsion:
            self.repel(counts > 0)
            self.sums.copy_(self.vectors * smoothed[:, None])
        self.idle.add_(1).mul_(counts == 0)
        self.idle[: self.reserved] = 0
        self.revive(tokens)

    def repel(self, active: Tensor) -> None:
        """Turn the active codes away from each other, as the orthogonality loss asks and averages ignore."""
        with torch.enable_grad():
            vectors = self.vectors[active].clone().requires_grad_()
            (slope,) = torch.autograd.grad(overlap(vectors), vectors)
        self.vectors[active] -= self.config.repulsion * slope

    def revive(self, tokens: Float[Tensor, "n d"]) -> None:
        """Put codes that were idle for too long onto random tokens of this batch."""
        dead = self.idle >= self.config.patience
        if not dead.any():
            return
        # The draw depends on the state alone, so that a resumed run repeats it.
        generator = torch.Generator().manual_seed(int(self.resets) + 1)
        tokens = gather_rows(tokens)
        picks = torch.randint(len(tokens), (int(dead.sum()),), generator=generator)
        fresh = tokens[picks.to(tokens.device)]
        self.vectors[dead] = fresh
        self.counts[dead] = self.counts.sum() / len(self.counts)  # an average code: neither stuck nor flung away
        self.sums[dead] = fresh * self.counts[dead][:, None]
        self.idle[dead] = 0
        self.resets.add_(dead.sum())

    @torch.no_grad()
    def start_from(self, tokens: Float[Tensor, "n d"]) -> None:
        """Begin with the k-means centres of some tokens."""
        if not len(tokens):
            raise UserError("nothing moves in what was seen so far", "train on videos that move, or with --still 0")
        known = slice(self.reserved, None)
        centres, counts = kmeans(tokens, len(self.vectors[known]), torch.Generator().manual_seed(0))
        self.vectors[known] = centres
        self.counts[known] = counts
        self.sums.copy_(self.vectors * self.counts[:, None])


def kmeans(
    tokens: Float[Tensor, "n d"], count: int, generator: torch.Generator
) -> tuple[Float[Tensor, "k d"], Float[Tensor, " k"]]:
    """Lloyd's algorithm from random tokens; an empty cluster starts again at another random token."""
    tokens = tokens.to(torch.float32)
    first = torch.randperm(len(tokens), generator=generator).repeat(-(-count // len(tokens)))[:count]
    centres = tokens[first.to(tokens.device)].clone()
    sizes = torch.zeros(count, device=tokens.device)
    for _ in range(LLOYD_ITERATIONS):
        nearest = torch.addmm(centres.square().sum(1), tokens, centres.T, alpha=-2).argmin(1)
        sizes = torch.bincount(nearest, minlength=count).to(tokens.dtype)
        sums = torch.zeros_like(centres).index_add_(0, nearest, tokens)
        fresh = tokens[torch.randint(len(tokens), (count,), generator=generator).to(tokens.device)]
        centres = torch.where(sizes[:, None] > 0, sums / sizes.clamp_min(1)[:, None], fresh)
    return centres, sizes.clamp_min(1)


def overlap(vectors: Float[Tensor, "k d"]) -> Float[Tensor, ""]:
    """L_orth: the sum of squared cosines between different codes (eq. 10)."""
    unit = F.normalize(vectors, dim=1)
    # Both products have the same sum of squares. The second grows linearly with the codes; where they are few, the
    # first is kept for the bits of what was recorded.
    gram = unit @ unit.T if len(unit) <= FEW * unit.shape[1] else unit.T @ unit
    return gram.square().sum() - len(unit)
