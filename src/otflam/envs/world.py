"""What a world is: the task, and everything that decides how its frames look; and families of worlds, by name.

A family declares itself with `register_world`, without loading what simulates it: what opens its worlds is named by
strings and imported when it is needed. Packages add their own through the entry-point group `otflam.worlds`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import tyro

from otflam.core import ADDED, UserError, import_name, load_plugins, register, require_name, unknown_name

Difficulty = Literal["vanilla", "easy", "medium", "hard", "scale_easy_video_hard"]
Quality = Literal["fast", "reference"]
Split = Literal["train", "validation"]
RivalColour = Literal["own", "same"]
Follow = Literal["agent", "rival", "midpoint"]
NO_RIVAL = "none"
ALL_VIDEOS = -1
GROUP = "otflam.worlds"
EXPERT, RANDOM, ZERO = "expert", "random", "zero"
"""Policies that have a meaning in every world; an expert is there only if the family has one."""


@dataclass(frozen=True)
class World:
    task: tyro.conf.Positional[str] = "cheetah-run"
    """dm_control suite task as DOMAIN-TASK, e.g. cheetah-run or walker-run, or a task of another world."""
    difficulty: Difficulty = "scale_easy_video_hard"
    """Distractors: none (vanilla), the three published levels, or weak camera and colour with all videos."""
    dynamic: bool = True
    """Whether distractors move during an episode; static ones are drawn once per episode."""
    size: int = 64
    """Height and width of a frame in pixels."""
    quality: Quality = "fast"
    """fast drops shadows, reflections and multisampling and uses a small sky box; reference renders as the original."""
    backgrounds: str = "builtin"
    """Background videos: the built-in set, or a folder (DAVIS-2017, or any folder of videos or image folders)."""
    split: Split = "train"
    """Which of the background videos to use."""
    camera: int = 0
    """Number of the task's camera."""
    camera_scale: float | None = field(default=None, metadata=ADDED)
    """How much the camera moves, 0 to 1; by default as the difficulty says."""
    colour_scale: float | None = field(default=None, metadata=ADDED)
    """How much colours change, 0 to 1; by default as the difficulty says."""
    videos: int | None = field(default=None, metadata=ADDED)
    """How many background videos there are: 0 none, -1 all; by default as the difficulty says."""
    rival: str = field(default=NO_RIVAL, metadata=ADDED)
    """A second body in the picture, as TASK or TASK:POLICY (by default its expert), or none."""
    rival_colour: RivalColour = field(default="own", metadata=ADDED)
    """own gives the rival a colour of its own in every episode; same paints it like the agent."""
    rival_noise: float = field(default=0.0, metadata=ADDED)
    """Standard deviation of the noise added to the rival's actions."""
    follow: Follow = field(default="agent", metadata=ADDED)
    """Whom the camera looks at: the agent, the rival or the midpoint between them."""

    def __post_init__(self) -> None:
        named = {"difficulty": Difficulty, "quality": Quality, "split": Split}
        for kind, choices in (named | {"rival_colour": RivalColour, "follow": Follow}).items():
            require_name(kind.replace("_", "-"), getattr(self, kind), get_args(choices))
        for name in ("camera_scale", "colour_scale"):
            scale = getattr(self, name)
            if scale is not None and not 0 <= scale <= 1:
                raise UserError(f"--{name.replace('_', '-')} {scale}", "give a number from 0 to 1")
        if self.videos is not None and self.videos < ALL_VIDEOS:
            raise UserError(f"--videos {self.videos}", "give their number, or -1 for all")
        if not 0 <= self.rival_noise < math.inf:
            raise UserError(f"--rival-noise {self.rival_noise}", "give a standard deviation of 0 or more")
        if self.follow != "agent" and not self.has_rival:
            raise UserError(f"--follow {self.follow} without a rival", "name one with --rival TASK")

    @property
    def has_rival(self) -> bool:
        return self.rival != NO_RIVAL


@dataclass(frozen=True)
class Family:
    """Strings are `module:name`."""

    name: str
    tasks: tuple[str, ...] | str
    """Names of its tasks, or where they are."""
    open: str
    """A class or function that makes an `Environment` of a `World`."""
    simulate: str | None = None
    """A class or function that makes a `Simulated` of a task's name, if it can be played without pictures."""
    policies: Mapping[str, str] = field(default_factory=dict)
    """Its own policies beside random and zero: functions of the world's `Facts` and a file or None."""
    packaged: str | None = None
    """A function that gives the tasks whose expert needs no file."""
    rivals: bool = False
    """Whether its worlds can show a second body."""
    learner: str | None = None
    """By which algorithm experts are trained, if they can be."""


FAMILIES: dict[str, Family] = {}
"""All families by name, complete once `otflam.envs` is imported."""


def register_world(family: Family) -> Family:
    """Make a family of worlds known."""
    return register(FAMILIES, family.name, family, "family of worlds")


def load_worlds() -> None:
    """Import the families that installed packages declare."""
    load_plugins(GROUP, "world")


def tasks_of(family: Family) -> Collection[str]:
    return import_name(family.tasks) if isinstance(family.tasks, str) else family.tasks


def find_family(task: str) -> Family:
    """The family that has a task; those that need not be loaded to know are asked first."""
    for family in sorted(FAMILIES.values(), key=lambda family: isinstance(family.tasks, str)):
        if task in tasks_of(family):
            return family
    raise unknown_name("task", task, [name for family in FAMILIES.values() for name in tasks_of(family)])


def can_simulate(task: str) -> bool:
    """Whether a task can be played without pictures."""
    return find_family(task).simulate is not None


def policy_names(task: str) -> tuple[str, ...]:
    """Policies that a task has by name."""
    return (*find_family(task).policies, RANDOM, ZERO)


def has_expert(task: str) -> bool:
    """Whether an expert of a task comes with its world."""
    packaged = find_family(task).packaged
    return packaged is not None and task in import_name(packaged)()


register_world(
    Family(
        name="control suite",
        tasks="otflam.envs.simulation:TASKS",
        open="otflam.envs.suite:ControlEnv",
        simulate="otflam.envs.simulation:Simulation",
        policies={EXPERT: "otflam.envs.experts:fitting_expert"},
        packaged="otflam.envs.experts:packaged_experts",
        rivals=True,
        learner="sac",
    )
)
GAMES = ("bigfish", "chaser", "coinrun", "dodgeball", "jumper", "ninja", "starpilot")
register_world(
    Family(
        name="games",
        tasks=tuple(f"procgen-{name}" for name in GAMES),
        open="otflam.envs.games:GameWorld",
        policies={
            EXPERT: "otflam.envs.players:game_expert",
            "scripted": "otflam.envs.players:Scripted",
            "sticky": "otflam.envs.players:Sticky",
        },
        packaged="otflam.envs.experts:packaged_experts",
        learner="ppo",
    )
)
