"""What latent actions know that were learned on the packaged vocabulary for anything, not on one of the task's own.

Data, method and training are those of the rows of alignment and innovation: only the vocabulary is another.
"""

from __future__ import annotations

import dataclasses
import itertools

from otflam.evaluate import GENERAL, INNOVATION_VERSION, OURS, Cell, Metrics
from otflam.experiments import alignments, innovations
from otflam.experiments.agents import SEEDS, Job
from otflam.experiments.datasets import Lab, distracting, redrawn
from otflam.presets import Preset

needs = alignments.needs


def plan(preset: Preset, experiment: str) -> list[Job]:
    """The method that predicts pixels, at the compared budgets; without distractors last, where innovations show."""
    every = itertools.product([*distracting(preset), *redrawn(preset)], preset.compared, SEEDS)
    return [Job(OURS[0] + GENERAL, data, labels, seed) for data, labels, seed in every]


def measure(lab: Lab, job: Job) -> Metrics:
    """Of actions and distractors, and of what no state could have told."""
    return {**alignments.measure(lab, job), **innovations.read(lab, job)}


def cell(lab: Lab, job: Job) -> Cell:
    """What a job's result is of."""
    aligned = alignments.cell(lab, job)
    stages = aligned.stages | {"innovation": INNOVATION_VERSION}
    return dataclasses.replace(aligned, experiment="general-lam", stages=stages)
