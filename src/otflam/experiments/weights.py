"""How much heard labels count: the same trials for several methods, one choice for all.

Each trial trains a model that hears the first draw of labels and reads actions from its latents with these labels, on
episodes of the pool that are neither heard nor tested on. `evaluate.results.chosen_weight` reads the records; what it
finds is written into `lam/labels.py`.
"""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np

from otflam.core import UserError, retry_busy
from otflam.evaluate import ALIGNMENT_VERSION, HEARING, Cell, Metrics, episodes_of, ridge_guess, scored
from otflam.experiments import lams
from otflam.experiments.datasets import Lab, distracting
from otflam.lam import label_store
from otflam.policy import Splits
from otflam.presets import Preset

WEIGHTS = (0.01, 0.05, 0.25)
VALIDATED = 16
"""Episodes of the pool, at most, that a trial is judged on."""


@dataclass(frozen=True)
class Job:
    """One method with one weight."""

    method: str
    data: str
    labels: int
    seed: int
    """Draws the labels."""
    weight: float

    def __str__(self) -> str:
        return f"{self.method} on {self.data}, {self.labels} labels heard, weight {self.weight}, seed {self.seed}"

    @property
    def model(self) -> lams.Job:
        return lams.Job(self.method, self.data, labels=self.labels, draw=self.seed, weight=self.weight)


def plan(preset: Preset, experiment: str) -> list[Job]:
    """Methods that need no backbone, which is slow."""
    tried = [name for name in HEARING if name in preset.lam and name != "otf-lam-dino"]
    every = itertools.product(tried, WEIGHTS, distracting(preset))
    return [Job(method, data, preset.compared[0], 0, weight) for method, weight, data in every]


def needs(job: Job) -> list[str]:
    return lams.needs(job.model)


def measure(lab: Lab, job: Job) -> Metrics:
    """What a linear probe reads on validation episodes."""
    store, splits = lab.store(job.data), Splits.of(lab.store(job.data))
    labelled = splits.labelled(job.labels, job.seed)
    unseen = np.setdiff1d(splits.pool, labelled)[:VALIDATED]
    if not len(unseen):
        raise UserError(f"all {len(labelled)} episodes of the pool of {job.data} are heard", "use a larger preset")
    folder = retry_busy(lambda: lams.trained_lam(lab, job.model))
    last = lams.stride_of(folder)
    latents = label_store(store, folder, None, np.concatenate([labelled, unseen]))
    rows, tests = (episodes_of(latents, "latents", part, last) for part in (labelled, unseen))
    actions, truths = (episodes_of(store, "actions", part, last) for part in (labelled, unseen))
    return scored("action_r2", ridge_guess(rows, actions, np.concatenate(tests)), truths)


def cell(lab: Lab, job: Job) -> Cell:
    """What a trial's result is of."""
    model = lams.cell(lab, job.model)
    config = {"lam": model.config, "validated": VALIDATED}
    stages, extra = model.stages | {"alignment": ALIGNMENT_VERSION}, model.extra | {"weight": job.weight}
    return dataclasses.replace(model, experiment="weights", config=config, stages=stages, extra=extra)
