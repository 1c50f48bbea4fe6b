"""The monolithic counterpart of OTF: one global encoder, the same number of bits, the same decoder (paper §6.1).

As many vectors as OTF has patches are quantised with as many codes, so both spend P·log2 K bits on a motion. But here
every vector is computed from the whole motion signal, and every place of the decoded map from all vectors.

Axes: b samples, m h w motion, n vectors, d features, p patches.
"""

from __future__ import annotations

from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn

from otflam.tokenizer.config import TokenizerConfig
from otflam.tokenizer.model import MotionAutoencoder


class Monolithic(MotionAutoencoder):
    def __init__(self, config: TokenizerConfig) -> None:
        super().__init__(config)
        count, dim, side = config.grid**2, config.codebook.dim, config.grid * config.patch
        size = side
        for _ in range(3):
            size = (size + 1) // 2
        self.encoder = nn.Sequential(
            nn.Conv2d(self.motion_channels, 32, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(64, 64, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(64 * size**2, config.whole),
            nn.GELU(),
            nn.Linear(config.whole, count * dim),
        )
        # Without it, when k-means starts the codebook, vectors differ more from each other than samples do, and every
        # vector keeps one code for ever.
        self.level = nn.BatchNorm1d(count * dim, affine=False)
        self.spread = nn.Sequential(
            nn.Linear(count * dim, config.whole), nn.GELU(), nn.Linear(config.whole, count * config.descriptor)
        )

    def embed(self, signal: Float[Tensor, "b m h w"]) -> Float[Tensor, "b n d"]:
        return rearrange(self.level(self.encoder(signal)), "b (n d) -> b n d", d=self.config.codebook.dim)

    def describe(self, tokens: Float[Tensor, "b n d"], codes: Int64[Tensor, "b n"] | None) -> Float[Tensor, "b p e"]:
        return rearrange(self.spread(tokens.flatten(1)), "b (p e) -> b p e", e=self.config.descriptor)
