"""What a model sees, clips of frames as torch tensors, and what it answers. The only place where bytes become floats.

Axes: b clips, k frames of a clip, h w c pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from otflam.core.errors import UserError

T = TypeVar("T")
BATCH = 64
"""Clips that are worked on at once where nobody says how many."""


class Terms(NamedTuple):
    """What an objective returns. Named tuples pass between model and loop: Fabric refuses frozen dataclasses."""

    losses: dict[str, Tensor]
    """Unweighted; the training configuration has one weight for each."""
    metrics: dict[str, Tensor]
    """Only to be logged."""


class Batch(NamedTuple):
    """Clips of frames, and what else was recorded at the same times."""

    frames: UInt8[Tensor, "b k h w c"]
    offsets: tuple[int, ...]
    """Time of each frame of a clip relative to the clip's anchor."""
    columns: Mapping[str, Tensor]
    """Further columns at the same times: [b, k, ...]."""

    def to(self, device: torch.device) -> Batch:
        """The same clips in another memory."""
        columns = {name: column.to(device) for name, column in self.columns.items()}
        return Batch(self.frames.to(device), self.offsets, columns)

    def images(self, offset: int) -> Float[Tensor, "b c h w"]:
        """The frames at one offset in [0, 1]; their memory layout is channels_last, without a copy."""
        chosen = self.bytes_at(offset).permute(0, 3, 1, 2)
        return chosen.to(torch.float32, memory_format=torch.preserve_format).div_(255)

    def stack(self, last: int, count: int) -> Float[Tensor, "b kc h w"]:
        """`count` consecutive frames up to offset `last`, stacked along the channels, oldest first."""
        frames = [self.bytes_at(offset) for offset in range(last - count + 1, last + 1)]
        return interleave(frames).to(torch.float32, memory_format=torch.preserve_format).div_(255)

    def bytes_at(self, offset: int) -> UInt8[Tensor, "b h w c"]:
        """The frames at one offset as they are stored."""
        return self.frames[:, self.offsets.index(offset)]

    def at(self, column: str, offset: int) -> Tensor:
        return self.columns[column][:, self.offsets.index(offset)]


def interleave(images: Sequence[Shaped[Tensor, "b h w c"]]) -> Shaped[Tensor, "b kc h w"]:
    """Stack images along their channels, in memory that is channels-last.

    On a CPU numpy copies pixels, each as one item: torch takes three times as long, a fifth of a clone's step.
    """
    if images[0].device.type != "cpu" or torch.compiler.is_compiling():
        return torch.cat([image.permute(0, 3, 1, 2) for image in images], 1)
    pixel = np.dtype(f"V{images[0].shape[-1] * images[0].element_size()}")
    stacked = np.empty((*images[0].shape[:-1], len(images)), pixel)
    for place, image in enumerate(images):
        whole = image if image.stride(-1) == 1 else image.contiguous()  # somebody's own frames may be views
        stacked[..., place] = whole.numpy().view(pixel)[..., 0]
    return torch.from_numpy(stacked.view(image.numpy().dtype)).permute(0, 3, 1, 2)


def clip_batches(frames: np.ndarray | Tensor, offsets: tuple[int, ...]) -> Iterator[Batch]:
    """Check frames that somebody gives, and cut a video into all its clips; clips are taken as they are."""
    if not isinstance(frames, np.ndarray | Tensor):
        raise UserError(f"frames in a {type(frames).__name__}", "give an array of numpy or torch, or a video's path")
    kind = str(frames.dtype).removeprefix("torch.")
    if kind != "uint8":
        raise UserError(f"frames of type {kind}", "give bytes from 0 to 255 (uint8): a fraction would be cut to 0")
    if isinstance(frames, np.ndarray):  # torch warns of arrays that cannot be written, such as those of a store
        frames = np.require(frames, requirements=["C", "W"])
    whole = torch.as_tensor(frames)
    if whole.ndim not in (4, 5) or 0 in whole.shape or (whole.ndim == 5 and whole.shape[1] != len(offsets)):
        raise UserError(
            f"frames of shape {list(whole.shape)}",
            f"give a video [time, height, width, channel], or clips [clip, {len(offsets)}, height, width, channel] "
            f"with frames at {list(offsets)}",
        )
    if whole.ndim == 5:
        yield from (Batch(part, offsets, {}) for part in whole.split(BATCH))
        return
    anchors = torch.arange(-min(offsets[0], 0), len(whole) - max(offsets[-1], 0))
    if not len(anchors):
        raise UserError(f"a video of {len(whole)} frames", f"a clip has frames at {list(offsets)}")
    for part in anchors.split(BATCH):
        yield Batch(whole[part[:, None] + torch.tensor(offsets)], offsets, {})


def windows(items: Iterable[T], span: int, size: int) -> Iterator[list[T]]:
    """Cut a stream into overlapping parts: each begins with the last `span` items before it and has `size` new ones."""
    held: list[T] = []
    for item in items:
        held.append(item)
        if len(held) == span + size:
            yield held
            held = held[size:]
    if len(held) > span:
        yield held
