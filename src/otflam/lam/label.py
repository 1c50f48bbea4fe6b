"""The latent action of every transition of a data set, computed once, and other columns a trained model gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from otflam.core import SILENT, Batch, Progress, UserError, release_hash, stable_hash
from otflam.data import Clips, Column, Store, derive, find_derived, known_rows
from otflam.lam.build import load_lam
from otflam.lam.features import FEATURES, Backbone
from otflam.lam.model import LAM

LATENTS = "latents"
CPU = torch.device("cpu")
LABEL_VERSION = 2
"""Bump when the same model would give other columns."""


def label_store(
    store: Store,
    folder: Path,
    backbone: Backbone | None = None,
    episodes: Sequence[int] | np.ndarray | None = None,
    progress: Progress = SILENT,
    keep_features: bool = False,
    device: torch.device = CPU,
) -> Store:
    """The column of latents that a trained model gives a data set, or some of its episodes.

    A row holds the latent of the transition that starts there, at the stride the model was trained with; rows whose
    transition would leave the episode hold zeros; clips must have the model's last offset `inside`. What a model wants
    to see from before the episode is its first frame.
    """
    return derive_with(
        *(store, folder, backbone, LATENTS, None, lambda lam: lam.infer, episodes, progress),
        keep_features=keep_features,
        device=device,
    )


def derive_with(
    store: Store,
    folder: Path,
    backbone: Backbone | None,
    name: str,
    width: int | None,
    function: Callable[[LAM], Callable[[Batch], Tensor]],
    episodes: Sequence[int] | np.ndarray | None = None,
    progress: Progress = SILENT,
    about: Any = None,
    keep_features: bool = False,
    device: torch.device = CPU,
) -> Store:
    """A column of vectors that a function of a trained model gives the transitions of a data set.

    Without a `width` they are as wide as latents; `about` is whatever else decides them. Features of a backbone are
    kept if more than this column will need them.
    """
    model, parts = load_lam(folder, backbone)
    width = width or model.latent
    used = np.arange(len(store)) if episodes is None else np.asarray(episodes)
    if len(shape := store.columns["frames"].shape) != 3:
        raise UserError(f"{store.path} has frames of shape {list(shape)}", "they need a height, a width and channels")
    parts.check_frames(shape)
    Clips(store, model.offsets, (), used, pad=True)  # refuses data that do not fit before anything is written
    key = stable_hash([release_hash(folder), LABEL_VERSION, about])
    if (done := find_derived(store, name, key, sorted({int(index) for index in used}))) is not None:
        return done
    model.to(device)
    if backbone is not None:
        backbone.to(device)
    columns = model.columns(parts, store, episodes, progress, online=not keep_features)
    if model.offsets[0] < 0:  # stored codes begin where all frames are there, latents at the start of an episode
        columns.pop("codes", None)
    featured = {} if backbone is None else known_rows(store, FEATURES, backbone.hash)

    @cache
    @torch.no_grad()
    def prepared() -> Callable[[Batch], Tensor]:
        return function(model)  # late: it may be costly, and the column may be there already

    def episode(index: int) -> np.ndarray:
        known = {FEATURES: featured[index]} if index in featured else {}
        if name == LATENTS:
            return model.label(store, index, columns | known)
        return model.each_transition(prepared(), width, store, index, columns | known)

    return derive(store, name, key, Column("float32", (width,)), episode, progress.part(name), episodes)
