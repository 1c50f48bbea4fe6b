"""Whose action? Every method in pictures of two bodies, and every distractor by itself on the same episodes."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np

from otflam.core import device_of, read_json, retry_busy
from otflam.data import Store
from otflam.evaluate import (
    ALIGNMENT_VERSION,
    BASELINE,
    INNOVATION_VERSION,
    OURS,
    SIDES_VERSION,
    Cell,
    Metrics,
    aligned_columns,
    frame_ceilings,
    names,
    read_sides,
    seen_bodies,
)
from otflam.experiments import alignments, innovations, lams
from otflam.experiments.agents import SEEDS, Job
from otflam.experiments.alignments import PROBED
from otflam.experiments.datasets import Lab, distracting
from otflam.lam import METHODS
from otflam.policy import CLONE_VERSION, Episodes, Splits
from otflam.presets import Preset

needs = alignments.needs
FACTORS = (BASELINE, OURS[0])
"""Methods that also meet cameras that follow others."""


def plan(preset: Preset, experiment: str) -> list[Job]:
    """Two bodies first, then one distractor after the other, then cameras that follow others."""
    every = sorted(lams.methods(preset), key=lambda name: METHODS[name].features)  # backbones are slow
    doses = (names.VANILLA, *names.DOSES)  # all at once, without a rival, is the study of alignment
    kinds = [
        (names.BODIES, [*every, *lams.variants(preset)], preset.labels),
        (doses, every, preset.compared),
        (names.CAMERAS, FACTORS, preset.compared),
    ]
    return [
        Job(method, data + world, labels, seed)
        for worlds, methods, budgets in kinds
        # Neighbours share no model, so that none waits until another has trained it.
        for labels, seed in itertools.product(budgets, SEEDS)
        for world, method, data in itertools.product(worlds, methods, distracting(preset))
    ]


def measure(lab: Lab, job: Job) -> Metrics:
    """Read both sides' actions from latents and from the controls; and what frames tell of them."""
    store, model = lab.store(job.data), lams.job_for(job.method, job.data, job.labels, job.seed)
    folder, dino = retry_busy(lambda: lams.trained_lam(lab, model)), lams.backbone_for(lab, model)
    splits, last = Splits.of(store), lams.stride_of(folder)
    probes, labelled = splits.probes[:PROBED], splits.labelled(job.labels, job.seed)
    used, device = np.concatenate([splits.pool, probes]), device_of(lab.preset.hardware)
    columns = aligned_columns(store, folder, dino, splits.unlabelled, used, device=device)
    found = read_sides(store, columns, labelled, probes, last)
    health = read_json(folder / "health.json", "train it again")
    found["gain_over_shuffled"] = health["gain_over_shuffled"]
    return found | retry_busy(lambda: ceilings(lab, job.data))


def ceilings(lab: Lab, data: str) -> dict[str, float | list[float]]:
    """What frames tell of a data set's actions, and how much each body moves in them, found out once."""
    stride = lab.preset.tokenizer.motion.stride

    def read(store: Store, splits: Splits, probes: Episodes, *facts: Any) -> dict[str, float | list[float]]:
        return frame_ceilings(store, splits, probes, *facts) | seen_bodies(store, probes, stride)

    return innovations.found_once(lab, data, "-sides", SIDES_VERSION, read)


def cell(lab: Lab, job: Job) -> Cell:
    """What a job's result is of."""
    model = lams.cell(lab, lams.job_for(job.method, job.data, job.labels, job.seed))
    measured = {"alignment": ALIGNMENT_VERSION, "innovation": INNOVATION_VERSION, "sides": SIDES_VERSION}
    return dataclasses.replace(
        alignments.cell(lab, job),
        experiment="ambiguity",
        config={"lam": model.config, "probed": PROBED, "ceilings": lab.preset.policy},
        stages=model.stages | measured | {"clone": CLONE_VERSION},
    )
