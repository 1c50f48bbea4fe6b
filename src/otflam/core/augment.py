"""Other views of the same: what is drawn at random comes from torch's generator, which a training seeds at every step.

Axes: b clips or images, c colours, h w pixels.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from otflam.core.batch import Batch

SHIFT, TURN, TILT = 14 / 32, math.pi / 2, 0.5
"""The most that an image is shifted and turned, and how far its corners are moved inwards; lengths are shares of half a
side. LAOM's values, for frames of 64 pixels."""
CORNERS = torch.tensor([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])


def shift_clips(batch: Batch, most: int) -> Batch:
    """Shift every clip by up to so many pixels each way, all its frames alike; what enters repeats the border."""
    frames, height = batch.frames, batch.frames.shape[2]
    moved, shifts = torch.empty_like(frames), torch.randint(-most, most + 1, (len(frames), 2))
    rows = (torch.arange(height) + shifts[:, :1]).clamp(0, height - 1).to(frames.device)
    for clip, chosen, target, across in zip(frames, rows, moved, shifts[:, 1].tolist(), strict=True):
        source = clip.index_select(1, chosen)
        # Slices copy whole rows of pixels: choosing columns one by one takes twice as long.
        if across > 0:
            target[:, :, :-across], target[:, :, -across:] = source[:, :, across:], source[:, :, -1:]
        elif across < 0:
            target[:, :, -across:], target[:, :, :-across] = source[:, :, :across], source[:, :, :1]
        else:
            target.copy_(source)
    return batch._replace(frames=moved)


def warp_images(images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
    """Leave each image as it is, or shift, turn or tilt it, or do two of these; what enters repeats the border."""
    return look(images, draw_views(len(images)))


def warp_clips(batch: Batch, masks: str) -> Batch:
    """The same for whole clips, all their frames alike, and for their masks."""
    views = draw_views(len(batch.frames))
    flat = batch.frames.permute(0, 1, 4, 2, 3).flatten(1, 2).float()
    seen = look(flat, views).round().clamp(0, 255).to(torch.uint8)
    frames = seen.unflatten(1, (batch.frames.shape[1], -1)).permute(0, 1, 3, 4, 2).contiguous()
    columns = dict(batch.columns)
    if masks in columns:
        columns[masks] = look(columns[masks].float(), views, "nearest").to(columns[masks].dtype)
    return Batch(frames, batch.offsets, columns)


def draw_views(count: int) -> Float[Tensor, "b 3 3"]:
    """Where each image looks: projections of places from -1 to 1."""
    still, shift, turn, tilt = torch.eye(3).expand(count, 3, 3), shifts(count), turns(count), tilts(count)
    every = torch.stack([still, shift, turn, tilt, shift @ turn, shift @ tilt, turn @ tilt, tilt @ turn])
    return every[torch.randint(len(every), (count,)), torch.arange(count)]


def look(
    images: Float[Tensor, "b c h w"], views: Float[Tensor, "b 3 3"], mode: str = "bilinear"
) -> Float[Tensor, "b c h w"]:
    """Images as they are seen from there."""
    count, _, height, width = images.shape
    chosen = views.to(images)
    rows, columns = (torch.arange(side).add(0.5).mul(2 / side).sub(1) for side in (height, width))
    places = torch.stack([*torch.meshgrid(columns, rows, indexing="xy"), torch.ones(height, width)], -1).to(images)
    seen = places.view(-1, 3) @ chosen.mT
    grid = (seen[..., :2] / seen[..., 2:].clamp_min(0.05)).view(count, height, width, 2)
    return F.grid_sample(images, grid, mode=mode, padding_mode="border", align_corners=False)


def shifts(count: int) -> Float[Tensor, "b 3 3"]:
    found = torch.eye(3).repeat(count, 1, 1)
    found[:, :2, 2] = torch.rand(count, 2).mul(2).sub(1) * SHIFT
    return found


def turns(count: int) -> Float[Tensor, "b 3 3"]:
    angle = torch.rand(count).mul(2).sub(1) * TURN
    found = torch.eye(3).repeat(count, 1, 1)
    found[:, 0, 0], found[:, 0, 1], found[:, 1, 0], found[:, 1, 1] = angle.cos(), -angle.sin(), angle.sin(), angle.cos()
    return found


def tilts(count: int) -> Float[Tensor, "b 3 3"]:
    """The projection that shows, at the corners, what is up to so far inside of them."""
    inside = CORNERS * (1 - TILT * torch.rand(count, 4, 2))
    x, y = CORNERS.T.expand(count, 2, 4).unbind(1)
    u, v = inside.unbind(-1)
    one, none = torch.ones_like(x), torch.zeros_like(x)
    across = torch.stack([x, y, one, none, none, none, -x * u, -y * u], -1)
    down = torch.stack([none, none, none, x, y, one, -x * v, -y * v], -1)
    solved = torch.linalg.solve(torch.cat([across, down], 1), torch.cat([u, v], 1))
    return torch.cat([solved, torch.ones(count, 1)], 1).view(count, 3, 3)
