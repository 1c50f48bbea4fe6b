"""What is read of actions' innovation, and what could be read of actions at best: from the true states before and
after, and from frames with all labels.

Without the latter nobody can tell whether an R² of 0.1 is little or all there is.

Axes: n transitions, a actions.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
import torch

from otflam.core import Hardware, TrainConfig, device_of
from otflam.data import Store
from otflam.evaluate.alignment import Table, episodes_of, r2_score, ridge_guess
from otflam.evaluate.innovation import INNOVATION, innovation_column
from otflam.evaluate.probes import mlp_guess
from otflam.evaluate.stats import r2_interval
from otflam.policy import (
    ACTIONS,
    SEEN_AHEAD,
    Episodes,
    LatentSpace,
    PolicyConfig,
    Splits,
    Target,
    guess_from_frames,
    seen_frames,
    stack_offsets,
    train_clone,
)

CEILINGS_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Known:
    """What is to be read: a column of a data set, or one derived from it."""

    name: str
    store: Store

    def of(self, episodes: Episodes, last: int) -> list[Table]:
        """Its values, episode by episode, without the transitions that leave the episode."""
        return episodes_of(self.store, self.name, episodes, last)


def scored(name: str, guess: Table, truths: list[Table]) -> dict[str, float | list[float]]:
    """R² of guesses for held-out episodes, and its interval over them."""
    truth = np.concatenate(truths)
    edges = np.cumsum([len(part) for part in truths])[:-1]
    errors, spreads = (
        [float(np.square(part).sum()) for part in np.split(gaps, edges)]
        for gaps in (guess - truth, truth - truth.mean(0))
    )
    return {name: r2_score(guess, truth), f"{name}_interval": list(r2_interval(errors, spreads))}


def read_ceilings(
    store: Store, splits: Splits, probes: Episodes, config: PolicyConfig, hardware: Hardware, folder: Path
) -> dict[str, float | list[float]]:
    """Ceilings of what can be read of actions and of their innovation, for held-out episodes."""
    wanted = [("action", Known(ACTIONS, store))]
    if (column := innovation_column(store)) is not None:
        wanted.append(("innovation", Known(INNOVATION, column)))
    found: dict[str, float | list[float]] = {}
    for kind, known in wanted:
        found |= from_states(kind, known, store, splits.pool, probes, config)
        found |= from_frames(kind, known, store, splits, probes, config, hardware, folder / kind)
    return found


def read_innovations(
    known: Store, latents: Store, motion: Store, labelled: Episodes, probes: Episodes, last: int, train: TrainConfig
) -> dict[str, float | list[float]]:
    """Read from latents and from raw motion with few labels."""
    outputs, truths = (episodes_of(known, INNOVATION, part, last) for part in (labelled, probes))
    rows, unseen = (episodes_of(latents, "latents", part, last) for part in (labelled, probes))
    moved, later = (episodes_of(motion, "motion", part, last) for part in (labelled, probes))
    found = scored("innovation_r2_motion", ridge_guess(moved, outputs, np.concatenate(later)), truths)
    return found | both_scored("innovation", "", rows, outputs, unseen, truths, train)


def both_scored(
    kind: str,
    source: str,
    inputs: list[Table],
    outputs: list[Table],
    unseen: list[Table],
    truths: list[Table],
    train: TrainConfig,
) -> dict[str, float | list[float]]:
    """What is read linearly and with a small network."""
    rows, space = np.concatenate(unseen), LatentSpace.of(np.concatenate(outputs))
    guess, _, _ = mlp_guess(space, inputs, outputs, rows, np.concatenate(truths), train)
    linear = scored(f"{kind}_r2{source}", ridge_guess(inputs, outputs, rows), truths)
    return linear | scored(f"{kind}_mlp_r2{source}", in_units(space, guess), truths)


def from_states(
    kind: str, known: Known, store: Store, pool: Episodes, probes: Episodes, config: PolicyConfig
) -> dict[str, float | list[float]]:
    """Read from the true states before and after an action, with all labels of the pool."""
    inputs, unseen = (
        [np.concatenate([store.episode(int(i), "states")[:-1], store.episode(int(i), "states")[1:]], 1) for i in part]
        for part in (pool, probes)
    )
    outputs, truths = known.of(pool, 1), known.of(probes, 1)
    return both_scored(kind, "_states", inputs, outputs, unseen, truths, config.decode)


def from_frames(
    kind: str,
    known: Known,
    store: Store,
    splits: Splits,
    probes: Episodes,
    config: PolicyConfig,
    hardware: Hardware,
    folder: Path,
) -> dict[str, float | list[float]]:
    """Read by an inverse dynamics network from the frames around an action, with the labels of all episodes."""
    shape = dataclasses.replace(config.actor, frames=config.actor.frames + SEEN_AHEAD, ahead=SEEN_AHEAD)
    target = Target(known.name, None if known.store is store else known.store)
    episodes = np.concatenate([splits.unlabelled, splits.pool])
    network = train_clone(store, episodes, target, shape, config.clone, hardware, folder).to(device_of(hardware))
    clips = partial(seen_frames, store, stack_offsets(shape))
    long = probes[store.lengths[probes] > SEEN_AHEAD]
    guess = np.concatenate([guess_from_frames(network, clips([int(index)])) for index in long])
    space = network.cpu().space
    if isinstance(space, LatentSpace):
        guess = in_units(space, guess)
    return scored(f"{kind}_r2_frames", guess, known.of(probes, SEEN_AHEAD))


def in_units(space: LatentSpace, guess: Table) -> Table:
    """Guesses on the common scale of a network, in the units of what was to be read."""
    return (torch.from_numpy(guess) * space.scale + space.mean).numpy()
