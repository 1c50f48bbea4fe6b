"""A trained latent action model in a few lines of Python.

model = LatentActionModel.from_pretrained("runs/lam")
latents = model.infer(frames)
"""

from __future__ import annotations

from pathlib import Path

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from otflam.core.batch import Batch
from otflam.core.errors import UserError
from otflam.lam.features import Backbone
from otflam.lam.methods import load_lam
from otflam.lam.model import LAM

Frames = UInt8[Tensor, "b t h w c"]
"""Clips of frames at the offsets that the model names transitions from."""


class LatentActionModel:
    """Frames in, latent actions out; and from a latent action the future."""

    def __init__(self, model: LAM) -> None:
        self.model = model.eval()

    @classmethod
    def from_pretrained(cls, folder: str | Path, dino: str | None = None, size: int = 196) -> LatentActionModel:
        """Load a trained model; one that predicts features also needs the folder of its DINOv2 and the frame size."""
        return cls(load_lam(Path(folder), None if dino is None else Backbone.load(dino, size))[0])

    @property
    def offsets(self) -> tuple[int, ...]:
        """Times of the frames of a clip, relative to the current one."""
        return self.model.offsets

    @torch.inference_mode()
    def infer(self, frames: Frames) -> Float[Tensor, "b d"]:
        """Name what turned the current frame into the future one."""
        return self.model.infer(self._batch(frames))

    @torch.inference_mode()
    def predict(self, frames: Frames, latent: Float[Tensor, "b d"]) -> Tensor:
        """The future that a latent action makes of the current frame, in the space the model predicts in."""
        return self.model.predict(self._batch(frames), latent)

    def _batch(self, frames: Frames) -> Batch:
        if frames.shape[1] != len(self.offsets):
            raise UserError(f"clips of {frames.shape[1]} frames", f"this model needs frames at {list(self.offsets)}")
        return Batch(frames, self.offsets, {})
