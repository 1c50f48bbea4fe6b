"""The monolithic counterpart of OTF: one global encoder, the same number of bits, the same decoder (paper §6.1).

As many vectors as OTF has patches are quantised with as many codes, so both spend P·log2 K bits on a motion. But here
every vector is computed from the whole motion signal, and every place of the decoded map from all vectors.
Layers over the whole are not shared by patches: it has some 70 times OTF's parameters (docs/methods/otf.md).

Axes: b samples, m h w motion, n vectors, d features, p patches.
"""

from __future__ import annotations

from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn

from otflam.tokenizer.config import TokenizerConfig
from otflam.tokenizer.model import MotionAutoencoder

SIZE = 0.3
"""Makes tokens about as large as OTF's, so that the commitment loss weighs alike."""


class Monolithic(MotionAutoencoder):
    def __init__(self, config: TokenizerConfig) -> None:
        super().__init__(config)
        count, dim, side = config.grid**2, config.codebook.dim, config.grid * config.patch
        size = side
        for _ in range(3):
            size = (size + 1) // 2
        # Normalised over samples at every layer, and without a bias at the end: else the vectors differ more from each
        # other than samples do when k-means starts the codebook, and every vector keeps one code for ever.
        self.encoder = nn.Sequential(
            *(part for sizes in ((self.motion_channels, 32), (32, 64), (64, 64)) for part in _stage(*sizes)),
            nn.Flatten(),
            nn.Linear(64 * size**2, config.whole),
            nn.GELU(),
            nn.BatchNorm1d(config.whole, affine=False),
            nn.Linear(config.whole, count * dim, bias=False),
        )
        self.spread = nn.Sequential(
            nn.Linear(count * dim, config.whole), nn.GELU(), nn.Linear(config.whole, count * config.descriptor)
        )

    def embed(self, signal: Float[Tensor, "b m h w"]) -> Float[Tensor, "b n d"]:
        return rearrange(SIZE * self.encoder(signal), "b (n d) -> b n d", d=self.config.codebook.dim)

    def describe(self, tokens: Float[Tensor, "b n d"], codes: Int64[Tensor, "b n"] | None) -> Float[Tensor, "b p e"]:
        return rearrange(self.spread(tokens.flatten(1)), "b (p e) -> b p e", e=self.config.descriptor)


def _stage(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.GELU()
