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
from otflam.core.release import read_release
from otflam.lam.features import Backbone
from otflam.lam.methods import KIND, Parts, check_frames, load_lam
from otflam.lam.model import LAM

Frames = UInt8[Tensor, "b t h w c"]
"""Clips of frames at the offsets that the model names transitions from."""


class LatentActionModel:
    """Frames in, latent actions out; and from a latent action the future."""

    def __init__(self, model: LAM, parts: Parts) -> None:
        self.model, self.parts = model.eval(), parts

    @classmethod
    def from_pretrained(cls, folder: str | Path, dino: str | None = None) -> LatentActionModel:
        """Load a trained model; one that predicts features also needs the folder or hub name of its DINOv2."""
        told = read_release(Path(folder), KIND)["backbone"]
        return cls(*load_lam(Path(folder), None if dino is None or told is None else Backbone.load(dino, told["size"])))

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
        if frames.dtype != torch.uint8 or frames.dim() != 5 or frames.shape[1] != len(self.offsets):
            raise UserError(
                f"clips of shape {tuple(frames.shape)} and type {frames.dtype}",
                f"this model needs bytes [clip, time, height, width, channel] with frames at {list(self.offsets)}",
            )
        check_frames(self.parts, tuple(frames.shape[2:]))
        return Batch(frames, self.offsets, {})
