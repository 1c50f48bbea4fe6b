"""The latent action of every transition of a data set, computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from otflam.core.release import release_hash
from otflam.data.clips import Clips
from otflam.data.derived import derive, find_derived
from otflam.data.store import Column, Store
from otflam.lam.features import FEATURES, Backbone
from otflam.lam.methods import check_frames, load_lam, stored_columns
from otflam.lam.model import LAM

LATENTS = "latents"
BATCH = 128


def label_store(
    store: Store,
    folder: Path,
    backbone: Backbone | None = None,
    episodes: Sequence[int] | np.ndarray | None = None,
    on_part: Callable[[str], Callable[[int, int], None]] = lambda name: lambda done, total: None,
) -> Store:
    """The column of latents that a trained model gives a data set, or some of its episodes.

    A row holds the latent of the transition that starts there, at the stride the model was trained with; rows whose
    transition would leave the episode hold zeros, and no clip with the model's offsets ever reads them.
    """
    model, parts = load_lam(folder, backbone)
    used = np.arange(len(store)) if episodes is None else np.asarray(episodes)
    check_frames(parts, store.columns["frames"].shape)
    Clips(store, model.offsets, (), used)  # refuses data that do not fit before anything is written
    # Each frame's features are read once here, so storing them would gain nothing; those that are stored are used.
    columns = stored_columns(model, parts, store, episodes, on_part, online=True)
    if backbone is not None and (found := find_derived(store, FEATURES, backbone.hash, list(range(len(store))))):
        columns[FEATURES] = found
    return derive(
        store,
        LATENTS,
        release_hash(folder),
        Column("float32", (model.latent,)),
        lambda index: label_episode(model, store, index, columns),
        on_part("latents"),
        episodes,
    )


@torch.inference_mode()
def label_episode(model: LAM, store: Store, index: int, columns: dict[str, Store]) -> np.ndarray:
    latents = np.zeros((int(store.lengths[index]), model.latent), np.float32)
    if len(latents) <= model.offsets[-1] - model.offsets[0]:
        return latents
    clips = Clips(store, model.offsets, (), [index], columns)
    first = -model.offsets[0]
    for start in range(0, len(clips), BATCH):
        part = np.arange(start, min(start + BATCH, len(clips)))
        latents[first + part] = model.infer(clips.gather(part)).numpy()
    return latents
