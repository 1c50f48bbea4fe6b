"""Latent actions of anyone's model, judged as ours are: probes of actions and leakage of a frozen extractor.

Axes: n transitions, k frames of a clip, h w c pixels, d latent.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, UInt8

from otflam.core import TrainConfig, UserError
from otflam.data import Clips, Store
from otflam.evaluate.alignment import leakage_metrics, motion_column, state_column
from otflam.evaluate.probes import read_actions
from otflam.policy import Splits

BATCH = 128
"""Transitions that an extractor is given at once."""


@runtime_checkable
class Extractor(Protocol):
    """Gives the latent actions of transitions, however it comes by them."""

    offsets: tuple[int, ...]
    """Times of the frames that it wants to see, relative to the current one; the last is its stride."""

    def infer(self, frames: UInt8[np.ndarray, "n k h w c"]) -> Float[np.ndarray, "n d"]: ...


@dataclass(frozen=True)
class Rows:
    """A column in memory, read as a derived one is."""

    episodes: dict[int, np.ndarray]

    @property
    def places(self) -> dict[int, int]:
        return {index: index for index in self.episodes}

    def episode(self, index: int, name: str) -> np.ndarray:
        return self.episodes[index]


def load_extractor(name: str) -> Extractor:
    """The extractor that 'module:name' names: an object, or a class or function that makes one."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise UserError(f"--extractor {name}", "give MODULE:NAME")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as 'python -m' has it
    try:
        found: Any = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"--extractor {name}: {error}", "give a module that can be imported and a name in it") from None
    found = found() if isinstance(found, type) or not hasattr(found, "infer") else found
    offsets = getattr(found, "offsets", None)
    if (
        not callable(getattr(found, "infer", None))
        or not offsets
        or 0 not in offsets
        or list(offsets) != sorted(offsets)
    ):
        raise UserError(
            f"--extractor {name} is no extractor", "it needs infer(frames) and rising offsets, of which one is 0"
        )
    return found


def extracted(store: Store, extractor: Extractor, index: int) -> Float[np.ndarray, "t d"]:
    """The latent of every transition of an episode; zeros where it would leave the episode."""
    clips = Clips(store, tuple(extractor.offsets), (), [index], pad=True)
    parts = []
    for start in range(0, len(clips), BATCH):
        frames = clips.gather(np.arange(start, min(start + BATCH, len(clips)))).frames.numpy()
        latents = np.asarray(extractor.infer(frames), np.float32)
        if latents.ndim != 2 or len(latents) != len(frames) or not np.isfinite(latents).all():
            raise UserError(
                f"the extractor gave {list(latents.shape)} for {len(frames)} transitions",
                "it must give one finite vector for each",
            )
        parts.append(latents)
    rows = np.concatenate(parts)
    return np.pad(rows, ((0, int(store.lengths[index]) - len(rows)), (0, 0)))


def judge_extractor(
    store: Store, extractor: Extractor, labels: int, seed: int, probed: int, train: TrainConfig
) -> dict[str, float | list[float]]:
    """What its latents know of actions, beside the state alone and raw motion, and how much of the distractors."""
    splits, last = Splits.of(store), int(extractor.offsets[-1])
    parts = (splits.pool, splits.labelled(labels, seed), splits.probes[:probed])
    pool, labelled, probes = (part[store.lengths[part] > last] for part in parts)  # shorter ones have no transition
    used = np.concatenate([pool, probes])
    latents = Rows({int(index): extracted(store, extractor, int(index)) for index in used})
    columns = {
        "latents": latents,
        "state": state_column(store, splits.unlabelled, used),
        "motion": motion_column(store, last, used),
    }
    found = read_actions(store, columns, labelled, probes, last, train)
    known, unseen = ([latents.episodes[int(index)][:-last] for index in part] for part in (pool, probes))
    return found | leakage_metrics(store, known, pool, unseen, probes, last)
