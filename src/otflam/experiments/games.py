"""Games: what latents know of the choices that were made, and whose motion they name."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from otflam.core import device_of, read_json, retry_busy
from otflam.evaluate import (
    ALIGNMENT_VERSION,
    GAMES,
    GAMES_VERSION,
    LEVELS_PROBED,
    READ,
    Cell,
    Metrics,
    aligned_columns,
    names,
    read_choices,
    read_movers,
)
from otflam.experiments import lams
from otflam.experiments.agents import SEEDS, Job
from otflam.experiments.datasets import Lab
from otflam.policy import Splits
from otflam.presets import Preset


def plan(preset: Preset, experiment: str) -> list[Job]:
    """The telling methods in every game, at the compared budgets; then all others with one draw of labels."""
    others = [name for name in methods(preset) if name not in names.TELLING]
    parts = [(SEEDS, names.TELLING), (SEEDS[:1], others)]
    every = (each for seeds, rows in parts for each in itertools.product(preset.compared, seeds, GAMES, rows))
    return [Job(method, data, labels, seed) for labels, seed, data, method in every if method in preset.lam]


def methods(preset: Preset) -> list[str]:
    """The paper's, and LAOM; without those that need a backbone, which was never shown a game."""
    return [name for name in (*lams.methods(preset), "laom") if name in preset.lam and not lams.METHODS[name].features]


def needs(job: Job) -> list[str]:
    return lams.needs(lams.job_for(job.method, job.data, job.labels, job.seed))


def measure(lab: Lab, job: Job) -> Metrics:
    """Read choices from latents and from their controls with few labels, and motions with all episodes of the pool."""
    store, model = lab.store(job.data), lams.job_for(job.method, job.data, job.labels, job.seed)
    folder: Path = retry_busy(lambda: lams.trained_lam(lab, model))
    dino, splits, last = lams.backbone_for(lab, model), Splits.of(store), lams.stride_of(folder)
    long = store.lengths > last  # shorter levels have no transition
    parts = (splits.labelled(job.labels, job.seed), splits.pool, splits.probes[:LEVELS_PROBED])
    labelled, pool, probes = (part[long[part]] for part in parts)
    used, device = np.concatenate([pool, probes]), device_of(lab.preset.hardware)
    columns = aligned_columns(store, folder, dino, splits.unlabelled, used, device, READ)
    health = read_json(folder / "health.json", "train it again")
    found = read_choices(store, columns, labelled, probes, last)
    found |= read_movers(store, columns, pool, probes, last)
    return found | {"gain_over_shuffled": health["gain_over_shuffled"]}


def cell(lab: Lab, job: Job) -> Cell:
    """What a job's result is of."""
    model = lams.cell(lab, lams.job_for(job.method, job.data, job.labels, job.seed))
    stages = model.stages | {"alignment": ALIGNMENT_VERSION, "games": GAMES_VERSION}
    config = {"lam": model.config, "probed": LEVELS_PROBED}
    return lab.cell("games", job, config, stages, model.extra | {"labels": job.labels})
