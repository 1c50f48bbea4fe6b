"""What a model sees: clips of frames as torch tensors. The only place where bytes become floats.

Axes: b clips, k frames of a clip, h w c pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor


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
        chosen = self.frames[:, self.offsets.index(offset)]
        return chosen.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.preserve_format).div_(255)

    def stack(self, last: int, count: int) -> Float[Tensor, "b kc h w"]:
        """`count` consecutive frames up to offset `last`, stacked along the channels, oldest first."""
        return torch.cat([self.images(offset) for offset in range(last - count + 1, last + 1)], 1)

    def at(self, column: str, offset: int) -> Tensor:
        return self.columns[column][:, self.offsets.index(offset)]
