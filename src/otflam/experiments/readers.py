"""What frames tell of actions without any latent: an inverse dynamics network with all labels, and with few alone.

Rows of the tables of alignment and of games: without them nobody can tell whether an R² of 0.15 is little or all there
is.
"""

from __future__ import annotations

import itertools

import numpy as np

from otflam.core import TrainConfig, retry_busy, stable_hash, to_json, versions
from otflam.evaluate import (
    ALIGNMENT_VERSION,
    ALL_LABELS,
    GAMES,
    GAMES_VERSION,
    IDM,
    LABELS_ALONE,
    LEVELS_PROBED,
    MOVERS_VERSION,
    Cell,
    Metrics,
    Table,
    episodes_of,
    guess_with_frames,
    movers_column,
    previous,
    score_choices,
    score_movers,
    scored,
)
from otflam.experiments.agents import SEEDS, Job, config_of
from otflam.experiments.alignments import PROBED
from otflam.experiments.datasets import Lab, distracting
from otflam.policy import ACTIONS, CLONE_VERSION, SEEN_AHEAD, Episodes, Splits, Target
from otflam.presets import Preset, steps_on_labels


def plan(preset: Preset, experiment: str) -> list[Job]:
    """All labels once; the labels alone at the compared budgets, with every draw; in games, where it is a row beside
    many of one draw, with one."""
    worlds, draws = (GAMES, SEEDS[:1]) if experiment == "games" else (distracting(preset), SEEDS)
    alone = [Job(LABELS_ALONE, *each) for each in itertools.product(worlds, preset.compared, draws)]
    return [Job(ALL_LABELS, data, 0, SEEDS[0]) for data in worlds] + alone


def needs(job: Job) -> list[str]:
    return [job.data]


def training_of(preset: Preset, job: Job) -> TrainConfig:
    """As long as a clone where all labels are known; with few, as the inverse dynamics model among the references."""
    if job.method == ALL_LABELS:
        return config_of(preset, job).clone
    config = preset.policy.seeded(job.seed)
    return config.with_steps(IDM, steps_on_labels(preset, IDM, job.labels)).inverse or config.clone


def known_to(lab: Lab, job: Job) -> Episodes:
    """The episodes whose labels are known."""
    splits = Splits.of(lab.store(job.data))
    if job.method == ALL_LABELS:
        return np.concatenate([splits.unlabelled, splits.pool])
    return splits.labelled(job.labels, job.seed)


def guess(lab: Lab, job: Job, target: Target, probes: Episodes) -> Table:
    """What a network reads in the frames of held-out episodes."""
    store, preset, train, known = lab.store(job.data), lab.preset, training_of(lab.preset, job), known_to(lab, job)
    facts = [store.hash, preset.policy.actor, train, known.tolist(), CLONE_VERSION, versions("torch", "numpy")]
    key = stable_hash(facts if target.hash is None else [*facts, target.hash])
    folder = lab.root / "readers" / f"{job.data}-{job.method}-{key[:12]}"
    return retry_busy(
        lambda: guess_with_frames(target, store, known, probes, preset.policy.actor, train, preset.hardware, folder)
    )


def measure(lab: Lab, job: Job) -> Metrics:
    """Read the actions of held-out episodes from the frames around them; in games also what moves there."""
    store = lab.store(job.data)
    if job.data in GAMES:
        return read_game(lab, job)
    probes = Splits.of(store).probes[:PROBED]
    found = guess(lab, job, Target(ACTIONS), probes)
    truths = episodes_of(store, ACTIONS, probes, SEEN_AHEAD)
    errors = np.split(np.square(found - np.concatenate(truths)).mean(1), np.cumsum([len(part) for part in truths])[:-1])
    return scored("action_r2", found, truths) | {
        "action_mse": float(np.concatenate(errors).mean()),
        "episode_mse": [float(part.mean()) for part in errors if len(part)],
    }


def read_game(lab: Lab, job: Job) -> Metrics:
    """Choices; with all labels also the motion of every kind."""
    store = lab.store(job.data)
    probes = Splits.of(store).probes[:LEVELS_PROBED]
    probes = probes[store.lengths[probes] > SEEN_AHEAD]
    truth = np.concatenate(episodes_of(store, ACTIONS, probes, SEEN_AHEAD))[:, 0]
    before = np.concatenate([previous(store, int(index), SEEN_AHEAD) for index in probes])
    found = score_choices(guess(lab, job, Target(ACTIONS), probes)[:, 0], truth, before)
    if job.method == ALL_LABELS:
        column = movers_column(store, known_to(lab, job), SEEN_AHEAD)
        told = guess(lab, job, Target("movers", column), probes)
        found |= score_movers(told, column, store, probes, SEEN_AHEAD)
    return found


def cell(lab: Lab, job: Job) -> Cell:
    """What a job's result is of."""
    game, actor = job.data in GAMES, to_json(lab.preset.policy.actor)
    probed = LEVELS_PROBED if game else PROBED
    config = {"actor": actor, "train": to_json(training_of(lab.preset, job)), "probed": probed}
    stages = {"games": GAMES_VERSION} if game else {"alignment": ALIGNMENT_VERSION}
    if game and job.method == ALL_LABELS:
        stages["movers"] = MOVERS_VERSION
    facts = (config, stages | {"clone": CLONE_VERSION}, {"labels": job.labels})
    return lab.cell("games" if game else "alignment", job, *facts)
