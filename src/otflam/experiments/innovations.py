"""What latent actions know of what no state could have told, beside what could be known at best."""

from __future__ import annotations

import numpy as np

from otflam.core import device_of, patiently, read_json, stable_hash, versions, write_json
from otflam.evaluate import (
    CEILINGS_VERSION,
    GROUNDED,
    INNOVATION,
    INNOVATION_VERSION,
    Cell,
    Known,
    Metrics,
    episodes_of,
    finite,
    in_units,
    innovation_column,
    mlp_guess,
    motion_column,
    read_ceilings,
    ridge_guess,
    scored,
)
from otflam.experiments import alignments, lams
from otflam.experiments.agents import SEEDS, Job
from otflam.experiments.alignments import PROBED, probe_config
from otflam.experiments.datasets import Lab, distracting, redrawn
from otflam.lam import label_store
from otflam.policy import CLONE_VERSION, LatentSpace, Splits
from otflam.presets import Preset


def plan(preset: Preset, experiment: str) -> list[Job]:
    """All budgets of the main methods, the worlds without distractors first: there the signal is not zero."""
    return [
        Job(method, data, labels, seed)
        for data in [*redrawn(preset), *distracting(preset)]
        for method in GROUNDED
        for labels in preset.labels
        for seed in SEEDS
    ]


def needs(job: Job) -> list[str]:
    return alignments.needs(job)


def measure(lab: Lab, job: Job) -> Metrics:
    """Read innovations from latents and from raw motion, linearly and with a small network, with few labels."""
    store, model = lab.store(job.data), lams.Job(job.method, job.data)
    if (column := innovation_column(store)) is None:
        return {"innovation_r2": float("nan"), "innovation_mlp_r2": float("nan")}
    folder, eyes = patiently(lambda: lams.trained_lam(lab, model)), lams.eyes_of(lab, model)
    splits, last, known = Splits.of(store), lams.stride_of(folder), Known(INNOVATION, column)
    probes, labelled = splits.probes[:PROBED], splits.labelled(job.labels, job.seed)
    used = np.concatenate([splits.pool, probes])
    device = device_of(lab.preset.hardware)
    latents = label_store(store, folder, eyes, used, keep_features=True, device=device)
    motion = motion_column(store, last, used, lambda done, total: None)
    outputs, truths = known.of(labelled, last), known.of(probes, last)
    rows, unseen = (episodes_of(latents, "latents", part, last) for part in (labelled, probes))
    found = scored("innovation_r2", ridge_guess(rows, outputs, np.concatenate(unseen)), truths)
    moved, later = (episodes_of(motion, "motion", part, last) for part in (labelled, probes))
    found |= scored("innovation_r2_motion", ridge_guess(moved, outputs, np.concatenate(later)), truths)
    space, truth = LatentSpace.of(np.concatenate(outputs)), np.concatenate(truths)
    guess, _, _ = mlp_guess(space, rows, outputs, np.concatenate(unseen), truth, probe_config(lab.preset, job))
    found |= scored("innovation_mlp_r2", in_units(space, guess), truths)
    return found | patiently(lambda: ceilings(lab, job.data))


def ceilings(lab: Lab, data: str) -> dict[str, float | list[float]]:
    """What could be known at best of a data set, found out once."""
    store, preset = lab.store(data), lab.preset
    facts = [preset.policy, store.hash, PROBED, CEILINGS_VERSION, CLONE_VERSION, versions("torch", "numpy")]
    folder = lab.root / "ceilings" / f"{data}-{stable_hash(facts)[:12]}"
    if not (folder / "ceilings.json").exists():
        splits = Splits.of(store)
        probes = splits.probes[:PROBED]
        found = read_ceilings(store, splits, probes, preset.policy.seeded(0), preset.hardware, folder)
        write_json(folder / "ceilings.json", {name: finite(value) for name, value in found.items()})
    return read_json(folder / "ceilings.json", "delete it to measure it again")


def cell(lab: Lab, job: Job) -> Cell:
    """What a job's result is of."""
    model, policy = lams.cell(lab, lams.Job(job.method, job.data)), lab.preset.policy
    return Cell(
        experiment="innovation",
        method=job.method,
        task=job.data,
        preset=lab.preset.name,
        seed=job.seed,
        config={"lam": model.config, "probe": probe_config(lab.preset, job), "probed": PROBED, "ceilings": policy},
        data_hash=model.data_hash,
        stages=model.stages | {"innovation": INNOVATION_VERSION, "ceilings": CEILINGS_VERSION, "clone": CLONE_VERSION},
        backgrounds=model.backgrounds,
        extra=model.extra | {"labels": job.labels},
    )
