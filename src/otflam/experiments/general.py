"""One vocabulary of motion for anything: trained on each domain, on all but one, and on all; tested on every one."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from otflam.core import TrainConfig, retry_busy, stable_hash, to_json, training_seconds
from otflam.data import Mixture, Store, split_episodes
from otflam.evaluate import CODES_VERSION, Cell, Metrics, reconstruction, stillness
from otflam.experiments.datasets import Lab
from otflam.experiments.sources import DOMAINS, WEIGHTS
from otflam.presets import Preset
from otflam.tokenizer import (
    TOKENIZER_VERSION,
    Gap,
    MotionAutoencoder,
    Portion,
    TokenizerConfig,
    mix_motion,
    train_on_mixture,
)

SHARE = 0.5
"""Share of a source's episodes that train; the rest is held out."""
ALL, BUT = "all", "all-but-"
"""What a vocabulary was trained on: all domains, or all but one."""
GAP = Gap(0.04, 0.16)
"""Seconds between two frames of a motion in training."""
CLIPS = 300
"""Of each source that a vocabulary is tested on."""


@dataclass(frozen=True)
class Job:
    """A vocabulary by what it was trained on."""

    method: str
    data: str
    """A domain, `all`, or `all-but-DOMAIN`."""
    codes: int
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.method} on {self.data}, {self.codes} codes, seed {self.seed}"


def plan(preset: Preset, experiment: str) -> list[Job]:
    """What is packaged first; then leaving one domain out, and each alone; then the monolithic counterparts."""
    codes = preset.general.codebook.codes
    packaged = [Job("otf", ALL, 256), Job("otf", ALL, codes)]
    trained = [ALL, *(BUT + domain for domain in DOMAINS), *DOMAINS]
    others = [Job(method, data, codes) for method, data in itertools.product(("otf", "monolithic"), trained)]
    return list(dict.fromkeys([*packaged, *others]))


def needs(job: Job) -> list[str]:
    """Every vocabulary is tested on all domains."""
    return [name for names in DOMAINS.values() for name in names]


def domains_of(data: str) -> list[str]:
    """The domains that a vocabulary was trained on."""
    return [domain for domain in DOMAINS if data in (ALL, domain) or (data.startswith(BUT) and data != BUT + domain)]


def portions(lab: Lab, data: str) -> list[Portion]:
    """The episodes that train, each domain with its weight."""
    return [
        Portion(store, split_episodes(store, SHARE, 1 - SHARE)[0], WEIGHTS.get(domain, 1.0) / len(DOMAINS[domain]))
        for domain in domains_of(data)
        for store in map(lab.store, DOMAINS[domain])
    ]


def model_of(preset: Preset, job: Job) -> TokenizerConfig:
    book = dataclasses.replace(preset.general.codebook, codes=job.codes)
    config = dataclasses.replace(preset.general, codebook=book)
    return config if job.method == "otf" else dataclasses.replace(config, method="monolithic", still=0.0)


def training_of(preset: Preset, job: Job) -> TrainConfig:
    """What is packaged trains longer than what is compared."""
    training = dataclasses.replace(preset.general_training, seed=job.seed)
    return training if job.data == ALL and job.method == "otf" else compared(training)


def compared(training: TrainConfig) -> TrainConfig:
    return dataclasses.replace(training, steps=max(training.steps // 4, min(training.steps, 24)))


def folder_of(lab: Lab, job: Job) -> Path:
    hashes = [lab.store(name).hash for name in needs(job)]
    key = stable_hash([to_json(model_of(lab.preset, job)), to_json(training_of(lab.preset, job)), hashes])
    return lab.root / "general" / f"{job.method}-{job.data}-{job.codes}-{key[:12]}"


def trained(lab: Lab, job: Job) -> MotionAutoencoder:
    model, training, out = model_of(lab.preset, job), training_of(lab.preset, job), folder_of(lab, job)
    parts, hardware = portions(lab, job.data), lab.preset.hardware
    return retry_busy(lambda: train_on_mixture(parts, GAP, model, training, hardware, out))


def tested(store: Store, model: TokenizerConfig, episodes: np.ndarray | range) -> Mixture:
    """Clips of a source, or of somebody's own videos, at the tokenizer's own stride."""
    return mix_motion([Portion(store, episodes)], None, model)


def measure(lab: Lab, job: Job) -> Metrics:
    """Errors on held-out episodes of every source, and their means over domains."""
    tokenizer, found = trained(lab, job), {"train_seconds": training_seconds(folder_of(lab, job))}
    for domain, names in DOMAINS.items():
        rows = []
        for name in names:
            store = lab.store(name)
            clips = tested(store, tokenizer.config, split_episodes(store, SHARE, 1 - SHARE)[1])
            error = reconstruction(tokenizer, clips, CLIPS, transfer=True)["nmse"]
            rows.append((error, stillness(tokenizer, clips, CLIPS)))
        found[f"nmse_{domain}"], found[f"still_nmse_{domain}"] = (float(each) for each in np.mean(rows, 0))
    found["nmse"] = float(np.mean([found[f"nmse_{domain}"] for domain in DOMAINS]))
    return found


def cell(lab: Lab, job: Job) -> Cell:
    """What a job's result is of."""
    return Cell(
        experiment="general",
        method=job.method,
        task=job.data,
        preset=lab.preset.name,
        seed=job.seed,
        config={
            "model": to_json(model_of(lab.preset, job)),
            "train": to_json(training_of(lab.preset, job)),
            "gap": to_json(GAP),
            "weights": WEIGHTS,
            "share": SHARE,
        },
        data_hash=stable_hash([lab.store(name).hash for name in needs(job)]),
        stages={"tokenizer": TOKENIZER_VERSION, "codes": CODES_VERSION},
        backgrounds=None,
        extra={"codes": job.codes},
    )
