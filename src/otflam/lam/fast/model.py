"""LAPO and OTF-LAM with frozen random features as what is predicted.

Axes: b transitions, k c stacked frames and their colours, h w pixels, u v places, n = u v tokens, f features, d latent.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import Batch, Pointwise, Terms, conv_encoder, shift_clips
from otflam.lam.fast import FastLapoConfig, FastOTFConfig
from otflam.lam.lapo.model import Lapo, Seen, signed
from otflam.lam.model import LAM, Latents, Parts, at_least_one
from otflam.lam.otf_lam.codes import (
    ActionAbstraction,
    CodeLAM,
    Seen as Coded,
    TokenPredictor,
    check_tokenizer,
)
from otflam.lam.otf_lam.model import rescale
from otflam.tokenizer import MotionAutoencoder

PLACE = 8
"""Pixels along a side of a place that random features are of."""
SEED = 5
"""Every model predicts the same random features."""
GAIN = 4.0
"""Brings the features of frames to a deviation of about one."""


class RandomFeatures(nn.Module):
    """Two convolutions that nobody trains: like a code of every place that leaves out most pixels."""

    def __init__(self, side: int, colours: int, width: int) -> None:
        super().__init__()
        self.size = side * PLACE
        self.first = nn.Conv2d(colours, -(-width // 2), PLACE // 2, stride=PLACE // 2, bias=False)
        self.second = nn.Conv2d(self.first.out_channels, width, 3, stride=2, padding=1, bias=False)
        drawn = torch.Generator().manual_seed(SEED)
        for layer in (self.first, self.second):
            nn.init.orthogonal_(layer.weight, generator=drawn)
        self.requires_grad_(False)

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b n f"]:
        """Of images in [-1, 1]."""
        with torch.no_grad():
            features = self.second(self.first(rescale(images, self.size)).relu())
        return rearrange(GAIN * features, "b f u v -> b (u v) f")


class Featured(LAM):
    """A model that predicts the random features of the future frame."""

    targets: RandomFeatures

    def current(self, batch: Batch) -> Float[Tensor, "b n f"]:
        return self.targets(signed(batch.images(0)))

    def future(self, batch: Batch) -> Float[Tensor, "b n f"]:
        return self.targets(signed(batch.images(self.stride)))


class FastLapo(Featured, Lapo):
    config: FastLapoConfig

    def __init__(self, config: FastLapoConfig, size: int, colours: int) -> None:
        at_least_one(config, "hidden", "targets")
        super().__init__(config, size, colours)
        self.targets = RandomFeatures(self.side, colours, config.targets)

    def encoder_of(self, inputs: int, widths: list[int]) -> nn.Sequential:
        return conv_encoder(inputs, widths, self.config.blocks, between=nn.GELU)

    def decoder_of(self, widths: list[int], stacked: int) -> nn.Sequential:
        hidden = self.config.hidden
        return nn.Sequential(
            nn.Conv2d(2 * self.wide, hidden, 3, padding=1), nn.GELU(), Pointwise(hidden, self.config.targets)
        )

    def predict_future(self, seen: Seen, latent: Latents) -> Float[Tensor, "b n f"]:
        change = rearrange(self.decode(self.told(seen, latent)), "b f u v -> b (u v) f")
        return self.targets(seen.now[:, -self.colours :]) + change

    def predict_all(self, seen: Seen, latent: Latents) -> dict[int, Tensor]:
        return {self.stride: self.predict_future(seen, latent)}

    def forward(self, batch: Batch) -> Terms:
        return super().forward(shift_clips(batch, self.config.shift) if self.training else batch)

    def stack_error(self, batch: Batch, seen: Seen, latent: Latents) -> Float[Tensor, ""]:
        return F.mse_loss(self.predict_future(seen, latent), self.future(batch))


class FastOTF(Featured, CodeLAM):
    """Its state encoder sees each place by itself: neighbours meet in the attention."""

    config: FastOTFConfig

    def __init__(self, config: FastOTFConfig, tokenizer: MotionAutoencoder, colours: int) -> None:
        super().__init__(config, tokenizer)
        tokens, code = config.side**2, tokenizer.config.codebook.dim * config.cell**2
        self.enter = nn.Sequential(
            nn.Linear(colours * PLACE**2, config.hidden), nn.GELU(), nn.Linear(config.hidden, config.state)
        )
        self.abstraction = ActionAbstraction(config.abstraction, config.state, code, tokens)
        self.predictor = TokenPredictor(config.predictor, config.state, config.abstraction.latent, tokens)
        self.leave = nn.Linear(config.predictor.dim, config.targets)
        self.targets = RandomFeatures(config.side, colours, config.targets)

    @classmethod
    def build(cls, config: FastOTFConfig, parts: Parts) -> FastOTF:
        parts.square(1, "OTF-LAM")
        at_least_one(config, "state", "hidden", "targets")
        return cls(config, check_tokenizer(config, parts), parts.frames[2])

    def observe(self, batch: Batch) -> Coded:
        frame = signed(batch.images(0))
        placed = rearrange(rescale(frame, self.targets.size), "b c (u i) (v j) -> b (u v) (i j c)", i=PLACE, j=PLACE)
        return Coded(self.codes(batch), self.enter(placed), frame)

    def predict_future(self, seen: Coded, latent: Latents) -> Float[Tensor, "b n f"]:
        assert seen.frame is not None
        return self.targets(seen.frame) + self.leave(self.predictor(seen.state, latent))
