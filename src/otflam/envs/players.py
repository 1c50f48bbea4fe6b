"""Who plays games: random actions that stick, a few rules, and trained experts that look at states.

Axes: s state, a actions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from otflam.core import UserError
from otflam.envs.environment import Facts
from otflam.envs.experts import Expert, load_expert
from otflam.envs.games import IN_WINDOW, KNOWN, NEAREST, OF_THING, OWN, PREFIX, WINDOW
from otflam.envs.procgen import ENEMY, GAMES, ITEM, PROJECTILE
from otflam.envs.rollout import Observation

STICK = 0.75
"""Probability that random play does what it did before: actions last four steps."""
JUMP = 0.8
"""Share of steps in which rules jump where one runs to the right."""
RIGHT, RIGHT_UP, FIRE = 7, 8, 9
SHARPER = 4.0
"""Experts play with their odds to this power: what still explores while it learns plays worse than it could."""
NEAR = 0.02
"""Directions that are shorter than this, in half pictures, are none."""


class Sticky:
    """Random actions, each done again with this probability."""

    def __init__(self, facts: Facts, file: str | None = None) -> None:
        self.actions, self._last = facts.actions, np.zeros(1, np.float32)

    def act(self, observation: Observation, rng: np.random.Generator) -> Float32[np.ndarray, " a"]:
        if observation.step == 0 or rng.random() >= STICK:
            self._last = self.actions.draw(rng)
        return self._last


class Scripted:
    """Rules: run to the right and jump where the picture scrolls, elsewhere go for things and shoot."""

    def __init__(self, facts: Facts, file: str | None = None) -> None:
        self.game = facts.task.removeprefix(PREFIX)

    def act(self, observation: Observation, rng: np.random.Generator) -> Float32[np.ndarray, " a"]:
        if GAMES[self.game].scrolls:
            choice = RIGHT_UP if rng.random() < JUMP else RIGHT
        elif FIRE in GAMES[self.game].distinct and rng.random() < 0.5:
            choice = FIRE
        else:
            choice = towards(self.wanted(observation.state))
        return np.array([choice], np.float32)

    def wanted(self, state: Float32[np.ndarray, " s"]) -> Float32[np.ndarray, "2"]:
        """The direction to go in: to what can be had, and away from what is dangerous."""
        things = state[OWN : OWN + NEAREST * OF_THING].reshape(NEAREST, OF_THING)
        things = things[things[:, 0] > 0]
        kinds = KNOWN[things[:, 7:].argmax(1)] if len(things) else np.zeros(0, int)
        where, size = things[:, 1:3], things[:, 5]
        if self.game == "starpilot":  # level with the first enemy, without meeting a bullet
            foes = where[kinds == ENEMY]
            return np.array([0, foes[0, 1]], np.float32) if len(foes) else np.zeros(2, np.float32)
        if self.game == "bigfish":
            danger, prey = where[size > 0], where[size <= 0]
        elif self.game == "dodgeball":
            danger, prey = where[kinds == PROJECTILE], where[kinds == ENEMY]
        else:
            danger, prey = where[kinds == ENEMY], self.items(state)
        close = danger[(np.abs(danger) < 0.35).all(1)] if len(danger) else danger
        if len(close):
            return -close[0]
        return prey[np.abs(prey).sum(1).argmin()] if len(prey) else np.zeros(2, np.float32)

    def items(self, state: Float32[np.ndarray, " s"]) -> Float32[np.ndarray, "n 2"]:
        """Where items stand in the cells around the agent."""
        windows = state[OWN + NEAREST * OF_THING :].reshape(-1, WINDOW, WINDOW)
        rows, columns = np.nonzero(windows[IN_WINDOW.index(ITEM)])
        return np.stack([columns, rows], 1).astype(np.float32) - WINDOW // 2


def towards(direction: Float32[np.ndarray, "2"]) -> int:
    """The move in a direction: one of nine."""
    x, y = (0 if abs(part) < NEAR else int(np.sign(part)) for part in direction)
    return 3 * (x + 1) + y + 1


@dataclass(frozen=True)
class GameExpert:
    """A network on states that gives the odds of every choice."""

    network: Expert

    @property
    def digest(self) -> str | None:
        return self.network.digest

    def act(self, observation: Observation, rng: np.random.Generator) -> Float32[np.ndarray, " a"]:
        """One of the choices, by their sharpened odds: who always takes the best gets stuck."""
        scores = SHARPER * self.network.action(observation.state).astype(np.float64)
        return np.array([(scores + rng.gumbel(size=len(scores))).argmax()], np.float32)


def game_expert(facts: Facts, file: str | None) -> GameExpert:
    """The expert of a game, if it is for as many states and choices as the game has."""
    loaded = load_expert(facts.task, file)
    sizes = len(loaded.mean), len(loaded.layers[-1][1])
    if sizes != (facts.state_size, facts.actions.choices):
        raise UserError(
            f"the expert {file or facts.task} is for {sizes[0]} states and {sizes[1]} actions",
            f"{facts.task} has {facts.state_size} and {facts.actions.choices}: use the expert of this game",
        )
    return GameExpert(loaded)
