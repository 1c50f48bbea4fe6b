"""From a map of descriptors on the patch grid, and the current frame, back to the motion signal (paper B.3, B.4).

Two shapes of the same idea. `bilinear` is the paper's: a coarse reference map, upsampling to full resolution and wide
convolutions there, which is nearly all of its cost. `subpixel` is ours: the reference map keeps every pixel of its
patch as channels, all convolutions run on the grid, and the last one's channels are the pixels of a patch.

Axes: b samples, c channels, u v grid, h w pixels.
"""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from otflam.tokenizer.config import DecoderConfig


class Decoder(nn.Module):
    """D(H, x): the motion that descriptors H on the grid make of the frame x."""

    look: nn.Module
    """The reference branch: a frame becomes a map on the patch grid."""
    draw: nn.Module

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config

    def forward(self, descriptors: Float[Tensor, "b d u v"], frame: Float[Tensor, "b c h w"]) -> Tensor:
        if self.config.reference:
            seen = self.look(frame)
            if seen.shape[-2:] != descriptors.shape[-2:]:
                seen = F.interpolate(seen, descriptors.shape[-2:], mode="bilinear", align_corners=False)
            descriptors = torch.cat([descriptors, seen], 1)
        return self.draw(descriptors)


class SubpixelDecoder(Decoder):
    def __init__(self, config: DecoderConfig, inputs: int, patch: int, colours: int, signals: int) -> None:
        super().__init__(config)
        if config.reference:
            self.look = nn.Sequential(nn.Conv2d(colours, config.reference, patch, patch), nn.GELU())
        self.draw = nn.Sequential(
            nn.Conv2d(inputs + config.reference, config.width, 3, padding=1),
            nn.GELU(),
            nn.Conv2d(config.width, config.width, 3, padding=1),
            nn.GELU(),
            nn.Conv2d(config.width, signals * patch**2, 1),
            nn.PixelShuffle(patch),
        )


class BilinearDecoder(Decoder):
    def __init__(self, config: DecoderConfig, inputs: int, patch: int, colours: int, signals: int) -> None:
        super().__init__(config)
        if config.reference:
            sizes = (colours, config.reference, config.reference, config.reference)
            layers = [nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in itertools.pairwise(sizes)]
            self.look = nn.Sequential(*(part for layer in layers for part in (layer, nn.GELU())))
        self.draw = nn.Sequential(
            nn.Conv2d(inputs + config.reference, config.width, 3, padding=1),
            nn.GELU(),
            nn.Upsample(scale_factor=patch, mode="bilinear", align_corners=False),
            nn.Conv2d(config.width, config.width, 3, padding=1),
            nn.GELU(),
            nn.Conv2d(config.width, signals, 3, padding=1),
        )


def make_decoder(config: DecoderConfig, inputs: int, patch: int, colours: int, signals: int) -> Decoder:
    kind = SubpixelDecoder if config.shape == "subpixel" else BilinearDecoder
    return kind(config, inputs, patch, colours, signals)
