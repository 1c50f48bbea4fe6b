"""Everything about tokenizers that is recorded: transfer, vocabulary sizes, ablations, and the carrier test.

A job trains a tokenizer, or finds it trained, and evaluates it.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otflam.core import TrainConfig, retry_busy, stable_hash, to_json, training_seconds, versions
from otflam.data import split_episodes
from otflam.evaluate import (
    CODES_VERSION,
    CONTROL,
    DIGITS,
    GAME_TRANSFERS,
    Cell,
    carrier,
    factor_metrics,
    patch_kmeans_nmse,
    reconstruction,
    transfer_metrics,
)
from otflam.experiments.datasets import Lab
from otflam.motion import MotionConfig
from otflam.presets import Preset
from otflam.tokenizer import OTF, TOKENIZER_VERSION, MotionAutoencoder, TokenizerConfig, motion_clips, train_tokenizer

SEEDS = (0, 1, 2)
SHARE = 0.5
"""Share of the source's episodes that train, as in all later stages; the rest is held out."""


@dataclass(frozen=True)
class Job:
    """One tokenizer and what to measure with it."""

    experiment: str
    source: str
    target: str | None
    model: TokenizerConfig
    seed: int
    label: str
    """What is special about it: the order, the vocabulary, the ablation."""

    def __str__(self) -> str:
        aim = f" to {self.target}" if self.target else ""
        facts = f"{self.label}, order {self.model.motion.order}, {self.model.codebook.codes} codes, seed {self.seed}"
        return f"{self.model.method} from {self.source}{aim} ({facts})"


def plan(preset: Preset, experiment: str) -> list[Job]:
    """All jobs of an experiment, the most telling first."""
    if experiment == "transfer":
        pairs = ((CONTROL, preset.tokenizer), (DIGITS, preset.digit_tokenizer))
        every = itertools.product(pairs, SEEDS, (1, 2), ("otf", "monolithic"))
        return [
            Job(experiment, *pair, _with(base, method=method, order=order), seed, f"order{order}")
            for (pair, base), seed, order, method in every
        ]
    if experiment == "games":
        model = preset.tokenizer
        every = itertools.product(SEEDS, GAME_TRANSFERS, ("otf", "monolithic"))
        order = model.motion.order
        return [
            Job("transfer", *pair, _with(model, method=method, order=order), seed, f"order{order}")
            for seed, pair, method in every
        ]
    if experiment == "carrier":
        models = [_with(preset.digit_tokenizer, method=method, order=1) for method in ("otf", "monolithic")]
        return [Job(experiment, *DIGITS, model, seed, model.method) for seed in SEEDS for model in models]
    usual, others = preset.tokenizer, ablations(preset.tokenizer)
    books = [dataclasses.replace(usual.codebook, codes=codes) for codes in (16, 32, 128)]
    sizes = [dataclasses.replace(usual, codebook=book) for book in books]
    jobs = [Job(experiment, task, None, usual, seed, "default") for seed in SEEDS for task in CONTROL]
    every = itertools.product(SEEDS, CONTROL, sizes)
    jobs += [Job(experiment, task, None, model, seed, "default") for seed, task, model in every]
    return jobs + [Job(experiment, "walker-run", None, model, seed, name) for seed in SEEDS for name, model in others]


def ablations(base: TokenizerConfig) -> list[tuple[str, TokenizerConfig]]:
    """What the paper left open: no reference branch (B.3), other patches (B.2), and orthogonality that acts (B.4)."""
    pixels = base.grid * base.patch
    blind = dataclasses.replace(base, decoder=dataclasses.replace(base.decoder, reference=0))
    apart = dataclasses.replace(base, codebook=dataclasses.replace(base.codebook, repulsion=0.001))
    sizes = [side for side in (5, 7, 10) if pixels % side == 0 and side != base.patch]
    patches = [(f"patch{side}", dataclasses.replace(base, grid=pixels // side, patch=side)) for side in sizes]
    return [("no-reference", blind), ("repulsion", apart), *patches]


def _with(base: TokenizerConfig, method: str, order: int) -> TokenizerConfig:
    motion = MotionConfig(base.motion.transform, 1 if order == 1 else 2, base.motion.stride)
    return dataclasses.replace(base, method="otf" if method == "otf" else "monolithic", motion=motion)


def needs(job: Job) -> list[str]:
    """Data sets of a job."""
    return [name for name in (job.source, job.target) if name]


def tokenizer_folder(lab: Lab, source: str, model: TokenizerConfig, seed: int) -> Path:
    """Where a tokenizer is, or will be."""
    store, training = lab.store(source), training_of(lab.preset, source, seed)
    key = stable_hash([to_json(model), to_json(training), store.hash, TOKENIZER_VERSION, versions("torch")])
    return lab.root / "tokenizers" / f"{source}-{key[:12]}"


def trained(lab: Lab, source: str, model: TokenizerConfig, seed: int) -> tuple[MotionAutoencoder, Path]:
    """A tokenizer on the first half of a data set, trained if it is missing, and its folder."""
    store, training = lab.store(source), training_of(lab.preset, source, seed)
    out = tokenizer_folder(lab, source, model, seed)
    episodes = split_episodes(store, SHARE, 1 - SHARE)[0]
    # Another cell may be training the same one.
    return retry_busy(lambda: train_tokenizer(store, episodes, model, training, lab.preset.hardware, out)), out


def measure(lab: Lab, job: Job) -> dict[str, float]:
    """Train a job's tokenizer, or find it, and evaluate it."""
    source = lab.store(job.source)
    tokenizer, folder = trained(lab, job.source, job.model, job.seed)
    train, held = split_episodes(source, SHARE, 1 - SHARE)
    held_out, metrics = motion_clips(source, job.model, held), {"train_seconds": training_seconds(folder)}
    if job.target is None:
        metrics |= reconstruction(tokenizer, held_out)
        if isinstance(tokenizer, OTF):
            metrics |= factor_metrics(tokenizer, held_out)
            metrics["kmeans_nmse"] = patch_kmeans_nmse(tokenizer, motion_clips(source, job.model, train), held_out)
        return metrics
    target = lab.store(job.target)
    if job.experiment == "transfer":
        return metrics | transfer_metrics(tokenizer, held_out, motion_clips(target, job.model))
    return metrics | carrier.carrier_metrics(tokenizer, source, held, target)


def training_of(preset: Preset, source: str, seed: int) -> TrainConfig:
    return dataclasses.replace(preset.digit_training if source in DIGITS else preset.tokenizer_training, seed=seed)


def cell(lab: Lab, job: Job) -> Cell:
    """What a job's result is of."""
    stores = [lab.store(name) for name in needs(job)]
    training = training_of(lab.preset, job.source, job.seed)
    task = job.source if job.target is None else f"{job.source}-to-{job.target}"
    measured = {"carrier": carrier.CARRIER_VERSION} if job.experiment == "carrier" else {"codes": CODES_VERSION}
    extra: dict[str, Any] = {"order": job.model.motion.order}
    if job.experiment == "tokenizer":
        extra |= {"codes": job.model.codebook.codes, "variant": job.label}
    return Cell(
        experiment=job.experiment,
        method=job.model.method,
        task=task,
        preset=lab.preset.name,
        seed=job.seed,
        config={"model": to_json(job.model), "train": to_json(training), "share": SHARE},
        data_hash=stable_hash([store.hash for store in stores]),
        stages={"tokenizer": TOKENIZER_VERSION, **measured},
        backgrounds=stores[0].config.get("background_set"),
        extra=extra,
    )
