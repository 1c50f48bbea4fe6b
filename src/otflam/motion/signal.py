"""The motion signal o_t (paper §3.1, D.1): transform each frame, then take temporal differences.

The transform comes before the difference, because an edge that moves is a difference of edges, while the edges of a
difference mix the background's texture into the motion.

Axes: n frames, c h w pixels.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from otflam.motion.config import MotionConfig, Transform

Frames = Float[Tensor, "n c h w"]

LUMA = (0.2989, 0.5870, 0.1140)
EPSILON = 1e-12
"""Keeps the gradient of a magnitude finite where an image is flat."""


def motion(config: MotionConfig, frames: list[Frames]) -> Float[Tensor, "n m h w"]:
    """o_t from frames at `config.offsets`: φ(x_{t+τ}) − φ(x_t), or φ(x_{t+τ}) − 2φ(x_t) + φ(x_{t−τ})."""
    seen = [TRANSFORMS[config.transform](frame) for frame in frames]
    return seen[1] - seen[0] if config.order == 1 else seen[2] - 2 * seen[1] + seen[0]


def motion_of_sequence(config: MotionConfig, frames: Frames) -> Float[Tensor, "t m h w"]:
    """Every o_t of consecutive frames; each frame is transformed once, not once for every motion it is part of."""
    seen, step = TRANSFORMS[config.transform](frames), config.stride
    if config.order == 1:
        return seen[step:] - seen[:-step]
    return seen[2 * step :] - 2 * seen[step:-step] + seen[: -2 * step]


def gray(frames: Frames) -> Float[Tensor, "n 1 h w"]:
    if frames.shape[1] == 1:
        return frames
    red, green, blue = frames.split(1, 1)
    return LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue


def derivatives(image: Float[Tensor, "n 1 h w"]) -> tuple[Float[Tensor, "n 1 h w"], Float[Tensor, "n 1 h w"]]:
    """Unnormalised Sobel derivatives along columns and rows with zeros beyond the edge.

    Each kernel is a difference times a smoothing: shifted slices take a quarter of a convolution's time.
    """
    padded = F.pad(image, (1, 1, 1, 1))
    smooth = padded[..., :-2, :] + 2 * padded[..., 1:-1, :] + padded[..., 2:, :]
    along_columns = smooth[..., 2:] - smooth[..., :-2]
    smooth = padded[..., :-2] + 2 * padded[..., 1:-1] + padded[..., 2:]
    along_rows = smooth[..., 2:, :] - smooth[..., :-2, :]
    return along_columns, along_rows


def sobel(frames: Frames) -> Float[Tensor, "n 3 h w"]:
    image = gray(frames)
    return torch.cat([image, *derivatives(image)], 1)


def gradient(frames: Frames) -> Float[Tensor, "n 3 h w"]:
    x, y = derivatives(gray(frames))
    return torch.cat([x, y, (x * x + y * y + EPSILON).sqrt()], 1)


def blur(image: Frames) -> Frames:
    """Gaussian of deviation 1 on 5×5 pixels; the edge is repeated beyond itself."""
    weights = torch.exp(-0.5 * torch.arange(-2, 3, device=image.device, dtype=image.dtype) ** 2)
    weights = weights / weights.sum()
    height, width = image.shape[-2:]
    padded = F.pad(image, (2, 2, 2, 2), mode="replicate")
    rows = torch.stack([weights[i] * padded[..., i : i + height, :] for i in range(5)]).sum(0)
    return torch.stack([weights[i] * rows[..., i : i + width] for i in range(5)]).sum(0)


def laplacian_of_gaussian(frames: Frames) -> Float[Tensor, "n 3 h w"]:
    """Blobs: the Laplacian of the blurred image, and its positive and negative parts."""
    smooth = F.pad(blur(gray(frames)), (1, 1, 1, 1), mode="replicate")
    centre = smooth[..., 1:-1, 1:-1]
    around = smooth[..., :-2, 1:-1] + smooth[..., 2:, 1:-1] + smooth[..., 1:-1, :-2] + smooth[..., 1:-1, 2:]
    response = around - 4 * centre
    return torch.cat([response, response.relu(), (-response).relu()], 1)


def highpass(frames: Frames) -> Frames:
    return frames - blur(frames)


TRANSFORMS: dict[Transform, Callable[[Frames], Frames]] = {
    "none": lambda frames: frames,
    "sobel": sobel,
    "gradient": gradient,
    "log": laplacian_of_gaussian,
    "highpass": highpass,
}
