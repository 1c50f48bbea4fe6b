"""Other views of the same clips in training, an option of every method.

All frames of a clip are shifted or turned alike, so that what happened stays what it was. Of such clips nothing is
stored: what a method asks frozen networks for is computed on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch

from otflam.core import Batch, Terms, shift_clips, warp_clips
from otflam.data import MASKS
from otflam.lam.labels import Heard
from otflam.lam.model import LAM

Views = Literal["none", "shift", "warp"]
SHIFT_SHARE = 1 / 16
"""Of a side: the most that a clip is shifted each way."""
KEPT = ("actions", MASKS)
"""Columns that are as true of another view; masks are seen with their frames."""


def let_vary(model: LAM, views: Views) -> None:
    """Let a model see other views of every clip that it learns from."""
    if views != "none":
        model.forward = partial(vary, model, model.forward, views)


def vary(model: LAM, plain: Callable[..., Terms], views: Views, batch: Batch | Heard) -> Terms:
    """The method's own objective, on other views."""
    if not model.training:
        return plain(batch)
    if isinstance(batch, Heard):
        return plain(Heard(*(seen(part, views) for part in batch)))
    return plain(seen(batch, views))


def seen(batch: Batch, views: Views) -> Batch:
    """Other views of clips."""
    known = {name: column for name, column in batch.columns.items() if name in KEPT}
    clips = batch._replace(columns=known)
    if views == "warp":
        return warp_clips(clips, MASKS)
    most, colours = round(SHIFT_SHARE * batch.frames.shape[2]), batch.frames.shape[-1]
    if MASKS not in known:
        return shift_clips(clips, most)
    both = clips._replace(frames=torch.cat([clips.frames, known[MASKS][..., None]], -1))
    frames = shift_clips(both, most).frames
    return Batch(frames[..., :colours].contiguous(), batch.offsets, known | {MASKS: frames[..., colours]})
