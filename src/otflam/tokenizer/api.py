"""A trained tokenizer in a few lines of Python.

tokenizer = Tokenizer.from_pretrained("runs/tokenizer")
codes = tokenizer.encode(frames)
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import torch
from einops import rearrange
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from otflam.core.batch import Batch
from otflam.core.config import to_json
from otflam.core.errors import UserError
from otflam.core.files import write_json
from otflam.core.release import save_weights
from otflam.tokenizer.build import KIND, load_tokenizer
from otflam.tokenizer.model import OTF, Factors, MotionAutoencoder

Frames = UInt8[Tensor, "b t h w c"]
"""Clips of frames at the offsets of the tokenizer's motion: pairs, or triples for second differences."""


def packaged_tokenizer() -> Path:
    """The folder of the tokenizer that comes with the package."""
    return Path(str(resources.files("otflam.tokenizer") / "weights"))


class Tokenizer:
    """Frames in, codes out, and back."""

    def __init__(self, model: MotionAutoencoder) -> None:
        self.model = model.eval()

    @classmethod
    def from_pretrained(cls, folder: str | Path | None = None) -> Tokenizer:
        """Load a trained tokenizer from its folder; without one, the one that comes with the package."""
        return cls(load_tokenizer(Path(folder) if folder is not None else packaged_tokenizer()))

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors`, the layout of model hubs."""
        write_json(Path(folder) / "config.json", {"kind": KIND, "model": to_json(self.model.config)})
        save_weights(self.model, Path(folder))

    @property
    def offsets(self) -> tuple[int, ...]:
        """Times of the frames of a clip, relative to the current one."""
        return self.model.config.motion.offsets

    @torch.inference_mode()
    def encode(self, frames: Frames) -> Int64[Tensor, "b u v"]:
        """The code of every patch (for a monolithic tokenizer, of every vector, laid out alike)."""
        frame, signal = self._observe(frames)
        return rearrange(self.model.encode(signal), "b (u v) -> b u v", u=frame.shape[-2] // self.model.config.patch)

    @torch.inference_mode()
    def factors(self, frames: Frames) -> Factors:
        """(c_k, M_k, w_k): every code's vector, where it occurs and how strongly."""
        if not isinstance(self.model, OTF):
            raise UserError("a monolithic tokenizer has no factors", "train one with --method otf")
        frame, signal = self._observe(frames)
        return self.model.factors(self.model.encode(signal), frame.shape[-2] // self.model.config.patch)

    @torch.inference_mode()
    def reconstruct(self, frames: Frames) -> tuple[Float[Tensor, "b m y x"], Float[Tensor, "b m y x"]]:
        """The motion signal, and what its codes redraw of it."""
        frame, signal = self._observe(frames)
        return signal, self.model.redraw(self.model.encode(signal), frame)

    def _observe(self, frames: Frames) -> tuple[Tensor, Tensor]:
        if frames.shape[1] != len(self.offsets) or frames.shape[-1] != self.model.config.channels:
            raise UserError(
                f"clips of {frames.shape[1]} frames with {frames.shape[-1]} channels",
                f"this tokenizer needs frames at {list(self.offsets)} with {self.model.config.channels}",
            )
        return self.model.observe(Batch(frames, self.offsets, {}))
