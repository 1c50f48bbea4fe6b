"""What frozen networks say about a data set, computed once: codes, features, tokens, low-level latent actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from otflam.core.batch import Batch
from otflam.core.train import place_of
from otflam.data.clips import Clips
from otflam.data.derived import derive
from otflam.data.store import Column, Store
from otflam.lam.dino import DinoLAM
from otflam.lam.features import store_features
from otflam.lam.flam import Flam
from otflam.lam.hilam import LOW, Hilam
from otflam.lam.methods import Parts
from otflam.lam.model import LAM, CodeLAM
from otflam.tokenizer.encode import TOKENS, encode_frames, encode_with

BATCH = 128


def stored_columns(
    model: LAM,
    parts: Parts,
    store: Store,
    episodes: Sequence[int] | np.ndarray | None,
    on_part: Callable[[str], Callable[[int, int], None]],
    online: bool = False,
) -> dict[str, Store]:
    """What the model's frozen networks say about the episodes, computed once; `online` leaves out what is large."""
    columns = {}
    if isinstance(model, CodeLAM) and parts.tokenizer_hash is not None:
        columns["codes"] = encode_with(store, model.tokenizer, parts.tokenizer_hash, on_part("codes"))
    if isinstance(model, Flam) and parts.tokenizer_hash is not None:
        columns[TOKENS] = encode_frames(store, model.tokenizer, parts.tokenizer_hash, on_part(TOKENS))
    if isinstance(model, Hilam) and parts.low_hash is not None:
        columns[LOW] = name_all(store, model.low, parts.low_hash, on_part(LOW))
    if isinstance(model, DinoLAM) and parts.backbone is not None and not online:
        columns["features"] = store_features(store, parts.backbone, episodes, on_part("DINO features"))
    return columns


def name_all(store: Store, low: LAM, low_hash: str, on_progress: Callable[[int, int], None]) -> Store:
    """The latent actions that a model inside another one gives a data set."""

    def compute(index: int) -> np.ndarray:
        return label_episode(low.infer, low, low.latent, store, index, {})

    return derive(store, LOW, low_hash, Column("float32", (low.latent,)), compute, on_progress)


@torch.inference_mode()
def label_episode(
    compute: Callable[[Batch], Tensor], model: LAM, width: int, store: Store, index: int, columns: dict[str, Store]
) -> np.ndarray:
    """A vector for every transition of an episode, each from its own clip."""
    rows = np.zeros((int(store.lengths[index]), width), np.float32)
    if len(rows) <= model.offsets[-1]:
        return rows
    clips, place = Clips(store, model.offsets, (), [index], columns, pad=True), place_of(model)
    # Before an episode its first frame is repeated, but a stored latent there would be that of its first transition.
    early, without = (-model.offsets[0], {n: c for n, c in columns.items() if n != LOW}) if LOW in columns else (0, {})
    for first, last, known in ((0, early, without), (early, len(clips), columns)):
        part = clips if known is columns else Clips(store, model.offsets, (), [index], known, pad=True)
        for start in range(first, min(last, len(clips)), BATCH):
            chosen = np.arange(start, min(start + BATCH, last, len(clips)))
            rows[chosen] = compute(part.gather(chosen).to(place)).cpu().numpy()
    return rows


@torch.inference_mode()
def label_windows(model: Hilam, store: Store, index: int, columns: dict[str, Store]) -> np.ndarray:
    """The latents of an episode, window by window from its start: what one window names together belongs together."""
    rows = np.zeros((int(store.lengths[index]), model.latent), np.float32)
    if len(rows) <= model.offsets[-1]:
        return rows
    clips = Clips(store, model.offsets, (), [index], columns, pad=True)
    for phase in range(model.stride):
        anchors = np.arange(phase, len(clips), model.stride)
        for start in range(0, len(anchors), model.config.window):
            part = anchors[start : start + model.config.window]
            # A window that the episode does not fill begins earlier, or before the episode with its first frame.
            use = clips if part[-1] + model.offsets[0] >= 0 else Clips(store, model.offsets, (), [index], pad=True)
            seen = model.look(use.gather(part[-1:]).to(place_of(model)))
            rows[part] = model.name_all(seen)[0, -len(part) :].cpu().numpy()
    return rows
