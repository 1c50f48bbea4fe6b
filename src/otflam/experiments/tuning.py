"""How long to train on labelled episodes: the same number of trials for every row of the tables of returns.

Each trial plays on validation seeds, which no result is reported on. `chosen_steps` reads the records of the trials;
what it finds is written into the preset.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from otflam.data.collect import recorded_collection
from otflam.data.store import Store
from otflam.evaluate.control import VALIDATION, play, return_metrics
from otflam.evaluate.control import VERSION as CONTROL_VERSION
from otflam.evaluate.records import Cell, Metrics
from otflam.experiments import agents
from otflam.experiments.agents import GROUNDED, REFERENCES, Job, distracting
from otflam.presets import preset

EPISODES = 10
"""Of each trial, all with the first draw of labels."""


def plan(size: str, experiment: str) -> list[Job]:
    """The cheap trials first; neighbours are of different tasks, so that none waits for the other's model."""
    chosen = preset(size)
    rows = [*GROUNDED, *REFERENCES, *(f"{name}+finetune" for name in GROUNDED)]
    every = itertools.product(rows, chosen.compared, chosen.trials, distracting(size))
    return [Job(method, data, labels, 0, steps=steps) for method, labels, steps, data in every]


def needs(job: Job) -> list[str]:
    return agents.needs(job)


def measure(root: Path, size: str, job: Job) -> Metrics:
    """What an agent that was trained so long earns on validation seeds."""
    folder, _ = agents.trained_agent(root, size, job)
    world = recorded_collection(Store(root / "data" / job.data)).world
    chosen = preset(size)
    return return_metrics(
        play(folder, world, VALIDATION + job.seed, EPISODES, 1, chosen.played, hardware=chosen.hardware)
    )


def cell(root: Path, size: str, job: Job) -> Cell:
    """What a trial's result is of."""
    facts, stages, extra = agents.agent_facts(root, size, job)
    return dataclasses.replace(
        agents.cell(root, size, job),
        experiment="tuning",
        config=facts | {"episodes": EPISODES, "steps": preset(size).played},
        stages=stages | {"control": CONTROL_VERSION},
        extra=extra | {"steps": job.steps},
    )


def chosen_steps(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[int, int]]:
    """By row and budget: the steps with the greatest return, each task counted as a share of its trials' mean."""
    returns: dict[tuple[str, int], dict[str, dict[int, float]]] = {}
    for record in records:
        row = returns.setdefault((record["method"], record["labels"]), {})
        row.setdefault(record["task"], {})[record["steps"]] = record["metrics"]["return_mean"]
    found: dict[str, dict[int, int]] = {}
    for (method, labels), tasks in sorted(returns.items()):
        shares = {
            steps: sum(tried[steps] / (sum(tried.values()) / len(tried)) for tried in tasks.values())
            for steps in set.intersection(*(set(tried) for tried in tasks.values()))
        }
        found.setdefault(method, {})[labels] = max(shares, key=lambda steps: (shares[steps], -steps))
    return found
