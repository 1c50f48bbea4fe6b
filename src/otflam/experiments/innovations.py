"""What latent actions know of what no state could have told, beside what could be known at best."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np

from otflam.core import device_of, read_json, retry_busy, stable_hash, versions, write_json
from otflam.evaluate import (
    CEILINGS_VERSION,
    GROUNDED,
    INNOVATION_VERSION,
    Cell,
    Metrics,
    finite,
    innovation_column,
    motion_column,
    read_ceilings,
    read_innovations,
)
from otflam.experiments import alignments, lams
from otflam.experiments.agents import SEEDS, Job
from otflam.experiments.alignments import PROBED, probe_config
from otflam.experiments.datasets import Lab, distracting, redrawn
from otflam.lam import label_store
from otflam.policy import CLONE_VERSION, Splits
from otflam.presets import Preset

needs = alignments.needs


def plan(preset: Preset, experiment: str) -> list[Job]:
    """All budgets of the main methods, the worlds without distractors first: there the signal is not zero."""
    every = itertools.product([*redrawn(preset), *distracting(preset)], GROUNDED, preset.labels, SEEDS)
    return [Job(method, data, labels, seed) for data, method, labels, seed in every]


def measure(lab: Lab, job: Job) -> Metrics:
    """What latents know of innovations, and what could be known at best."""
    known = innovation_column(lab.store(job.data)) is not None
    return {**read(lab, job), **(retry_busy(lambda: ceilings(lab, job.data)) if known else {})}


def read(lab: Lab, job: Job) -> Metrics:
    """Read innovations from latents and from raw motion, linearly and with a small network, with few labels."""
    store, model = lab.store(job.data), lams.job_for(job.method, job.data, job.labels, job.seed)
    if (column := innovation_column(store)) is None:
        return {"innovation_r2": float("nan"), "innovation_mlp_r2": float("nan")}
    folder, dino = retry_busy(lambda: lams.trained_lam(lab, model)), lams.backbone_for(lab, model)
    splits, last = Splits.of(store), lams.stride_of(folder)
    probes, labelled = splits.probes[:PROBED], splits.labelled(job.labels, job.seed)
    used = np.concatenate([splits.pool, probes])
    device = device_of(lab.preset.hardware)
    latents = label_store(store, folder, dino, used, keep_features=True, device=device)
    motion = motion_column(store, last, used)
    return read_innovations(column, latents, motion, labelled, probes, last, probe_config(lab.preset, job))


def ceilings(lab: Lab, data: str) -> dict[str, float | list[float]]:
    """What could be known at best of a data set, found out once."""
    return found_once(lab, data, "", CEILINGS_VERSION, read_ceilings)


def found_once(
    lab: Lab, data: str, kind: str, version: int, read: Callable[..., dict[str, float | list[float]]]
) -> dict[str, float | list[float]]:
    """What `read` finds out about a data set with the labels of all episodes, kept beside the models."""
    store, preset = lab.store(data), lab.preset
    facts = [preset.policy, store.hash, PROBED, version, CLONE_VERSION, versions("torch", "numpy")]
    folder = lab.root / "ceilings" / f"{data}{kind}-{stable_hash(facts)[:12]}"
    if not (folder / "ceilings.json").exists():
        splits = Splits.of(store)
        probes = splits.probes[:PROBED]
        found = read(store, splits, probes, preset.policy.seeded(0), preset.hardware, folder)
        write_json(folder / "ceilings.json", {name: finite(value) for name, value in found.items()})
    return read_json(folder / "ceilings.json", "delete it to measure it again")


def cell(lab: Lab, job: Job) -> Cell:
    """What a job's result is of."""
    model, policy = lams.cell(lab, lams.job_for(job.method, job.data, job.labels, job.seed)), lab.preset.policy
    return dataclasses.replace(
        alignments.cell(lab, job),
        experiment="innovation",
        config={"lam": model.config, "probe": probe_config(lab.preset, job), "probed": PROBED, "ceilings": policy},
        stages=model.stages | {"innovation": INNOVATION_VERSION, "ceilings": CEILINGS_VERSION, "clone": CLONE_VERSION},
    )
