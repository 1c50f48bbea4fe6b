"""All codes of a data set, computed once."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from einops import rearrange, reduce
from jaxtyping import Float32, UInt8

from otflam.core import IMPALA, SILENT, Batch, Progress, release_hash
from otflam.data import Column, Store, derive
from otflam.motion import motion_of_sequence
from otflam.tokenizer.build import frame_clips, load_tokenizer, motion_clips
from otflam.tokenizer.frames import FrameTokenizer
from otflam.tokenizer.model import MotionAutoencoder

CODES, TOKENS = "codes", "tokens"
BATCH = 256


def encode_store(store: Store, folder: Path, progress: Progress = SILENT) -> Store:
    """The column of codes that a trained tokenizer gives a data set: one byte for every patch.

    A row holds the codes of the motion that starts there; rows whose motion would leave the episode hold zeros, and no
    clip with the tokenizer's offsets ever reads them.
    """
    return encode_with(store, load_tokenizer(folder), release_hash(folder), progress)


def encode_with(store: Store, tokenizer: MotionAutoencoder, tokenizer_hash: str, progress: Progress = SILENT) -> Store:
    """The same for a tokenizer that is loaded, or that another model contains."""
    motion_clips(store, tokenizer.config)  # refuses data that do not fit before anything is written
    patches = tokenizer.config.grid**2
    return derive(
        store,
        CODES,
        tokenizer_hash,
        Column("uint8", (patches,)),
        lambda index: encode_episode(tokenizer, store, index, patches),
        progress,
    )


@torch.inference_mode()
def encode_episode(tokenizer: MotionAutoencoder, store: Store, index: int, patches: int) -> np.ndarray:
    frames = store.episode(index, "frames")
    codes = np.zeros((len(frames), patches), np.uint8)
    offsets = tokenizer.config.motion.offsets
    before, span = -offsets[0], offsets[-1] - offsets[0]
    for first in range(0, len(frames) - span, BATCH):
        part = torch.from_numpy(np.array(frames[first : first + BATCH + span]))[:, None]
        images = tokenizer.resize(Batch(part, (0,), {}).images(0))
        found = tokenizer.encode(motion_of_sequence(tokenizer.config.motion, images))
        codes[first + before : first + before + len(found)] = found.numpy()
    return codes


class Seen(NamedTuple):
    """What a tokenizer finds in consecutive frames: n motions, on a grid of u × v patches."""

    codes: UInt8[np.ndarray, "n u v"]
    energy: Float32[np.ndarray, "n u v"]
    """Of the motion in every patch."""
    error: float
    """Summed square of what the codes draw otherwise."""


@torch.inference_mode()
def watch(tokenizer: MotionAutoencoder, frames: UInt8[np.ndarray, "t h w c"]) -> Seen:
    """Codes of consecutive frames, and how well they redraw the motion."""
    images = tokenizer.resize(Batch(torch.from_numpy(frames)[:, None], (0,), {}).images(0))
    signal = motion_of_sequence(tokenizer.config.motion, images)
    codes, before, patch = tokenizer.encode(signal), -tokenizer.config.motion.offsets[0], tokenizer.config.patch
    redrawn = tokenizer.redraw(codes, images[before : before + len(signal)])
    energy = reduce(signal.square(), "n m (u i) (v j) -> n u v", "sum", i=patch, j=patch)
    found = rearrange(codes, "n (u v) -> n u v", u=energy.shape[1])
    return Seen(found.numpy().astype(np.uint8), energy.numpy(), float((redrawn - signal).square().sum()))


def encode_frames(store: Store, tokenizer: FrameTokenizer, tokenizer_hash: str, progress: Progress = SILENT) -> Store:
    """The column of tokens that a frame tokenizer gives every frame of a data set."""
    frame_clips(store, tokenizer.config)  # refuses data that do not fit before anything is written
    places = (store.columns["frames"].shape[0] // 2 ** len(IMPALA)) ** 2

    @torch.inference_mode()
    def compute(index: int) -> np.ndarray:
        frames = torch.from_numpy(np.array(store.episode(index, "frames")))[:, None]
        parts = [tokenizer.encode(Batch(part, (0,), {}).images(0)) for part in frames.split(BATCH)]
        return torch.cat(parts).numpy().astype(np.int16)

    return derive(store, TOKENS, tokenizer_hash, Column("int16", (places,)), compute, progress)
