"""Any video as motion codes, with the tokenizer that comes with the package or another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image

from otflam.core.batch import Batch
from otflam.core.errors import UserError
from otflam.core.files import replacing
from otflam.data.decoding import read_frames
from otflam.report.video import write_video
from otflam.report.vocabulary import draw_grid, show_codes
from otflam.tokenizer.api import packaged_tokenizer
from otflam.tokenizer.build import load_tokenizer
from otflam.tokenizer.model import MotionAutoencoder

BATCH = 32
BLEND = 0.45
"""How much of a frame its codes cover in the overlay."""


def tokenize_video(video: Path, out: Path, folder: Path | None) -> Iterator[Path]:
    """Write codes.npy (frame, row, column), overlay.mp4 and sheet.png; the grid follows the video's aspect."""
    tokenizer = load_tokenizer(folder or packaged_tokenizer())
    if tokenizer.config.method != "otf" or tokenizer.config.channels != 3:
        raise UserError(
            f"{folder} does not give codes to places of colour frames", "use a factorised tokenizer for video"
        )
    frames, rate = read_frames(video, tokenizer.config.grid * tokenizer.config.patch, tokenizer.config.patch)
    offsets = tokenizer.config.motion.offsets
    if len(frames) <= offsets[-1] - offsets[0]:
        raise UserError(
            f"{video} has {len(frames)} frames", f"its motion needs at least {offsets[-1] - offsets[0] + 1}"
        )
    codes = encode_frames(tokenizer, frames)
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / "codes.npy") as temporary, temporary.open("wb") as file:
        np.save(file, codes, allow_pickle=False)
    yield out / "codes.npy"
    shown = frames[-offsets[0] : len(frames) - offsets[-1]]
    overlays = overlay(shown, codes, tokenizer.config.codebook.codes)
    yield write_video(overlays, rate, out / "overlay.mp4")
    picks = np.linspace(0, len(shown) - 1, min(8, len(shown))).round().astype(int)
    size = tokenizer.config.codebook.codes
    rows = [
        ("frame", [shown[i] for i in picks]),
        ("codes", [show_codes(codes[i], size) for i in picks]),
        ("overlay", [overlays[i] for i in picks]),
    ]
    yield draw_grid(rows, [f"frame {i - offsets[0]}" for i in picks], video.name, out / "sheet.png")


@torch.inference_mode()
def encode_frames(tokenizer: MotionAutoencoder, frames: UInt8[np.ndarray, "t h w 3"]) -> UInt8[np.ndarray, "n u v"]:
    """The codes of every motion in a video."""
    offsets = np.array(tokenizer.config.motion.offsets)
    anchors = np.arange(-offsets[0], len(frames) - offsets[-1])
    found = []
    for part in np.array_split(anchors, -(-len(anchors) // BATCH)):
        clip = Batch(torch.from_numpy(frames[part[:, None] + offsets]), tuple(offsets.tolist()), {})
        _, signal = tokenizer.observe(clip)
        found.append(tokenizer.encode(signal).numpy().astype(np.uint8))
    return np.concatenate(found).reshape(len(anchors), frames.shape[1] // tokenizer.config.patch, -1)


def overlay(
    frames: UInt8[np.ndarray, "n h w 3"], codes: UInt8[np.ndarray, "n u v"], count: int
) -> UInt8[np.ndarray, "n h w 3"]:
    """Frames under a film of their codes' colours; the most frequent code, usually stillness, stays clear."""
    still = np.bincount(codes.ravel(), minlength=count).argmax()
    pictures = []
    for frame, grid in zip(frames, codes, strict=True):
        size = (frame.shape[1], frame.shape[0])
        film = np.asarray(Image.fromarray(show_codes(grid, count)).resize(size, Image.Resampling.NEAREST))
        cover = np.asarray(Image.fromarray(grid != still).resize(size, Image.Resampling.NEAREST))[..., None] * BLEND
        pictures.append((frame * (1 - cover) + film * cover).astype(np.uint8))
    return np.stack(pictures)
