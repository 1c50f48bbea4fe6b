"""What the latent actions of every method know of actions and distractors, at every budget of labels."""

from __future__ import annotations

import itertools

import numpy as np

from otflam.core import TrainConfig, device_of, retry_busy
from otflam.evaluate import (
    ALIGNMENT_VERSION,
    Cell,
    Metrics,
    aligned_columns,
    episodes_of,
    leakage_metrics,
    read_actions,
)
from otflam.experiments import lams
from otflam.experiments.agents import SEEDS, Job
from otflam.experiments.datasets import Lab, distracting
from otflam.policy import DECODER_VERSION, Splits
from otflam.presets import Preset

PROBED = 16
"""Held-out episodes that probes are tested on."""


def plan(preset: Preset, experiment: str) -> list[Job]:
    """All jobs, one model's after another's."""
    every = itertools.product(distracting(preset), lams.methods(preset), preset.labels, SEEDS)
    return [Job(method, data, labels, seed) for data, method, labels, seed in every]


def needs(job: Job) -> list[str]:
    return lams.needs(lams.job_for(job.method, job.data, job.labels, job.seed))


def measure(lab: Lab, job: Job) -> Metrics:
    """Read actions from latents and from the controls, and distractors from latents."""
    store, model = lab.store(job.data), lams.job_for(job.method, job.data, job.labels, job.seed)
    folder, dino = retry_busy(lambda: lams.trained_lam(lab, model)), lams.backbone_for(lab, model)
    splits, last = Splits.of(store), lams.stride_of(folder)
    probes, labelled = splits.probes[:PROBED], splits.labelled(job.labels, job.seed)
    used, device = np.concatenate([splits.pool, probes]), device_of(lab.preset.hardware)
    columns = aligned_columns(store, folder, dino, splits.unlabelled, used, device=device)
    found = read_actions(store, columns, labelled, probes, last, probe_config(lab.preset, job))
    everything = episodes_of(columns["latents"], "latents", splits.pool, last)
    probed = episodes_of(columns["latents"], "latents", probes, last)
    return found | leakage_metrics(store, everything, splits.pool, probed, probes, last)


def probe_config(preset: Preset, job: Job) -> TrainConfig:
    """How the network is trained that reads actions; its steps by what its error asks for."""
    return preset.policy.seeded(job.seed).with_steps("decode", preset.labels[job.labels]).decode


def cell(lab: Lab, job: Job) -> Cell:
    """What a job's result is of."""
    model = lams.cell(lab, lams.job_for(job.method, job.data, job.labels, job.seed))
    config = {"lam": model.config, "decode": probe_config(lab.preset, job), "probed": PROBED}
    stages = model.stages | {"alignment": ALIGNMENT_VERSION, "decoder": DECODER_VERSION}
    return lab.cell("alignment", job, config, stages, model.extra | {"labels": job.labels})
