"""A trained latent action model in a few lines of Python.

model = LatentActionModel.from_pretrained("runs/lam")
latents = model.infer(frames)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from otflam.core import (
    Batch,
    Pretrained,
    UserError,
    clip_batches,
    find_folder,
    place_of,
    read_release,
    save_weights,
    write_json,
)
from otflam.data import VideoImport, decode_video
from otflam.lam.build import LAM_KIND, load_lam
from otflam.lam.features import Backbone
from otflam.lam.model import LAM, Parts

Frames = np.ndarray | Tensor | str | Path
"""Bytes, from numpy or torch: a video [t, h, w, c], or clips [b, k, h, w, c] with frames at the model's offsets; or a
video file or folder of images, which is scaled as 'otflam data import videos' does."""


class LatentActionModel(Pretrained):
    """Frames in, latent actions out; and from a latent action the future."""

    def __init__(self, model: LAM, parts: Parts, about: dict[str, Any]) -> None:
        self.model, self.parts, self.about = model.eval(), parts, about

    @classmethod
    def from_pretrained(
        cls, folder: str | Path, dino: str | None = None, revision: str | None = None
    ) -> LatentActionModel:
        """Load a trained model from its folder, or as USER/NAME from the Hugging Face Hub; one that predicts features
        also needs the folder or hub name of its DINOv2."""
        source = find_folder(folder, revision=revision)
        about = read_release(source, LAM_KIND)
        needed = dino is not None and about["backbone"] is not None
        backbone = Backbone.load(dino, about["backbone"]["size"]) if needed else None
        model = cls(*load_lam(source, backbone), about)
        model.source = source
        return model

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors`, the layout of model hubs."""
        write_json(Path(folder) / "config.json", self.about)
        save_weights(self.model, Path(folder))

    def to(self, device: str | torch.device) -> LatentActionModel:
        """Work on another device; frames may come from anywhere."""
        self.model.to(device)
        if self.parts.backbone is not None:
            self.parts.backbone.to(torch.device(device))
        return self

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
            chosen = latent[done : done + len(batch.frames)].to(batch.frames.device)
            parts.append(self.model.predict(batch, chosen))
            done += len(batch.frames)
        if done != len(latent):
            raise UserError(f"{len(latent)} latent actions for {done} clips", "give one for each")
        return torch.cat(parts)

    def _batches(self, frames: Frames) -> Iterator[Batch]:
        if isinstance(frames, str | Path):
            frames = decode_video(Path(frames), VideoImport(size=self.parts.frames[0]))[0]
        for batch in clip_batches(frames, self.offsets):
            self.parts.check_frames(tuple(batch.frames.shape[2:]))
            yield batch.to(place_of(self.model))
