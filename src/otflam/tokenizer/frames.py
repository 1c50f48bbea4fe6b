"""A frame tokenizer, which FLAM works on: frames to a small grid of vectors out of a finite set, and back.

An IMPALA-style encoder, finite scalar quantisation (FSQ: every number is rounded to one of a few levels; there is no
codebook to learn) and transposed convolutions. FLAM's authors add a perceptual loss of a VGG network; no such weights
are at hand, so ours is the squared error alone.

Axes: b frames, c h w pixels, u v grid, p places (u·v), d vector, l quantised numbers.
"""

from __future__ import annotations

import itertools
import math

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn

from otflam.core import IMPALA, Batch, Pointwise, Terms, conv_encoder, grow
from otflam.tokenizer.config import FrameTokenizerConfig

MARGIN = 1e-3
"""How far inside the outermost levels numbers are kept before they are rounded."""


class FSQ(nn.Module):
    """Round every number to one of its levels, evenly spaced between -1 and 1; gradients pass as if it had not been."""

    def __init__(self, levels: tuple[int, ...]) -> None:
        super().__init__()
        self.levels = nn.Buffer(torch.tensor(levels), persistent=False)
        sizes = [math.prod(levels[:place]) for place in range(len(levels))]
        self.sizes = nn.Buffer(torch.tensor(sizes), persistent=False)

    def forward(self, numbers: Float[Tensor, "*b l"]) -> Float[Tensor, "*b l"]:
        half = (self.levels - 1) / 2
        bounded = half * (1 - MARGIN) * torch.tanh(numbers)
        # With an even number of levels none of them is 0: they lie half a step off the whole numbers.
        shift = torch.where(self.levels % 2 == 0, 0.5, 0.0)
        rounded = torch.round(bounded + shift) - shift
        return (bounded + (rounded - bounded).detach()) / half

    def index(self, quantised: Float[Tensor, "*b l"]) -> Int64[Tensor, "*b"]:
        """All levels of a vector as one whole number."""
        places = torch.round((quantised + 1) / 2 * (self.levels - 1)).long()
        return (places * self.sizes).sum(-1)

    def levels_of(self, index: Int64[Tensor, "*b"]) -> Float[Tensor, "*b l"]:
        places = index[..., None] // self.sizes % self.levels
        return 2 * places / (self.levels - 1) - 1


class FrameTokenizer(nn.Module):
    def __init__(self, config: FrameTokenizerConfig) -> None:
        super().__init__()
        self.config = config
        widths = [config.scale * channels for channels in IMPALA]
        self.encoder = nn.Sequential(
            conv_encoder(config.channels, widths, config.blocks), nn.ReLU6(), Pointwise(widths[-1], config.dim)
        )
        self.inside, self.outside = nn.Linear(config.dim, len(config.levels)), nn.Linear(len(config.levels), config.dim)
        self.quantise = FSQ(config.levels)
        up = [config.dim, *reversed(widths)]
        self.decoder = nn.Sequential(
            *(grow(a, b, config.blocks) for a, b in itertools.pairwise(up)),
            nn.GELU(),
            Pointwise(up[-1], config.channels),
        )

    def numbers(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b p l"]:
        """What is quantised, at every place of the grid."""
        return self.quantise(self.inside(rearrange(self.encoder(2 * images - 1), "b d u v -> b (u v) d")))

    def encode(self, images: Float[Tensor, "b c h w"]) -> Int64[Tensor, "b p"]:
        """The token of every place."""
        return self.quantise.index(self.numbers(images))

    def vectors(self, tokens: Int64[Tensor, "*b p"]) -> Float[Tensor, "*b p d"]:
        """What tokens stand for: the features that FLAM predicts."""
        return self.outside(self.quantise.levels_of(tokens))

    def decode(self, vectors: Float[Tensor, "b p d"]) -> Float[Tensor, "b c h w"]:
        side = math.isqrt(vectors.shape[1])
        # Bounded as the decoder of LAPO, which the paper names for it.
        return (self.decoder(rearrange(vectors, "b (u v) d -> b d u v", u=side)).tanh() + 1) / 2

    def forward(self, batch: Batch) -> Terms:
        images = batch.images(0)
        numbers = self.numbers(images)
        used = self.quantise.index(numbers.detach()).unique().numel()
        return Terms(
            {"rec": F.mse_loss(self.decode(self.outside(numbers)), images)},
            {"active": torch.tensor(float(used), device=images.device)},
        )
