"""Factorised LAPO (paper E.5): the inverse model of LAPO becomes a patch encoder with one code per patch.

A pair of patches, one from each frame, is encoded by itself and quantised; all codes together, flattened and projected,
are the latent action. No motion is computed, and the forward model sees nothing but that vector.

Axes: b transitions, p patches, e code features, c h w pixels, d latent.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import Batch, Terms, gather_rows
from otflam.lam.lapo import FLapoConfig
from otflam.lam.lapo.model import Lapo, Seen
from otflam.lam.model import Latents, latent_stats
from otflam.tokenizer import Codebook, Quantized, code_weights, placed_patches


class FactorisedLapo(Lapo):
    config: FLapoConfig

    def make_inverse(self, widths: list[int], stacked: int) -> nn.Module:
        pixels, config = 2 * self.colours * self.config.patch**2, self.config
        self.codebook = Codebook(config.codebook)
        self.started = nn.Buffer(torch.zeros((), dtype=torch.bool))
        self.out = nn.Linear(config.grid**2 * config.codebook.dim, config.latent)
        return nn.Sequential(
            nn.Linear(pixels + 2, config.hidden), nn.GELU(), nn.Linear(config.hidden, config.codebook.dim)
        )

    def embed(self, seen: Seen) -> Float[Tensor, "b p e"]:
        """Continuous tokens of pairs of patches, each with its place."""
        size = self.config.grid * self.config.patch
        pair = torch.cat([seen.now[:, -self.colours :], seen.ahead[:, -self.colours :]], 1)
        if pair.shape[-1] != size:
            pair = F.interpolate(pair, (size, size), mode="bilinear", align_corners=False)
        return self.inverse(placed_patches(pair, self.config.patch))

    def quantise(self, seen: Seen) -> tuple[Latents, Quantized]:
        tokens = self.embed(seen)
        flat = tokens.flatten(0, 1)
        if self.training and not self.started:  # k-means of the first batch, as the tokenizer starts its codebook
            self.codebook.start_from(gather_rows(flat.detach().float()))
            self.started.fill_(True)
        quantized = self.codebook(flat)
        return self.out(quantized.tokens.view(len(tokens), -1)), quantized

    def codes_used(self, batch: Batch, seen: Seen) -> Tensor:
        codes = self.codebook.nearest(self.embed(seen).flatten(0, 1))[None]
        return code_weights(codes, self.config.codebook.codes).mean(0)

    def infer_latent(self, seen: Seen) -> Latents:
        return self.quantise(seen)[0]

    def forward(self, batch: Batch) -> Terms:
        seen = self.observe(batch)
        latent, quantized = self.quantise(seen)
        losses = {"next": self.stack_error(batch, seen, latent), "commit": quantized.distance}
        used = torch.bincount(quantized.codes, minlength=self.config.codebook.codes) > 0
        return Terms(losses, {**latent_stats(latent), "active": used.float().sum()})
