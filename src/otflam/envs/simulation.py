"""One dm_control task: physics, states and rewards, no pictures."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import mujoco
import numpy as np
from dm_control import suite
from dm_control.rl import control
from jaxtyping import Float32, Float64

from otflam.core import UserError, delay_interrupts, require_name
from otflam.envs.environment import Actions, Facts

TASKS: tuple[str, ...] = tuple(f"{domain}-{task}" for domain, task in suite.ALL_TASKS)

PHYSICS = "physics"
"""The column that holds the simulator's full state, from which an episode can be drawn again."""
LONGEST = 1000
"""Steps of an episode in tasks without a time limit of their own (lqr)."""

# dm_control's own model files use a compiler attribute that MuJoCo announces as deprecated at every load.
logging.getLogger("absl").addFilter(lambda record: "settotalmass" not in record.getMessage())


def episode_streams(seed: int) -> tuple[np.random.SeedSequence, ...]:
    """Independent sources of randomness for one episode: task, camera, colour, background, rival."""
    return tuple(np.random.SeedSequence(seed).spawn(5))


class Simulation:
    """Steps a task; seeded, and restorable to any recorded physics state."""

    def __init__(self, task: str) -> None:
        require_name("task", task, TASKS)
        self.task, (self.domain, _, name) = task, task.partition("-")
        with delay_interrupts():  # MuJoCo warns while it loads, through a callback in Python
            self._env: control.Environment = suite.load(self.domain, name, task_kwargs={"random": 0})
        self.physics = self._env.physics
        spec = self._env.action_spec()
        self.low, self.high = spec.minimum.astype(np.float32), spec.maximum.astype(np.float32)
        limit = self._env._step_limit
        self.steps = int(limit) if limit < LONGEST else LONGEST
        self.state_size = len(self.reset(0))
        self.action_size = len(self.low)
        self.facts = Facts(task, Actions(self.low, self.high), self.steps, self.state_size, snapshot=PHYSICS)

    def begin(self, seed: int) -> Float32[np.ndarray, " s"]:
        """Start the episode that belongs to a seed, as the environments and data sets count them."""
        return self.reset(episode_streams(seed)[0].generate_state(4).tolist())

    def reset(self, seed: int | Sequence[int]) -> Float32[np.ndarray, " s"]:
        """Seed the task itself, start an episode and return its first state."""
        self._env.task.random.seed(np.random.SeedSequence(seed).generate_state(4))
        return _flatten(self._env.reset().observation)

    def step(self, action: np.ndarray) -> tuple[Float32[np.ndarray, " s"], float, bool]:
        """Execute an action; return the next state, the reward and whether the time limit was reached."""
        if action.shape != self.low.shape:
            raise UserError(
                f"an action of shape {list(action.shape)} for {self.task}", f"it takes {self.action_size} numbers"
            )
        if not np.isfinite(action).all():
            raise UserError(f"non-finite action {action.tolist()} for {self.task}", "check the policy that chose it")
        after = self._env.step(np.clip(action, self.low, self.high))
        return _flatten(after.observation), float(after.reward or 0.0), after.last()

    def restore(self, physics: Float64[np.ndarray, " p"]) -> None:
        """Put the bodies where they were recorded; the episode must have been reset with the same seed before."""
        self.physics.set_state(physics)
        mujoco.mj_fwdPosition(self.physics.model.ptr, self.physics.data.ptr)

    def resume(self, physics: Float64[np.ndarray, " p"]) -> Float32[np.ndarray, " s"]:
        """The same, ready to be stepped on; returns the state that was seen there."""
        self.physics.set_state(physics)
        self.physics.forward()  # a step begins with what the last one computed: velocities and contacts too
        return _flatten(self._env.task.get_observation(self.physics))


def _flatten(observation: dict[str, np.ndarray]) -> Float32[np.ndarray, " s"]:
    """All observations in alphabetical order of their names, as published PPO experts expect them."""
    return np.concatenate([np.ravel(observation[name]) for name in sorted(observation)]).astype(np.float32)
