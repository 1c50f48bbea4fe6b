"""Codes, motion and frames as pixels, with nothing to draw on: a video is tokenised without matplotlib.

Axes: m h w motion, c h w pixels, u v patches, k codes, i j pixels of a patch.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from otflam.tokenizer import OTF

GAIN = 0.35
"""How strongly motion is shown: 0 is middle gray."""
STILL = (150, 150, 150)
"""Colour of the code of what is still, in vocabularies that have one."""


def code_colours(count: int) -> UInt8[np.ndarray, "k 3"]:
    """A colour for every code, neighbours in number far apart in hue."""
    places = (6 * (np.arange(count) * 0.61803398875 % 1)[:, None] + [5, 3, 1]) % 6
    return (255 * 0.85 * (1 - np.minimum(places, 4 - places).clip(0, 1))).astype(np.uint8)


def colours_of(tokenizer: OTF) -> UInt8[np.ndarray, "k 3"]:
    """The same for the codes of a tokenizer; what is still has no hue."""
    colours = code_colours(tokenizer.codes)
    if tokenizer.config.still:
        colours[0] = STILL
    return colours


def name_code(tokenizer: OTF, code: int) -> str:
    """A code's number; that of stillness says so."""
    return f"{code} still" if tokenizer.config.still and code == 0 else str(code)


def show_motion(signal: Float[Tensor, "m h w"]) -> UInt8[np.ndarray, "h w 3"]:
    """Motion as a picture: its channels as red, green and blue around gray."""
    picture = (0.5 + GAIN * signal).clamp(0, 1)
    picture = picture if len(picture) == 3 else picture.mean(0, keepdim=True).expand(3, -1, -1)
    return (255 * picture).byte().permute(1, 2, 0).numpy()


def show_frame(frame: Float[Tensor, "c h w"]) -> UInt8[np.ndarray, "h w 3"]:
    return (255 * frame).byte().expand(3, -1, -1).permute(1, 2, 0).numpy()


def show_codes(codes: UInt8[np.ndarray, "u v"] | np.ndarray, tokenizer: OTF) -> UInt8[np.ndarray, "u v 3"]:
    return colours_of(tokenizer)[codes]


def decoded_effects(tokenizer: OTF) -> Float[Tensor, "k m i j"]:
    """What each code draws in the middle of a gray frame that it covers."""
    grid, size = tokenizer.config.grid, tokenizer.config.patch
    codes = torch.arange(tokenizer.codes)[:, None].expand(-1, grid**2)
    frame = torch.full((tokenizer.codes, tokenizer.config.channels, grid * size, grid * size), 0.5)
    middle = grid // 2 * size
    return tokenizer.redraw(codes, frame)[:, :, middle : middle + size, middle : middle + size]
