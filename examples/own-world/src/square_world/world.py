"""A square on a grid that is moved by one of five actions; an episode ends when it is home."""

from typing import Any

import numpy as np

from otflam import Actions, Column, Facts, World

MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])
"""Stay, up, down, left, right."""
CELLS, HOME = 8, np.array([4, 4])


class SquareWorld:
    def __init__(self, world: World) -> None:
        self.size = world.size
        self.facts = Facts(
            task=world.task,
            actions=Actions.discrete(len(MOVES)),
            steps=12,
            state_size=2,
            frame=(world.size, world.size, 3),
            columns={"home": Column("bool", ())},
            fps=10,
        )

    def reset(self, *, seed: int) -> tuple[np.ndarray, dict[str, Any]]:
        self.place, self.time = np.random.default_rng(seed).integers(CELLS, size=2), 0
        return self.look()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.place, self.time = np.clip(self.place + MOVES[action], 0, CELLS - 1), self.time + 1
        frame, info = self.look()
        return frame, float(info["home"]), info["home"], self.time >= self.facts.steps, info

    def look(self) -> tuple[np.ndarray, dict[str, Any]]:
        frame = np.full((CELLS, CELLS, 3), 30, np.uint8)
        frame[tuple(HOME)] = 90
        frame[tuple(self.place)] = (250, 120, 20)
        frame = frame.repeat(self.size // CELLS, 0).repeat(self.size // CELLS, 1)
        return frame, {"state": self.place.astype(np.float32), "home": bool((self.place == HOME).all())}

    def close(self) -> None:
        pass


class Expert:
    """Goes home, rows first."""

    def act(self, observation: Any, rng: np.random.Generator) -> np.ndarray:
        down, right = np.sign(HOME - observation.state)
        wanted = (down, 0) if down else (0, right)
        return np.flatnonzero((wanted == MOVES).all(1)).astype(np.float32)


def make_expert(facts: Facts, file: str | None) -> Expert:
    return Expert()


def tasks_with_expert() -> tuple[str, ...]:
    return ("square-home",)
