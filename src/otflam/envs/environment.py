"""What a world gives and declares, and what it may be able to do beside: all that the other stages know of worlds.

Axes: h w pixels, s state, a actions, n numbers of a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32, UInt8

from otflam.core import Column, UserError, import_name
from otflam.envs.world import World, find_family


@dataclass(frozen=True)
class Actions:
    """Numbers within bounds, or one of several choices; everywhere but in `step` an action is a row of numbers."""

    low: Float32[np.ndarray, " a"]
    high: Float32[np.ndarray, " a"]
    choices: int = 0
    """How many there are to choose from, where an action is the number of a choice; 0: actions are continuous."""
    rest: int = 0
    """The choice, or the value of all numbers, that does nothing."""
    distinct: tuple[int, ...] = ()
    """Choices that random play draws from, where others do what these do; none: all."""
    names: tuple[str, ...] = ()
    """What the choices are called, if anything."""

    @classmethod
    def discrete(
        cls, choices: int, rest: int = 0, distinct: tuple[int, ...] = (), names: tuple[str, ...] = ()
    ) -> Actions:
        return cls(np.zeros(1, np.float32), np.full(1, choices - 1, np.float32), choices, rest, distinct, names)

    @property
    def size(self) -> int:
        return len(self.low)

    def draw(self, rng: np.random.Generator) -> Float32[np.ndarray, " a"]:
        """Any action, all equally likely."""
        if self.distinct:
            return np.array(self.distinct, np.float32)[rng.integers(len(self.distinct), size=1)]
        if self.choices:
            return rng.integers(self.choices, size=1).astype(np.float32)
        return rng.uniform(self.low, self.high).astype(np.float32)

    def disturb(
        self, action: Float32[np.ndarray, " a"], noise: float, rng: np.random.Generator
    ) -> Float32[np.ndarray, " a"]:
        """Gaussian noise of this deviation; or, with this probability, another choice."""
        if self.choices:
            return self.draw(rng) if rng.random() < noise else action
        return action + noise * rng.standard_normal(action.shape, np.float32)

    def bound(self, action: Float32[np.ndarray, " a"]) -> Float32[np.ndarray, " a"]:
        """The action that is executed."""
        if self.choices and (action.shape != (1,) or action[0] not in range(self.choices)):
            raise UserError(f"action {action.tolist()} of {self.choices} choices", "check the policy that chose it")
        return np.clip(action, self.low, self.high)  # keeps a NaN, which the world refuses with a clear message

    def command(self, action: Float32[np.ndarray, " a"]) -> Any:
        """What `step` takes: a row of numbers, or the number of a choice."""
        return int(action[0]) if self.choices else action

    def about(self) -> dict[str, Any]:
        """What a data set says of its actions."""
        if self.choices:
            named = {"action_distinct": list(self.distinct), "action_names": list(self.names)}
            return {"action_choices": self.choices} | {name: value for name, value in named.items() if value}
        return {"action_low": self.low.tolist(), "action_high": self.high.tolist()}


@dataclass(frozen=True)
class Facts:
    """What a world declares."""

    task: str
    actions: Actions
    steps: int
    """Its time limit; an episode may end earlier."""
    state_size: int = 0
    """Numbers of `info["state"]`, which policies may look at and data sets keep as `states`; 0: there is none."""
    frame: tuple[int, int, int] = (0, 0, 3)
    """Height, width and colours of a frame; none where nothing is drawn."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """What else is in `info` after every step and belongs into data sets, by name."""
    snapshot: str | None = None
    """The column from which an episode can be drawn again and gone on with; None: it cannot."""
    drawn: tuple[str, ...] = ()
    """Columns that tell of the picture and not of what happens: they are made anew when it is drawn again."""
    scenery: str | None = None
    """Names what pictures are made of beside the world's settings, e.g. a set of background videos."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What data sets say of the world in their meta.json."""
    fps: int = 50
    """Frames a second of a film."""

    def snapshot_column(self) -> str:
        """The column of snapshots, or a line that says that there is none."""
        if self.snapshot is None:
            raise UserError(f"{self.task} cannot be put back to where it was", "collect new episodes of it instead")
        return self.snapshot

    def own_columns(self) -> dict[str, Column]:
        """What an episode has beside frames, actions and rewards."""
        states = {"states": Column("float32", (self.state_size,))} if self.state_size else {}
        return {**states, **self.columns}

    def all_columns(self) -> dict[str, Column]:
        """All columns of an episode."""
        every = {"frames": Column("uint8", self.frame), "actions": Column("float32", (self.actions.size,))}
        return {**every, "rewards": Column("float32", ()), **self.own_columns()}


