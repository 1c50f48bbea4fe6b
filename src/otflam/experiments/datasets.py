"""The data sets of the recorded experiments, made when they are missing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from otflam.core import SILENT, Progress
from otflam.data import Collection, Store, collect_episodes, make_moving_mnist, recorded_collection, render
from otflam.envs import World
from otflam.evaluate import CONTROL, DIGITS, NOISY, VANILLA
from otflam.presets import preset


def distracting(size: str) -> list[str]:
    """The data sets from which latent actions and policies are learned."""
    return [task + NOISY if preset(size).noise else task for task in CONTROL]


def redrawn(size: str) -> list[str]:
    """The same without distractors."""
    return [data + VANILLA for data in distracting(size)]


def in_rounds(names: list[str]) -> list[list[str]]:
    """Data sets in two rounds: what is redrawn needs its source first."""
    return [[name for name in names if name.endswith(VANILLA) == second] for second in (False, True)]


def recorded_world(root: Path, name: str) -> World:
    """The world that a data set was recorded in."""
    return recorded_collection(Store(root / "data" / name)).world


def prepare_data(root: Path, size: str, name: str, workers: int, progress: Progress = SILENT) -> Store:
    """The data set of a name at a preset's size."""
    chosen, out = preset(size), root / "data" / name
    if name in DIGITS:
        split = "train" if name == "mnist-train" else "transfer"
        return make_moving_mnist(dataclasses.replace(chosen.mnist, split=split), out)
    if name.endswith(VANILLA):
        source = prepare_data(root, size, name.removesuffix(VANILLA), workers, progress)
        world = dataclasses.replace(recorded_collection(source).world, difficulty="vanilla")
        return render(source, world, out, workers, progress)
    return collect_episodes(collection_of(size, name), out, workers, progress)


def collection_of(size: str, name: str) -> Collection:
    """How a data set with distractors is collected."""
    chosen = preset(size)
    plan = dataclasses.replace(
        chosen.collection, world=dataclasses.replace(chosen.collection.world, task=name.removesuffix(NOISY))
    )
    return dataclasses.replace(plan, noise=chosen.noise, seed=plan.seed + 1) if name.endswith(NOISY) else plan
