"""Everything about tokenizers that is recorded: transfer, vocabulary sizes, ablations, and the carrier test.

A cell trains a tokenizer, or finds it trained, and evaluates it; cells run in parallel processes of one thread each.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from otflam.core.config import stable_hash, to_json
from otflam.core.pool import run_jobs
from otflam.core.provenance import versions
from otflam.core.run import training_seconds
from otflam.core.training import Hardware, TrainConfig
from otflam.data.clips import split_episodes
from otflam.data.collect import collect
from otflam.data.moving_mnist import make_moving_mnist
from otflam.data.store import Store
from otflam.evaluate import carrier
from otflam.evaluate.codes import VERSION as CODES_VERSION
from otflam.evaluate.codes import factor_metrics, patch_kmeans_nmse, reconstruction
from otflam.evaluate.records import Cell, find_record, write_record
from otflam.evaluate.transfer import transfer_metrics
from otflam.motion.config import MotionConfig
from otflam.presets import preset
from otflam.tokenizer.build import VERSION as TOKENIZER_VERSION
from otflam.tokenizer.build import motion_clips, train_tokenizer
from otflam.tokenizer.config import TokenizerConfig
from otflam.tokenizer.model import OTF, MotionAutoencoder

CONTROL, DIGITS = ("walker-run", "cheetah-run"), ("mnist-train", "mnist-transfer")
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


def prepare_data(root: Path, size: str, name: str, workers: int) -> Store:
    """The data set of a name at a preset's size, made if it is missing."""
    chosen, out = preset(size), root / "data" / name
    if name in DIGITS:
        split = "train" if name == "mnist-train" else "transfer"
        return make_moving_mnist(dataclasses.replace(chosen.mnist, split=split), out)
    world = dataclasses.replace(chosen.collection.world, task=name)
    return collect(dataclasses.replace(chosen.collection, world=world), out, workers)


def plan(size: str, experiment: str) -> list[Job]:
    """All jobs of an experiment, the most telling first."""
    chosen = preset(size)
    jobs = []
    if experiment == "transfer":
        for (source, target), base in ((CONTROL, chosen.tokenizer), (DIGITS, chosen.digit_tokenizer)):
            for seed in SEEDS:
                for order in (1, 2):
                    for method in ("otf", "monolithic"):
                        model = _with(base, method=method, order=order)
                        jobs.append(Job(experiment, source, target, model, seed, f"order{order}"))
        return jobs
    if experiment == "carrier":
        models = [_with(chosen.digit_tokenizer, method=method, order=1) for method in ("otf", "monolithic")]
        return [Job(experiment, *DIGITS, model, seed, model.method) for seed in SEEDS for model in models]
    for seed in SEEDS:
        jobs += [Job(experiment, task, None, chosen.tokenizer, seed, "default") for task in CONTROL]
    for seed in SEEDS:
        for task in CONTROL:
            for codes in (16, 32, 128):
                book = dataclasses.replace(chosen.tokenizer.codebook, codes=codes)
                model = dataclasses.replace(chosen.tokenizer, codebook=book)
                jobs.append(Job(experiment, task, None, model, seed, "default"))
    for seed in SEEDS:
        jobs += [Job(experiment, "walker-run", None, model, seed, name) for name, model in ablations(chosen.tokenizer)]
    return jobs


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


def run_experiment(
    root: Path,
    records: Path,
    size: str,
    experiment: str,
    workers: int,
    command: str,
    on_start: Callable[[int, int], None] = lambda done, total: None,
    on_done: Callable[[int], None] = lambda count: None,
) -> None:
    """Run the jobs that have no valid record yet; each leaves its record at once."""
    jobs = plan(size, experiment)
    for name in dict.fromkeys(name for job in jobs for name in (job.source, job.target) if name):
        prepare_data(root, size, name, workers)
    cells = [_cell(root, size, job) for job in jobs]
    missing = [index for index, cell in enumerate(cells) if find_record(records, cell) is None]
    on_start(len(jobs) - len(missing), len(jobs))
    for _ in run_jobs(Worker, (root, records, size, experiment, command), missing, workers):
        on_done(1)


class Worker:
    """One process that trains and evaluates tokenizers on one thread."""

    def __init__(self, root: Path, records: Path, size: str, experiment: str, command: str) -> None:
        torch.set_num_threads(1)
        self.root, self.records, self.size, self.command = root, records, size, command
        self.jobs = plan(size, experiment)

    def __call__(self, index: int, tick: Callable[[], None]) -> None:
        job, began = self.jobs[index], time.monotonic()
        source = Store(self.root / "data" / job.source)
        train, held = split_episodes(source, SHARE, 1 - SHARE)
        training = _training(self.size, job)
        key = stable_hash([to_json(job.model), to_json(training), source.hash, TOKENIZER_VERSION, versions("torch")])
        out = self.root / "tokenizers" / f"{job.source}-{key[:12]}"
        tokenizer = train_tokenizer(source, train, job.model, training, Hardware(accelerator="cpu"), out)
        metrics = self._measure(job, tokenizer, source, train, held)
        metrics["train_seconds"] = training_seconds(out)
        write_record(self.records, _cell(self.root, self.size, job), metrics, time.monotonic() - began, self.command)

    def _measure(
        self, job: Job, tokenizer: MotionAutoencoder, source: Store, train: np.ndarray, held: np.ndarray
    ) -> dict[str, float]:
        held_out = motion_clips(source, job.model, held)
        if job.target is None:
            metrics = reconstruction(tokenizer, held_out)
            if isinstance(tokenizer, OTF):
                metrics |= factor_metrics(tokenizer, held_out)
                metrics["kmeans_nmse"] = patch_kmeans_nmse(tokenizer, motion_clips(source, job.model, train), held_out)
            return metrics
        target = Store(self.root / "data" / job.target)
        if job.experiment == "transfer":
            return transfer_metrics(tokenizer, held_out, motion_clips(target, job.model))
        return carrier.carrier_metrics(tokenizer, source, held, target)


def _training(size: str, job: Job) -> TrainConfig:
    chosen = preset(size)
    return dataclasses.replace(
        chosen.digit_training if job.source in DIGITS else chosen.tokenizer_training, seed=job.seed
    )


def _cell(root: Path, size: str, job: Job) -> Cell:
    stores = [Store(root / "data" / name) for name in (job.source, job.target) if name]
    task = job.source if job.target is None else f"{job.source}-to-{job.target}"
    stage = 100 * TOKENIZER_VERSION + (carrier.VERSION if job.experiment == "carrier" else CODES_VERSION)
    extra: dict[str, Any] = {"order": job.model.motion.order}
    if job.experiment == "tokenizer":
        extra |= {"codes": job.model.codebook.codes, "variant": job.label}
    return Cell(
        experiment=job.experiment,
        method=job.model.method,
        task=task,
        preset=size,
        seed=job.seed,
        config={"model": to_json(job.model), "train": to_json(_training(size, job)), "share": SHARE},
        data_hash=stable_hash([store.hash for store in stores]),
        stage_version=stage,
        backgrounds=stores[0].config.get("background_set"),
        extra=extra,
    )
