"""What the latent actions of every method know of actions and distractors, at every budget of labels."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch

from otflam.core.files import patiently
from otflam.core.run import read_metrics
from otflam.core.training import Hardware
from otflam.data.store import Store
from otflam.evaluate.alignment import VERSION as ALIGNMENT_VERSION
from otflam.evaluate.alignment import (
    Table,
    actions_of,
    aligned_columns,
    episodes_of,
    leakage,
    r2_score,
    ridge_guess,
)
from otflam.evaluate.records import Cell, Metrics
from otflam.experiments import lams
from otflam.experiments.agents import SEEDS, Job
from otflam.experiments.datasets import policy_worlds
from otflam.policy.config import ActionDecoderConfig, PolicyConfig
from otflam.policy.decode import ActionDecoder, Pairs, train_decoder
from otflam.policy.spaces import ActionSpace, LatentSpace
from otflam.policy.splits import Splits
from otflam.presets import preset

PROBED = 8
"""Held-out episodes that probes are tested on."""


def plan(size: str, experiment: str) -> list[Job]:
    """All jobs, one model's after another's."""
    chosen = preset(size)
    return [
        Job(method, data, labels, seed)
        for data in policy_worlds(size)
        for method in chosen.lam
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
    known = aligned_columns(store, folder, eyes, splits.unlabelled, splits.pool)
    unseen = aligned_columns(store, folder, eyes, splits.unlabelled, probes)
    actions, truth = actions_of(store, labelled, last), np.concatenate(actions_of(store, probes, last))
    rows = {name: episodes_of(store, column, name, labelled, last) for name, column in known.items()}
    tests = {name: np.concatenate(episodes_of(store, column, name, probes, last)) for name, column in unseen.items()}
    found: dict[str, float | list[float]] = {}
    linear = {name: ridge_guess(rows[name], actions, tests[name]) for name in rows}
    both = [np.concatenate(pair, 1) for pair in zip(rows["latents"], rows["present"], strict=True)]
    linear["both"] = ridge_guess(both, actions, np.concatenate([tests["latents"], tests["present"]], 1))
    found |= {f"{name}_r2": r2_score(guess, truth) for name, guess in linear.items() if name != "latents"}
    found["action_r2"] = r2_score(linear["latents"], truth)
    found["action_mse"] = float(np.square(linear["latents"] - truth).mean())
    found["action_r2_gain"] = float(found["action_r2"]) - r2_score(linear["present"], truth)
    config = preset(size).policy.seeded(job.seed, preset(size).labels[job.labels])
    for name, prefix in {"latents": "mlp", "present": "mlp_present"}.items():
        guess, steps, curve = mlp_guess(store, rows[name], actions, tests[name], truth, config)
        found[f"{prefix}_r2"] = r2_score(guess, truth)
        if name == "latents":
            found |= {"mlp_mse": float(np.square(guess - truth).mean()), "curve_steps": steps, "curve_mse": curve}
    everything = episodes_of(store, known["latents"], "latents", splits.pool, last)
    probed = episodes_of(store, unseen["latents"], "latents", probes, last)
    return found | leakage(store, everything, splits.pool, probed, probes, last)


def mlp_guess(
    store: Store, inputs: list[Table], actions: list[Table], unseen: Table, truth: Table, config: PolicyConfig
) -> tuple[Table, list[float], list[float]]:
    """A small network in the place of the linear probe, and how its held-out error fell."""
    table, known = np.concatenate(inputs).astype(np.float32), torch.from_numpy(np.concatenate(actions))
    scale, space = LatentSpace.of(table), ActionSpace.of(store)
    held = Pairs(scale.normal(torch.from_numpy(unseen.astype(np.float32))), torch.from_numpy(truth))

    @torch.no_grad()
    def check(decoder: ActionDecoder) -> dict[str, float]:
        return {"held_out": float(space.loss(decoder.layers(held.inputs), held.actions))}

    with tempfile.TemporaryDirectory() as folder:
        out, cpu = Path(folder) / "probe", Hardware(accelerator="cpu")
        pairs = Pairs(scale.normal(torch.from_numpy(table)), known)
        decoder = train_decoder(pairs, ActionDecoderConfig(), space, config.decode, cpu, out, {}, check)
        logged = [row for row in read_metrics(out) if "check/held_out" in row]
    with torch.no_grad():
        guess = decoder.act(held.inputs).numpy()
    return guess, [float(row["step"]) for row in logged], [round(row["check/held_out"], 5) for row in logged]


def cell(root: Path, size: str, job: Job) -> Cell:
    """What a job's result is of."""
    model, chosen = lams.cell(root, size, lams.Job(job.method, job.data)), preset(size)
    config = chosen.policy.seeded(job.seed, chosen.labels[job.labels])
    return Cell(
        experiment="alignment",
        method=job.method,
        task=job.data,
        preset=size,
        seed=job.seed,
        config={"lam": model.config, "decode": config.decode, "probed": PROBED},
        data_hash=model.data_hash,
        stage_version=1000 * ALIGNMENT_VERSION + model.stage_version,
        backgrounds=model.backgrounds,
        extra=model.extra | {"labels": job.labels},
    )
