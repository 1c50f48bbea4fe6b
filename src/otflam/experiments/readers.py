"""What frames tell of actions without any latent: an inverse dynamics network with all labels, and with few alone.

Rows of the alignment's tables: without them nobody can tell whether an R² of 0.15 is little or all there is.
"""

from __future__ import annotations

import itertools

import numpy as np

from otflam.core import TrainConfig, retry_busy, stable_hash, to_json, versions
from otflam.evaluate import (
    ALIGNMENT_VERSION,
    ALL_LABELS,
    IDM,
    LABELS_ALONE,
    Cell,
    Metrics,
    episodes_of,
    guess_with_frames,
    scored,
)
from otflam.experiments.agents import SEEDS, Job
from otflam.experiments.alignments import PROBED
from otflam.experiments.datasets import Lab, distracting
from otflam.policy import ACTIONS, CLONE_VERSION, SEEN_AHEAD, Episodes, Splits, Target
from otflam.presets import Preset, steps_on_labels


def plan(preset: Preset, experiment: str) -> list[Job]:
    """All labels once; the labels alone at the compared budgets, with every draw."""
    few = itertools.product(distracting(preset), preset.compared, SEEDS)
    alone = [Job(LABELS_ALONE, data, labels, seed) for data, labels, seed in few]
    return [Job(ALL_LABELS, data, 0, SEEDS[0]) for data in distracting(preset)] + alone


def needs(job: Job) -> list[str]:
    return [job.data]


def training_of(preset: Preset, job: Job) -> TrainConfig:
    """As long as a clone where all labels are known; with few, as the inverse dynamics model among the references."""
    config = preset.policy.seeded(job.seed)
    if job.method == ALL_LABELS:
        return config.clone
    return config.with_steps(IDM, steps_on_labels(preset, IDM, job.labels)).inverse or config.clone


def known_to(lab: Lab, job: Job) -> Episodes:
    """The episodes whose labels are known."""
    splits = Splits.of(lab.store(job.data))
    if job.method == ALL_LABELS:
        return np.concatenate([splits.unlabelled, splits.pool])
    return splits.labelled(job.labels, job.seed)


def measure(lab: Lab, job: Job) -> Metrics:
    """Read the actions of held-out episodes from the frames around them."""
    store, preset, train = lab.store(job.data), lab.preset, training_of(lab.preset, job)
    probes, known = Splits.of(store).probes[:PROBED], known_to(lab, job)
    key = stable_hash(
        [store.hash, preset.policy.actor, train, known.tolist(), CLONE_VERSION, versions("torch", "numpy")]
    )
    folder = lab.root / "readers" / f"{job.data}-{job.method}-{key[:12]}"
    facts = (Target(ACTIONS), store, known, probes, preset.policy.actor, train, preset.hardware, folder)
    guess = retry_busy(lambda: guess_with_frames(*facts))
    truths = episodes_of(store, ACTIONS, probes, SEEN_AHEAD)
    errors = np.split(np.square(guess - np.concatenate(truths)).mean(1), np.cumsum([len(part) for part in truths])[:-1])
    return scored("action_r2", guess, truths) | {
        "action_mse": float(np.concatenate(errors).mean()),
        "episode_mse": [float(part.mean()) for part in errors if len(part)],
    }


def cell(lab: Lab, job: Job) -> Cell:
    """What a job's result is of."""
    config = {
        "actor": to_json(lab.preset.policy.actor),
        "train": to_json(training_of(lab.preset, job)),
        "probed": PROBED,
    }
    stages = {"alignment": ALIGNMENT_VERSION, "clone": CLONE_VERSION}
    return lab.cell("alignment", job, config, stages, {"labels": job.labels})
