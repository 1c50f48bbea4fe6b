"""A trained tokenizer in a few lines of Python.

tokenizer = Tokenizer.from_pretrained("runs/tokenizer")
codes = tokenizer.encode(frames)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor

from otflam.core import (
    BATCH,
    Batch,
    Pretrained,
    UserError,
    clip_batches,
    find_folder,
    place_of,
    require_name,
    save_weights,
    to_json,
    windows,
    write_json,
)
from otflam.data import read_frames
from otflam.tokenizer.build import TOKENIZER_KIND, load_tokenizer
from otflam.tokenizer.config import PACKAGED
from otflam.tokenizer.model import OTF, Factors, MotionAutoencoder

Frames = np.ndarray | Tensor | str | Path
"""Bytes, from numpy or torch: a video [t, h, w, c], or clips [b, k, h, w, c] with frames at the tokenizer's offsets
(pairs, or triples for second differences); or a video file or folder of images."""


def packaged_tokenizer(name: str = PACKAGED[0]) -> Path:
    """The folder of a tokenizer that comes with the package."""
    return Path(str(resources.files("otflam.tokenizer") / "weights" / require_name("tokenizer", name, PACKAGED)))


def find_tokenizer(named: str | Path | None) -> Path:
    """The folder of a trained tokenizer, which is given, or is packaged under a name."""
    if named is None or str(named) in PACKAGED:
        return packaged_tokenizer(PACKAGED[0] if named is None else str(named))
    if not Path(named).exists():
        raise UserError(
            f"no tokenizer at {named}", f"give its folder, or the name of a packaged one: {', '.join(PACKAGED)}"
        )
    return Path(named)


class Tokenizer(Pretrained):
    """Frames in, codes out, and back."""

    def __init__(self, model: MotionAutoencoder) -> None:
        self.model = model.eval()

    @classmethod
    def from_pretrained(cls, folder: str | Path | None = None, revision: str | None = None) -> Tokenizer:
        """Load a trained tokenizer from its folder, by the name of a packaged one, or as USER/NAME from the Hugging
        Face Hub; by default the packaged one for anything."""
        packaged = folder is None or str(folder) in PACKAGED
        source = find_tokenizer(folder) if packaged else find_folder(folder, revision=revision)
        tokenizer = cls(load_tokenizer(source))
        tokenizer.source = source
        return tokenizer

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors`, the layout of model hubs."""
        write_json(Path(folder) / "config.json", {"kind": TOKENIZER_KIND, "model": to_json(self.model.config)})
        save_weights(self.model, Path(folder))

    def to(self, device: str | torch.device) -> Tokenizer:
        """Work on another device; frames may come from anywhere."""
        self.model.to(device)
        return self

    @property
    def offsets(self) -> tuple[int, ...]:
        """Times of the frames of a clip, relative to the current one."""
        return self.model.config.motion.offsets

    @torch.inference_mode()
    def encode(self, frames: Frames) -> Int64[Tensor, "b u v"]:
        """The code of every patch (for a monolithic tokenizer, of every vector, laid out alike); of a video, those of
        the motion that begins at each frame, as long as there is one."""
        found = [rearrange(codes, "b (u v) -> b u v", u=rows) for codes, rows, _, _ in self._encoded(frames)]
        return torch.cat(found)

    @torch.inference_mode()
    def factors(self, frames: Frames) -> Factors:
        """(c_k, M_k, w_k): every code's vector, where it occurs and how strongly."""
        if not isinstance(self.model, OTF):
            raise UserError("a monolithic tokenizer has no factors", "train one with --method otf")
        parts = [self.model.factors(codes, rows) for codes, rows, _, _ in self._encoded(frames)]
        joined = [torch.cat([getattr(part, name) for part in parts]) for name in ("occupancy", "weights")]
        return Factors(parts[0].vectors, *joined)

    @torch.inference_mode()
    def reconstruct(self, frames: Frames) -> tuple[Float[Tensor, "b m y x"], Float[Tensor, "b m y x"]]:
        """The motion signal, and what its codes redraw of it."""
        parts = [(signal, self.model.redraw(codes, frame)) for codes, _, frame, signal in self._encoded(frames)]
        return torch.cat([signal for signal, _ in parts]), torch.cat([redrawn for _, redrawn in parts])

    def _encoded(self, frames: Frames) -> Iterator[tuple[Tensor, int, Tensor, Tensor]]:
        """Codes, the rows of their grid, the current frames and the motion, batch by batch."""
        for batch in self._batches(frames):
            frame, signal = self.model.observe(batch)
            yield self.model.encode(signal, frame), frame.shape[-2] // self.model.config.patch, frame, signal

    def _batches(self, frames: Frames) -> Iterator[Batch]:
        config, span, batch = self.model.config, self.offsets[-1] - self.offsets[0], None
        given: Iterable[np.ndarray | Tensor]
        if isinstance(frames, str | Path):
            read = read_frames(Path(frames), config.grid * config.patch, config.patch)
            given = (np.stack(part) for part in windows((frame.small for frame in read), span, BATCH))
        else:
            given = (frames,)
        for batch in itertools.chain.from_iterable(clip_batches(part, self.offsets) for part in given):
            if batch.frames.shape[-1] != config.channels:
                problem = f"frames with {batch.frames.shape[-1]} channels, their last axis"
                raise UserError(problem, f"this tokenizer needs {config.channels}")
            yield batch.to(place_of(self.model))
        if batch is None:
            raise UserError(f"{frames} is too short", f"its motion needs {span + 1} frames")
