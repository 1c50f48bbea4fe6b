"""Small data sets of everything that can be drawn here: what a general vocabulary of motion learns from.

A source is named `general-…`, and a domain is a few of them. Real footage is in none of them: it is for testing only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from otflam.core import SILENT, Progress
from otflam.data import (
    Collection,
    MovingMNIST,
    MovingTextures,
    Store,
    collect_episodes,
    make_moving_mnist,
    make_moving_textures,
    recompress,
)
from otflam.envs import World
from otflam.presets import Preset

PREFIX, FILMED = "general-", "-h264"
"""Begins the names of sources; ends those whose frames have gone through a video codec."""
SEED = 11
"""Of all sources: other episodes than those of any study."""
BODIES = ("walker-run", "cheetah-run", "cartpole-swingup", "reacher-easy", "ball_in_cup-catch")
PLAYED = ("coinrun", "bigfish", "starpilot", "ninja", "dodgeball")
RIVALS = {"walker-run": "cheetah-run", "cheetah-run": "walker-run", "cartpole-swingup": "cheetah-run"}


@dataclass(frozen=True)
class Amount:
    """How large sources are at a preset."""

    episodes: int
    steps: int
    scenes: int
    digits: int


AMOUNTS = {"tiny": Amount(4, 12, 6, 21), "demo": Amount(6, 120, 150, 105)}
LARGE = Amount(16, 250, 800, 210)
DOMAINS: dict[str, tuple[str, ...]] = {
    "bodies": tuple(f"{PREFIX}{task}" for task in BODIES),
    "distractors": tuple(f"{PREFIX}{task}-hard" for task in BODIES),
    "rivals": tuple(f"{PREFIX}{task}-rival" for task in RIVALS),
    "games": tuple(f"{PREFIX}{game}" for game in PLAYED),
    "digits": (f"{PREFIX}digits",),
    "textures": (f"{PREFIX}textures",),
    "videos": tuple(
        f"{PREFIX}{name}{FILMED}" for name in ("walker-run", "cheetah-run-hard", "coinrun", "starpilot", "textures")
    ),
}
"""Bodies before a plain sky, amid distractors and two in a picture; games, digits, textures; and what codecs make of
them."""
WEIGHTS = {"textures": 3.0}
"""How much a domain counts among others; 1 where nothing is said."""


def amount_of(preset: Preset) -> Amount:
    return AMOUNTS.get(preset.name, LARGE)


def make_source(preset: Preset, name: str, folder: Path, workers: int, progress: Progress = SILENT) -> Store:
    """The source of a name, beside all others in a folder."""
    out, amount = folder / name, amount_of(preset)
    if name.endswith(FILMED):
        return recompress(make_source(preset, name.removesuffix(FILMED), folder, workers, progress), out)
    kind = name.removeprefix(PREFIX)
    if kind == "digits":
        return make_moving_mnist(MovingMNIST(sequences=amount.digits, seed=SEED), out)
    if kind == "textures":
        return make_moving_textures(MovingTextures(amount.scenes, seed=SEED), out, progress)
    return collect_episodes(collection_of_source(preset, kind), out, workers, progress)


def collection_of_source(preset: Preset, kind: str) -> Collection:
    """How a source in which somebody acts is collected."""
    amount, size = amount_of(preset), preset.collection.world.size
    if kind in PLAYED:
        world, mix, noise = World(f"procgen-{kind}", size=size), "random=0.5,scripted=0.5", 0.0
    else:
        task, mix, noise = kind.removesuffix("-hard").removesuffix("-rival"), "expert=0.75,random=0.25", 0.5
        world = World(task, size=size, quality=preset.collection.world.quality)
        if not kind.endswith("-hard"):
            world = replace(world, difficulty="vanilla")
        if kind.endswith("-rival"):
            world = replace(world, rival=RIVALS[task], rival_noise=noise)
    return Collection(world, episodes=amount.episodes, steps=amount.steps, mix=mix, noise=noise, seed=SEED)
