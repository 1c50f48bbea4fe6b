"""What the latent actions of every method know of actions and distractors, at every budget of labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from otflam.core import TrainConfig, device_of, patiently
from otflam.data import Store
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
from otflam.experiments.datasets import distracting
from otflam.policy import DECODER_VERSION, Splits
from otflam.presets import preset

PROBED = 16
"""Held-out episodes that probes are tested on."""


def plan(size: str, experiment: str) -> list[Job]:
    """All jobs, one model's after another's."""
    chosen = preset(size)
    return [
        Job(method, data, labels, seed)
        for data in distracting(size)
        for method in lams.methods(size)
        for labels in chosen.labels
        for seed in SEEDS
    ]


def needs(job: Job) -> list[str]:
    return lams.needs(lams.Job(job.method, job.data))


def measure(root: Path, size: str, job: Job) -> Metrics:
    """Read actions from latents and from the controls, and distractors from latents."""
    store, model = Store(root / "data" / job.data), lams.Job(job.method, job.data)
    folder, eyes = patiently(lambda: lams.trained_lam(root, size, model)), lams.eyes_of(root, size, model)
    splits, last = Splits.of(store), lams.stride_of(folder)
    probes, labelled = splits.probes[:PROBED], splits.labelled(job.labels, job.seed)
    used, device = np.concatenate([splits.pool, probes]), device_of(preset(size).hardware)
    columns = aligned_columns(store, folder, eyes, splits.unlabelled, used, device=device)
    found = read_actions(store, columns, labelled, probes, last, probe_config(size, job))
    everything = episodes_of(columns["latents"], "latents", splits.pool, last)
    probed = episodes_of(columns["latents"], "latents", probes, last)
    return found | leakage_metrics(store, everything, splits.pool, probed, probes, last)


def probe_config(size: str, job: Job) -> TrainConfig:
    """How the network is trained that reads actions; its steps by what its error asks for."""
    chosen = preset(size)
    return chosen.policy.seeded(job.seed).with_steps("decode", chosen.labels[job.labels]).decode


def cell(root: Path, size: str, job: Job) -> Cell:
    """What a job's result is of."""
    model = lams.cell(root, size, lams.Job(job.method, job.data))
    return Cell(
        experiment="alignment",
        method=job.method,
        task=job.data,
        preset=size,
        seed=job.seed,
        config={"lam": model.config, "decode": probe_config(size, job), "probed": PROBED},
        data_hash=model.data_hash,
        stages=model.stages | {"alignment": ALIGNMENT_VERSION, "decoder": DECODER_VERSION},
        backgrounds=model.backgrounds,
        extra=model.extra | {"labels": job.labels},
    )
