"""What a latent action model is made for and of, beside its own configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from otflam.core import UserError, require_square
from otflam.lam.features import Backbone


@dataclass(frozen=True)
class Parts:
    frames: tuple[int, int, int]
    """Height, width and colours of the frames."""
    base: nn.Module | None = None
    """The trained model that this one stands on."""
    base_hash: str | None = None
    backbone: Backbone | None = None
    width: int | None = None
    """Features of the backbone, which may itself be absent where they are stored."""

    def square(self, multiple: int, what: str) -> int:
        """The side of square frames, which must be a multiple of something."""
        return require_square(self.frames[:2], multiple, what)

    def check_frames(self, shape: tuple[int, ...]) -> None:
        """Refuse frames of another size than the model was trained on."""
        if tuple(shape) != self.frames:
            seen, wanted = ("×".join(map(str, sizes)) for sizes in (shape, self.frames))
            raise UserError(f"frames of {seen} for a model trained on {wanted}", "scale them or train on such frames")


def at_least_one(config: Any, *names: str) -> None:
    for name in names:
        if getattr(config, name) < 1:
            raise UserError(f"--{name} {getattr(config, name)}", "give at least 1")
