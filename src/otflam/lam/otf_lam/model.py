"""OTF-LAM-Pixel (paper §4.2, C.2), whose latent actions redraw the future frame, and OTF-LAM-DINO (paper §4.3, C.3),
whose latent actions predict it in the feature space of a frozen DINOv2.

Axes: b transitions, c h w pixels, p patches, n tokens, s state features, k codes, d latent.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn

from otflam.core import SILENT, Batch, Pointwise, Progress, UserError, grow, shrink
from otflam.data import Store
from otflam.lam.features import Backbone, store_features
from otflam.lam.model import Latents, Parts
from otflam.lam.otf_lam import DinoConfig, PixelConfig
from otflam.lam.otf_lam.codes import ActionAbstraction, CodeLAM, Seen, TokenPredictor, check_tokenizer
from otflam.tokenizer import MotionAutoencoder, code_weights

LEAST_CHANNELS = 16
"""Channels below which the RGB head does not shrink."""


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
        return Seen(codes, self.state(frame, codes), frame)

    def predict_future(self, seen: Seen, latent: Latents) -> Float[Tensor, "b c h w"]:
        predicted = self.head(self.predictor(seen.state, latent))
        assert seen.frame is not None
        return seen.frame + predicted if self.config.residual else predicted


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
        usage = None if self.usage is None else self.usage(code_weights(codes, self.count))
        for number, stage in enumerate(self.stages):
            seen = stage(seen)
            if usage is not None:
                scale, shift = self.films[number](usage)[..., None, None].chunk(2, 1)
                seen = (1 + scale) * seen + shift
        return rearrange(seen, "b s u v -> b (u v) s")


class RGBHead(nn.Module):
    """Tokens back to pixels: a 1×1 convolution, then doublings with half the channels each."""

    def __init__(self, config: PixelConfig, size: int, colours: int) -> None:
        super().__init__()
        self.side, self.size, drawn = config.side, size // config.drawn, config.drawn
        side, channels = config.side, config.head
        layers: list[nn.Module] = [Pointwise(config.predictor.dim, channels)]
        # The paper names no widths. Halving makes 0.18 M parameters of it at the paper's size; what is reported
        # of the public model fits one that stays at 128 channels, 1.28 M (docs/decisions.md).
        while 2 * side <= self.size:
            fewer, side = max(LEAST_CHANNELS, channels // 2), 2 * side
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


class DinoLAM(CodeLAM):
    def __init__(self, config: DinoConfig, tokenizer: MotionAutoencoder, width: int, backbone: Backbone | None) -> None:
        """Without a `backbone` the model works on stored features only."""
        super().__init__(config, tokenizer)
        self.backbone = backbone
        tokens, code = config.side**2, tokenizer.config.codebook.dim * config.cell**2
        self.abstraction = ActionAbstraction(config.abstraction, width, code, tokens)
        self.predictor = TokenPredictor(config.predictor, width, config.abstraction.latent, tokens)
        self.leave = nn.Linear(config.predictor.dim, width)

    @classmethod
    def build(cls, config: DinoConfig, parts: Parts) -> DinoLAM:
        parts.square(1, "OTF-LAM")
        tokenizer = check_tokenizer(config, parts)
        if parts.width is None:
            raise UserError(
                "otf-lam-dino needs a DINOv2 backbone", "give --dino DIR (see 'otflam dino prepare --help')"
            )
        if parts.backbone is not None:
            parts.backbone.check_grid(config.side)
        return cls(config, tokenizer, parts.width, parts.backbone)

    def columns(
        self,
        parts: Parts,
        store: Store,
        episodes: Sequence[int] | np.ndarray | None,
        progress: Progress = SILENT,
        online: bool = False,
    ) -> dict[str, Store]:
        columns = super().columns(parts, store, episodes, progress)
        if parts.backbone is not None and not online:
            columns["features"] = store_features(store, parts.backbone, episodes, progress.part("DINO features"))
        return columns

    def observe(self, batch: Batch) -> Seen:
        return Seen(self.codes(batch), self.current(batch))

    def predict_future(self, seen: Seen, latent: Latents) -> Float[Tensor, "b n s"]:
        return self.leave(self.predictor(seen.state, latent))

    def current(self, batch: Batch) -> Float[Tensor, "b n s"]:
        return self.features(batch, 0)

    def future(self, batch: Batch) -> Float[Tensor, "b n s"]:
        return self.features(batch, self.stride)

    def features(self, batch: Batch, offset: int) -> Float[Tensor, "b n s"]:
        """The frozen backbone's view of a frame: stored features if the batch has them."""
        if "features" in batch.columns:
            return batch.at("features", offset).to(torch.float32)
        if self.backbone is None:
            raise UserError("the data have no stored features and no backbone is loaded", "give --dino DIR")
        return self.backbone(batch.frames[:, batch.offsets.index(offset)]).to(batch.frames.device)
