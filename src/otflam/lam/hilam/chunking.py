"""Dynamic chunking: a sequence is cut where its meaning changes, worked on chunk by chunk, and put together again.

The mechanics are H-Net's: a boundary is likely where two successive representations point in different directions; a
chunk is represented by its first element; what comes back is smoothed over chunks, so that a doubtful boundary changes
little and its probability gets a gradient.

Axes: b sequences, t elements, m chunks, d features.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

EDGE = 1e-4
"""Probabilities are kept this far from 0 and 1 in the smoothing."""


class Boundaries(NamedTuple):
    likely: Float[Tensor, "b t"]
    """Probability that a chunk begins here."""
    begins: Bool[Tensor, "b t"]
    """Whether one does."""

    @property
    def chunk(self) -> Tensor:
        """Number of the chunk that each element belongs to."""
        return self.begins.long().cumsum(1) - 1


class BoundaryFinder(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        nn.init.eye_(self.query.weight)
        nn.init.eye_(self.key.weight)

    def forward(self, seen: Float[Tensor, "b t d"], real: Bool[Tensor, "b t"]) -> Boundaries:
        """Where chunks begin: always at the first element, never beyond the `real` ones."""
        alike = F.cosine_similarity(self.query(seen[:, :-1]), self.key(seen[:, 1:]), dim=-1)
        likely = F.pad(0.5 * (1 - alike), (1, 0), value=1.0) * real
        return Boundaries(likely, (likely >= 0.5) & real)


def take_chunks(
    elements: Float[Tensor, "b t *d"], begins: Bool[Tensor, "b t"]
) -> tuple[Float[Tensor, "b m *d"], Bool[Tensor, "b m"]]:
    """The elements at which chunks begin, filled up with later ones, and which of them are real."""
    counts = begins.sum(1)
    order = torch.sort((~begins).long(), dim=1, stable=True).indices[:, : int(counts.max())]
    samples = torch.arange(len(begins), device=begins.device)[:, None]
    real = torch.arange(order.shape[1], device=begins.device) < counts[:, None]
    return elements[samples, order], real


def smooth(chunks: Float[Tensor, "b m d"], weight: Float[Tensor, "b m"]) -> Float[Tensor, "b m d"]:
    """y_j = P_j x_j + (1 - P_j) y_{j-1}, all at once: y_j is the sum over k ≤ j of P_k ∏_{k<l≤j} (1 - P_l) x_k."""
    weight = weight.clamp(EDGE, 1 - EDGE)
    left = (1 - weight).log().cumsum(1)
    later = torch.ones(weight.shape[1], weight.shape[1], dtype=torch.bool, device=weight.device).tril()
    shares = (left[:, :, None] - left[:, None, :]).masked_fill(~later, -torch.inf).exp() * weight[:, None, :]
    return shares @ chunks


def put_together(
    chunks: Float[Tensor, "b m d"], boundaries: Boundaries, real: Bool[Tensor, "b m"]
) -> Float[Tensor, "b t d"]:
    """Every element gets what its chunk became, smoothed; the sureness of each decision gets a gradient."""
    weight, _ = take_chunks(boundaries.likely, boundaries.begins)
    smoothed = smooth(chunks, weight * real)
    sure = torch.where(boundaries.begins, boundaries.likely, 1 - boundaries.likely)
    straight = sure + (1 - sure).detach()  # 1, with the gradient of `sure`
    return spread_out(smoothed, boundaries) * straight[..., None]


def spread_out(chunks: Float[Tensor, "b m d"], boundaries: Boundaries) -> Float[Tensor, "b t d"]:
    """Every element gets its chunk's vector."""
    samples = torch.arange(len(chunks), device=chunks.device)[:, None]
    return chunks[samples, boundaries.chunk]


def boundary_rate(boundaries: Boundaries, real: Bool[Tensor, "b t"]) -> tuple[Tensor, Tensor]:
    """Share of elements at which a chunk begins, and the mean probability of it."""
    count = real.sum()
    return boundaries.begins.sum() / count, (boundaries.likely * real).sum() / count


def ratio_loss(begun: Tensor, likely: Tensor, length: int) -> Float[Tensor, ""]:
    """1, its minimum along begun = likely, where one element in `length` begins a chunk; more everywhere else there."""
    return length / (length - 1) * ((1 - begun) * (1 - likely) + (length - 1) * begun * likely)
