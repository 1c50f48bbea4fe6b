"""Where recorded experiments keep what they make, and their data sets, made when they are missing."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otflam.core import SILENT, Progress
from otflam.data import Collection, Store, collect_episodes, make_moving_mnist, recorded_collection, render
from otflam.envs import World, level_of
from otflam.evaluate import (
    ALIKE,
    CAMERAS,
    CONTROL,
    DIGITS,
    DOSES,
    GAMES,
    NOISY,
    UNLIKE,
    VANILLA,
    Cell,
    redrawn_as,
    source_of,
    task_of,
)
from otflam.experiments.sources import PREFIX, make_source
from otflam.presets import Preset


@dataclass(frozen=True)
class Lab:
    """Where the experiments of one preset keep their data and trained models."""

    root: Path
    preset: Preset

    def has(self, data: str) -> bool:
        return (self.root / "data" / data / "meta.json").exists()

    def store(self, data: str) -> Store:
        return Store(self.root / "data" / data)

    def world(self, data: str) -> World:
        """The world that a data set was recorded in."""
        return recorded_collection(self.store(data)).world

    def cell(self, experiment: str, job: Any, config: Any, stages: dict[str, int], extra: dict[str, Any]) -> Cell:
        """What the result of a job, which has a method, a data set and a seed, is of."""
        store = self.store(job.data)
        facts = (experiment, job.method, job.data, self.preset.name, job.seed)
        return Cell(*facts, config, store.hash, stages, store.config.get("background_set"), extra)


def distracting(preset: Preset) -> list[str]:
    """The data sets from which latent actions and policies are learned."""
    return [task + NOISY if preset.noise else task for task in CONTROL]


def redrawn(preset: Preset) -> list[str]:
    """The same without distractors."""
    return [data + VANILLA for data in distracting(preset)]


def prepare_data(lab: Lab, name: str, workers: int, progress: Progress = SILENT) -> Store:
    """The data set of a name at the preset's size."""
    out = lab.root / "data" / name
    if name in DIGITS:
        split = "train" if name == "mnist-train" else "transfer"
        return make_moving_mnist(dataclasses.replace(lab.preset.mnist, split=split), out)
    if name.startswith(PREFIX):
        return make_source(lab.preset, name, lab.root / "data", workers, progress)
    if end := redrawn_as(name):
        source = prepare_data(lab, source_of(name), workers, progress)
        world = dataclasses.replace(recorded_collection(source).world, **redrawn_world(lab.preset, name, end))
        return render(source, world, out, workers, progress)
    return collect_episodes(collection_of(lab.preset, name), out, workers, progress)


def redrawn_world(preset: Preset, name: str, end: str) -> dict[str, Any]:
    """What is otherwise in the world of a redrawn data set."""
    usual, task = level_of(preset.collection.world), task_of(name)
    other = next(each for each in CONTROL if each != task)
    alike = {"rival": task, "rival_colour": "same", "rival_noise": preset.noise}
    unlike = {"rival": other, "rival_noise": preset.noise}
    changes: dict[str, dict[str, Any]] = {
        VANILLA: {},
        UNLIKE: unlike,
        ALIKE: alike,
        CAMERAS[0]: alike | {"follow": "midpoint"},
        CAMERAS[1]: alike | {"follow": "rival"},
        DOSES[0]: {"colour_scale": usual.colour},
        DOSES[1]: {"camera_scale": usual.camera},
        DOSES[2]: {"videos": usual.videos},
    }
    return unlike if end == DOSES[3] else {"difficulty": "vanilla", **changes[end]}


def collection_of(preset: Preset, name: str) -> Collection:
    """How a data set with distractors, or of a game, is collected."""
    if name in GAMES:
        return dataclasses.replace(preset.games, world=dataclasses.replace(preset.games.world, task=name))
    world = dataclasses.replace(preset.collection.world, task=name.removesuffix(NOISY))
    plan = dataclasses.replace(preset.collection, world=world)
    return dataclasses.replace(plan, noise=preset.noise, seed=plan.seed + 1) if name.endswith(NOISY) else plan