@runtime_checkable
class Environment(Protocol):
    """A world that is seen: as in gymnasium, with frames for observations and all that is recorded in `info`."""

    @property
    def facts(self) -> Facts: ...

    def reset(self, *, seed: int) -> tuple[UInt8[np.ndarray, "h w 3"], dict[str, Any]]:
        """Start the episode of a seed."""
        ...

    def step(self, action: Any, /) -> tuple[UInt8[np.ndarray, "h w 3"], float, bool, bool, dict[str, Any]]: ...

    def close(self) -> None: ...


@runtime_checkable
class Restorable(Environment, Protocol):
    """One whose recorded episodes can be drawn again and gone on with."""

    def redraw(
        self, seed: int, snapshots: np.ndarray, /
    ) -> Iterator[tuple[UInt8[np.ndarray, "h w 3"], dict[str, Any]]]:
        """The frames of a recorded episode, as this world shows them, each with the columns that are drawn with it."""
        ...

    def resume(self, seed: int, step: int, snapshot: np.ndarray, /) -> None:
        """Go on after one of its frames."""
        ...


BACKGROUND, AGENT, RIVAL = 0, 1, 2
"""Whose a pixel is."""


@runtime_checkable
class Masked(Restorable, Protocol):
    """One that knows whose every pixel is."""

    def mask(self) -> UInt8[np.ndarray, "h w"]:
        """Whose the pixels of the last frame are: AGENT, RIVAL or BACKGROUND."""
        ...


@runtime_checkable
class Simulated(Protocol):
    """A task without pictures, for policies that look at states only."""

    @property
    def facts(self) -> Facts: ...

    def begin(self, seed: int) -> Float32[np.ndarray, " s"]:
        """Start the episode of a seed and return its first state."""
        ...

    def step(self, action: Any, /) -> tuple[Float32[np.ndarray, " s"], float, bool]:
        """The next state, the reward, and whether the episode has ended."""
        ...

    def resume(self, snapshot: np.ndarray, /) -> Float32[np.ndarray, " s"]:
        """Be where a recorded episode of the seed was, and return the state seen there."""
        ...


def open_world(world: World) -> Environment:
    """A world to be seen."""
    family = find_family(world.task)
    if world.has_rival and not family.rivals:
        raise UserError(f"--rival {world.rival} in {world.task}", f"worlds of {family.name} show one body only")
    return import_name(family.open)(world)


def make(task: str, **world: Any) -> Environment:
    """Build a world by name: `make("walker-run", difficulty="hard", size=96)`."""
    return open_world(World(task, **world))


def simulate_world(task: str) -> Simulated:
    """A task without pictures."""
    if (simulate := find_family(task).simulate) is None:
        raise UserError(f"{task} cannot be played without pictures", "its world declares no simulation")
    return import_name(simulate)(task)


def restorable(env: Environment) -> Restorable:
    """An environment whose episodes can be drawn again and gone on with, or a line that says that it is none."""
    env.facts.snapshot_column()
    if not isinstance(env, Restorable):
        raise TypeError(f"{type(env).__name__} names a snapshot but has neither redraw nor resume")
    return env


def masked(env: Environment) -> Masked:
    """An environment that knows whose every pixel is, or a line that says that it does not."""
    if not isinstance(env, Masked):
        raise UserError(f"{env.facts.task} does not know whose its pixels are", "masks are drawn in the control suite")
    return env
