"""How long to train on labelled episodes: the same number of trials for every row of the tables of returns.

Each trial plays on validation seeds, which no result is reported on. `evaluate.results.chosen_steps` reads the
records of the trials; what it finds is written into the preset.
"""

from __future__ import annotations

import dataclasses
import itertools

from otflam.evaluate import CONTROL_VERSION, TUNED, VALIDATION, Cell, Metrics, play, return_metrics
from otflam.experiments import agents
from otflam.experiments.agents import Job
from otflam.experiments.datasets import Lab, distracting
from otflam.presets import Preset

EPISODES = 10
"""Of each trial, all with the first draw of labels."""
needs = agents.needs


def plan(preset: Preset, experiment: str) -> list[Job]:
    """The cheap trials first; neighbours are of different tasks, so that none waits for the other's model."""
    every = itertools.product(TUNED, preset.compared, preset.trials, distracting(preset))
    return [Job(method, data, labels, 0, steps=steps) for method, labels, steps, data in every]


def measure(lab: Lab, job: Job) -> Metrics:
    """What an agent that was trained so long earns on validation seeds."""
    folder, _ = agents.trained_agent(lab, job)
    world, preset = lab.world(job.data), lab.preset
    played = play(folder, world, VALIDATION + job.seed, EPISODES, 1, preset.played, hardware=preset.hardware)
    return return_metrics(played)


def cell(lab: Lab, job: Job) -> Cell:
    """What a trial's result is of."""
    facts, stages, extra = agents.agent_facts(lab, job)
    return dataclasses.replace(
        agents.cell(lab, job),
        experiment="tuning",
        config=facts | {"episodes": EPISODES, "steps": lab.preset.played},
        stages=stages | {"control": CONTROL_VERSION},
        extra=extra | {"steps": job.steps},
    )
