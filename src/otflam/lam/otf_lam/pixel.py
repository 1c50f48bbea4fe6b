"""OTF-LAM-Pixel (paper §4.2, C.2): latent actions that redraw the future frame.

Axes: b transitions, c h w pixels, p patches, n tokens, s state features, k codes, d latent.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn

from otflam.core import Batch, UserError, grow, shrink
from otflam.lam.model import Latents, Parts
from otflam.lam.otf_lam import PixelConfig
from otflam.lam.otf_lam.codes import ActionAbstraction, CodeLAM, TokenPredictor, check_tokenizer
from otflam.tokenizer import MotionAutoencoder, code_weights

LEAST = 16
"""Channels below which the RGB head does not shrink."""


class Seen(NamedTuple):
    frame: Float[Tensor, "b c h w"]
    codes: Int64[Tensor, "b p"]
    state: Float[Tensor, "b n s"]


class PixelLAM(CodeLAM):
    config: PixelConfig

    def __init__(self, config: PixelConfig, tokenizer: MotionAutoencoder, size: int, colours: int) -> None:
        super().__init__(config, tokenizer)
        tokens, state, code = config.side**2, config.channels[-1], tokenizer.config.codebook.dim * config.cell**2
        self.state = StateEncoder(config, colours, tokenizer.config.codebook.codes)
        self.abstraction = ActionAbstraction(config.abstraction, state, code, tokens)
        self.predictor = TokenPredictor(config.predictor, state, config.abstraction.latent, tokens)
        self.head = RGBHead(config, size, colours)

    @classmethod
    def build(cls, config: PixelConfig, parts: Parts) -> PixelLAM:
        size, tokenizer = parts.square(1, "OTF-LAM"), check_tokenizer(config, parts)
        if config.drawn < 1 or size % config.drawn:
            raise UserError(f"--drawn {config.drawn} for frames of {size} pixels", "choose a divisor")
        return cls(config, tokenizer, size, parts.frames[2])

    def observe(self, batch: Batch) -> Seen:
        frame, codes = batch.images(0), self.codes(batch)
        return Seen(frame, codes, self.state(frame, codes))

    def predict_future(self, seen: Seen, latent: Latents) -> Float[Tensor, "b c h w"]:
        drawn = self.head(self.predictor(seen.state, latent))
        return seen.frame + drawn if self.config.residual else drawn


class StateEncoder(nn.Module):
    """The current frame on the token grid, every stage modulated by which codes the transition uses.

    The frame is first scaled so that the stages end exactly on the grid: no feature map is interpolated.
    """

    def __init__(self, config: PixelConfig, colours: int, codes: int) -> None:
        super().__init__()
        self.size, self.count = config.side * 2 ** len(config.channels), codes
        widths = (colours, *config.channels)
        self.stages = nn.ModuleList(shrink(a, b, config.blocks) for a, b in itertools.pairwise(widths))
        self.usage = nn.Linear(codes, config.usage) if config.usage else None
        self.films = nn.ModuleList(nn.Linear(config.usage, 2 * b) for b in config.channels if config.usage)

    def forward(self, frame: Float[Tensor, "b c h w"], codes: Int64[Tensor, "b p"]) -> Float[Tensor, "b n s"]:
        seen = rescale(2 * frame - 1, self.size)
        told = None if self.usage is None else self.usage(code_weights(codes, self.count))
        for number, stage in enumerate(self.stages):
            seen = stage(seen)
            if told is not None:
                scale, shift = self.films[number](told)[..., None, None].chunk(2, 1)
                seen = (1 + scale) * seen + shift
        return rearrange(seen, "b s u v -> b (u v) s")


class RGBHead(nn.Module):
    """Tokens back to pixels: a 1×1 convolution, then doublings with half the channels each."""

    def __init__(self, config: PixelConfig, size: int, colours: int) -> None:
        super().__init__()
        self.side, self.size, drawn = config.side, size // config.drawn, config.drawn
        side, channels = config.side, config.head
        layers: list[nn.Module] = [nn.Conv2d(config.predictor.dim, channels, 1)]
        # The paper names no widths. Halving makes 0.18 M parameters of it at the paper's size; what is reported
        # of the public model fits one that stays at 128 channels, 1.28 M (docs/decisions.md).
        while 2 * side <= self.size:
            fewer, side = max(LEAST, channels // 2), 2 * side
            layers += [nn.GELU(), grow(channels, fewer, config.blocks)]
            channels = fewer
        self.grow = nn.Sequential(*layers, nn.GELU())
        self.leave, self.spread = nn.Conv2d(channels, colours * drawn**2, 3, padding=1), nn.PixelShuffle(drawn)

    def forward(self, tokens: Float[Tensor, "b n s"]) -> Float[Tensor, "b c h w"]:
        grown = self.grow(rearrange(tokens, "b (u v) s -> b s u v", u=self.side))
        return self.spread(self.leave(rescale(grown, self.size)))


def rescale(images: Float[Tensor, "b c h w"], size: int) -> Float[Tensor, "b c s s"]:
    if images.shape[-1] == size:
        return images
    return F.interpolate(images, (size, size), mode="bilinear", align_corners=False)
