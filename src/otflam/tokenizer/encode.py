"""All codes of a data set, computed once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from otflam.core.release import release_hash
from otflam.data.derived import derive, open_derived
from otflam.data.store import Column, Store
from otflam.tokenizer.build import load_tokenizer, motion_clips
from otflam.tokenizer.model import MotionAutoencoder

CODES = "codes"
BATCH = 256


def encode_store(
    store: Store, folder: Path, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> Store:
    """The column of codes that a trained tokenizer gives a data set: one byte for every patch.

    A row holds the codes of the motion that starts there; rows whose motion would leave the episode hold zeros, and no
    clip with the tokenizer's offsets ever reads them.
    """
    tokenizer = load_tokenizer(folder)
    motion_clips(store, tokenizer.config)  # refuses data that do not fit before anything is written
    patches = tokenizer.config.grid**2
    return derive(
        store,
        CODES,
        release_hash(folder),
        Column("uint8", (patches,)),
        lambda index: encode_episode(tokenizer, store, index, patches),
        on_progress,
    )


@torch.inference_mode()
def encode_episode(tokenizer: MotionAutoencoder, store: Store, index: int, patches: int) -> np.ndarray:
    codes = np.zeros((int(store.lengths[index]), patches), np.uint8)
    offsets = tokenizer.config.motion.offsets
    if len(codes) <= offsets[-1] - offsets[0]:
        return codes
    clips = motion_clips(store, tokenizer.config, [index])
    for first in range(0, len(clips), BATCH):
        rows = np.arange(first, min(first + BATCH, len(clips)))
        _, signal = tokenizer.observe(clips.gather(rows))
        codes[rows - offsets[0]] = tokenizer.encode(signal).numpy().astype(np.uint8)
    return codes


def stored_codes(store: Store, folder: Path) -> Store:
    """The codes of a data set, which must have been computed before."""
    return open_derived(
        store, CODES, release_hash(folder), f"run 'otflam tokenizer encode {store.path} --tokenizer {folder}'"
    )
