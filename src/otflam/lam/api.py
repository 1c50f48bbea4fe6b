"""A trained latent action model in a few lines of Python.

model = LatentActionModel.from_pretrained("runs/lam")
latents = model.infer(frames)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from otflam.core import Batch, UserError, clip_batches, read_release
from otflam.data import VideoImport, decode_video
from otflam.lam.build import LAM_KIND, load_lam
from otflam.lam.features import Backbone
from otflam.lam.model import LAM
from otflam.lam.parts import Parts

Frames = np.ndarray | Tensor | str | Path
"""Bytes, from numpy or torch: a video [t, h, w, c], or clips [b, k, h, w, c] with frames at the model's offsets; or a
video file or folder of images, which is scaled as 'otflam data import videos' does."""


class LatentActionModel:
    """Frames in, latent actions out; and from a latent action the future."""

    def __init__(self, model: LAM, parts: Parts) -> None:
        self.model, self.parts = model.eval(), parts

    @classmethod
    def from_pretrained(cls, folder: str | Path, dino: str | None = None) -> LatentActionModel:
        """Load a trained model; one that predicts features also needs the folder or hub name of its DINOv2."""
        told = read_release(Path(folder), LAM_KIND)["backbone"]
        return cls(*load_lam(Path(folder), None if dino is None or told is None else Backbone.load(dino, told["size"])))

    @property
    def offsets(self) -> tuple[int, ...]:
        """Times of the frames of a clip, relative to the current one."""
        return self.model.offsets

    @torch.inference_mode()
    def infer(self, frames: Frames) -> Float[Tensor, "b d"]:
        """Name what turned the current frame into the future one, in every clip."""
        return torch.cat([self.model.infer(batch) for batch in self._batches(frames)])

    @torch.inference_mode()
    def predict(self, frames: Frames, latent: Float[Tensor, "b d"]) -> Tensor:
        """The future that a latent action makes of the current frame, in the space the model predicts in."""
        parts, done = [], 0
        for batch in self._batches(frames):
            parts.append(self.model.predict(batch, latent[done : done + len(batch.frames)]))
            done += len(batch.frames)
        if done != len(latent):
            raise UserError(f"{len(latent)} latent actions for {done} clips", "give one for each")
        return torch.cat(parts)

    def _batches(self, frames: Frames) -> Iterator[Batch]:
        if isinstance(frames, str | Path):
            frames = decode_video(Path(frames), VideoImport(size=self.parts.frames[0]))[0]
        for batch in clip_batches(frames, self.offsets):
            self.parts.check_frames(tuple(batch.frames.shape[2:]))
            yield batch
