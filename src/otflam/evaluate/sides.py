"""Whose action? What latents know of the agent's actions and of its rival's, beside what frames could tell of each.

Both are read from the same latents, each with labels of its own, by the same linear probe; so it is seen whom a latent
action names, and whether labels can make it the one or the other.

Axes: n transitions, a actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import numpy as np

from otflam.core import Hardware, stable_hash
from otflam.data import Column, Store, derive, has_rival, mask_column, moving_pixels
from otflam.evaluate.alignment import ByEpisode, Table, episodes_of, ridge_guesses
from otflam.evaluate.probes import Side, guess_with_frames, innovation_column, player_of, scored
from otflam.policy import SEEN_AHEAD, Episodes, PolicyConfig, Splits, Target

SIDES_VERSION = 2
MASKED = 8
"""Episodes whose pixels are counted."""
EVERYONE = "everyone"
"""What is to be read of all sides, side by side."""


def sides_of(store: Store) -> tuple[Side, ...]:
    """The agent, and its rival if there is one."""
    every: tuple[Side, ...] = get_args(Side)
    return every if has_rival(store) else every[:1]


def targets_of(store: Store) -> dict[str, tuple[Store, str]]:
    """What is to be read, by the name of its measure: actions of each side, and their innovations."""
    found = {}
    for side in sides_of(store):
        player = player_of(store, side)
        found[f"{side}_r2"] = (store, player.actions)
        if (column := innovation_column(store, side)) is not None:
            found[f"{side}_innovation_r2"] = (column, player.column)
    return found


def read_sides(
    store: Store, columns: Mapping[str, ByEpisode], labelled: Episodes, probes: Episodes, last: int
) -> dict[str, float | list[float]]:
    """How well each side's actions are read from latents and from their controls, with labels of each side."""
    found: dict[str, float | list[float]] = {}
    wanted = targets_of(store)
    outputs, truths = (
        {measure: episodes_of(known, name, part, last) for measure, (known, name) in wanted.items()}
        for part in (labelled, probes)
    )
    for control, column in columns.items():
        inputs, unseen = (episodes_of(column, control, part, last) for part in (labelled, probes))
        for measure, guess in ridge_guesses(inputs, outputs, np.concatenate(unseen)).items():
            score = scored(measure, guess, truths[measure])
            if control != "latents":
                found[f"{measure}_{control}"] = score[measure]
                continue
            errors = np.square(guess - np.concatenate(truths[measure])).mean(1)
            edges = np.cumsum([len(part) for part in truths[measure]])[:-1]
            # Episodes are what is independent here: what is compared is compared in each.
            found |= score | {f"{measure}_errors": [float(part.mean()) for part in np.split(errors, edges)]}
    return found


def frame_ceilings(
    store: Store, splits: Splits, probes: Episodes, config: PolicyConfig, hardware: Hardware, folder: Path
) -> dict[str, float | list[float]]:
    """What networks read from the frames around an action, with the labels of all episodes.

    One reads the actions of all sides, so that none has the better eyes; beside a rival another reads innovations,
    which are too faint to be read beside actions.
    """
    targets, found = targets_of(store), {}
    kinds = {"actions": [name for name in targets if "innovation" not in name]}
    if len(sides_of(store)) > 1:
        kinds["innovations"] = [name for name in targets if "innovation" in name]
    for kind, measures in kinds.items():
        if measures:
            wanted = {measure: targets[measure] for measure in measures}
            found |= read_together(store, wanted, splits, probes, config, hardware, folder / kind)
    return found


def read_together(
    store: Store,
    targets: Mapping[str, tuple[Store, str]],
    splits: Splits,
    probes: Episodes,
    config: PolicyConfig,
    hardware: Hardware,
    folder: Path,
) -> dict[str, float | list[float]]:
    """What one network reads of all targets, which stand side by side."""
    widths = [known.columns[name].shape[0] for known, name in targets.values()]

    def compute(index: int) -> np.ndarray:
        rows = [known.episode(known.places[index], name) for known, name in targets.values()]
        return np.concatenate(rows, 1)

    key = stable_hash([EVERYONE, SIDES_VERSION, list(targets)])
    column = derive(store, EVERYONE, key, Column("float32", (sum(widths),)), compute)
    known = np.concatenate([splits.unlabelled, splits.pool])
    facts = (Target(EVERYONE, column), store, known, probes, config.actor, config.clone, hardware, folder)
    guess = guess_with_frames(*facts)
    parts, found = np.split(guess, np.cumsum(widths)[:-1], 1), {}
    for (measure, (known, name)), part in zip(targets.items(), parts, strict=True):
        found |= scored(f"{measure}_frames", part, episodes_of(known, name, probes, SEEN_AHEAD))
    return found


def seen_bodies(store: Store, probes: Episodes, stride: int) -> dict[str, float]:
    """How much of the picture moves, and with whom."""
    some: Table | Episodes = probes[:MASKED]
    shares = moving_pixels(store, mask_column(store, episodes=some), some, stride)
    return {f"{name}_moving": share for name, share in shares.items()}
