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

    def __init__(self, config: DecoderConfig, inputs: int, patch: int, colours: int, signals: int) -> None:
        super().__init__()
        self.config, width, subpixel = config, config.width, config.shape == "subpixel"
        if config.reference:  # a branch for which a frame becomes a map on the patch grid
            sizes = (colours, config.reference, config.reference, config.reference)
            coarse = (nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in itertools.pairwise(sizes))
            layers = [nn.Conv2d(colours, config.reference, patch, patch)] if subpixel else coarse
            self.look = nn.Sequential(*(part for layer in layers for part in (layer, nn.GELU())))
        enter, think = (nn.Conv2d(size, width, 3, padding=1) for size in (inputs + config.reference, width))
        deeper = (nn.Conv2d(width, width, 3, padding=1) for _ in range(config.depth))
        more = [part for layer in deeper for part in (layer, nn.GELU())]
        if subpixel:
            leave = nn.Conv2d(width, signals * patch**2, 1)
            self.draw = nn.Sequential(enter, nn.GELU(), think, nn.GELU(), *more, leave, nn.PixelShuffle(patch))
        else:
            enlarge = nn.Upsample(scale_factor=patch, mode="bilinear", align_corners=False)
            leave = nn.Conv2d(width, signals, 3, padding=1)
            self.draw = nn.Sequential(enter, nn.GELU(), *more, enlarge, think, nn.GELU(), leave)

    def forward(self, descriptors: Float[Tensor, "b d u v"], frame: Float[Tensor, "b c h w"]) -> Tensor:
        if self.config.reference:
            seen = self.look(frame)
            if seen.shape[-2:] != descriptors.shape[-2:]:
                seen = F.interpolate(seen, descriptors.shape[-2:], mode="bilinear", align_corners=False)
            descriptors = torch.cat([descriptors, seen], 1)
        return self.draw(descriptors)
