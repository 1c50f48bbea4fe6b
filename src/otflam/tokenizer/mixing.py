"""A vocabulary of motion from many data sets at once, whose frames may have other sizes, rates and colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from otflam.core import SILENT, Hardware, Progress, TrainConfig, UserError, stable_hash, to_json
from otflam.data import COLOURS, Clips, Mixture, Store
from otflam.tokenizer.build import TOKENIZER_KIND, TOKENIZER_VERSION, train_feed
from otflam.tokenizer.config import TokenizerConfig
from otflam.tokenizer.model import MotionAutoencoder

USUAL_RATE = 25.0
"""Frames a second of data that do not tell theirs."""


@dataclass(frozen=True)
class Portion:
    """Some episodes of a data set, and how much they count among others."""

    store: Store
    episodes: Sequence[int] | np.ndarray
    weight: float = 1.0


@dataclass(frozen=True)
class Gap:
    """Shortest and longest time between two frames of a motion, in seconds; every clip draws its own."""

    least: float
    most: float

    def frames(self, rate: float) -> range:
        """The steps that lie between, at so many frames a second; the nearest if none does."""
        first, last = math.ceil(self.least * rate - 1e-9), math.floor(self.most * rate + 1e-9)
        nearest = max(1, round((self.least + self.most) / 2 * rate))
        return range(max(1, first), last + 1) if last >= max(1, first) else range(nearest, nearest + 1)


def train_on_mixture(
    portions: Sequence[Portion],
    gap: Gap | None,
    model: TokenizerConfig,
    train: TrainConfig,
    hardware: Hardware,
    out: Path,
    progress: Progress = SILENT,
) -> MotionAutoencoder:
    """The same on many data sets, whose frames may have other sizes, rates and colours."""
    about = {"kind": TOKENIZER_KIND, "version": TOKENIZER_VERSION, "model": to_json(model), "gap": to_json(gap)}
    about["data"] = stable_hash([portion.store.hash for portion in portions])
    facts = [
        {"weight": part.weight, "data": part.store.hash, "episodes": [int(index) for index in part.episodes]}
        for part in portions
    ]
    feed = mix_motion(portions, gap, model)
    return train_feed(feed, about | {"mixture": facts}, model, train, hardware, out, progress)


def mix_motion(portions: Sequence[Portion], gap: Gap | None, model: TokenizerConfig) -> Mixture:
    """Clips of many data sets for a tokenizer; where a gap is given, a data set's share is spread over its strides."""
    if model.channels != COLOURS:
        raise UserError(f"a tokenizer of {model.channels} colour channels", "a mixture's frames have three colours")
    sources: list[Clips] = []
    weights: list[float] = []
    for portion in portions:
        strides = [model.motion.stride] if gap is None else [*gap.frames(rate_of(portion.store))]
        for stride in strides:
            config = replace(model.motion, stride=stride)
            sources.append(Clips(portion.store, config.offsets, episodes=portion.episodes))
            weights.append(portion.weight / len(strides))
    return Mixture(sources, weights, model.motion.offsets, model.grid * model.patch)


def rate_of(store: Store) -> float:
    """Frames a second of a data set's first episode, or what is usual where nobody says."""
    return float(store.episodes[0].get("fps") or USUAL_RATE)
