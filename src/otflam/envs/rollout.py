"""The only place that steps an environment: collecting data and evaluating a policy are the same rollout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32, Float64, UInt8

from otflam.core import SILENT, Episode, Progress
from otflam.envs.simulation import Simulation
from otflam.envs.suite import ControlEnv


@dataclass(frozen=True)
class Observation:
    """What a policy may look at; `step` 0 tells it that an episode begins."""

    frame: UInt8[np.ndarray, "h w 3"] | None
    """None where nothing is drawn."""
    state: Float32[np.ndarray, " s"]
    step: int


@runtime_checkable
class Policy(Protocol):
    """Anything that chooses an action."""

    def act(self, observation: Observation, rng: np.random.Generator) -> Float32[np.ndarray, " a"]: ...


@runtime_checkable
class SeeingPolicy(Protocol):
    """A policy that looks at the latest frames only, of many episodes at once."""

    @property
    def seen(self) -> int:
        """How many frames it looks at."""
        ...

    def decide(self, stacks: UInt8[np.ndarray, "n k h w 3"]) -> Float32[np.ndarray, "n a"]:
        """Actions for stacks of frames, oldest first."""
        ...


def episode_seed(seed: int, index: int) -> int:
    """The seed of one episode: independent streams for every (seed, index)."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])


def policy_rng(seed: int) -> np.random.Generator:
    """What a policy may be random with in the episode of a seed."""
    return np.random.default_rng([seed, 1])


def play_episode(
    env: ControlEnv,
    policy: Policy,
    seed: int,
    *,
    steps: int | None = None,
    noise: float = 0.0,
    progress: Progress = SILENT,
) -> Episode:
    """Play the episode of a seed, for at most `steps` steps; `noise` is the deviation of Gaussian action noise."""
    rng = policy_rng(seed)
    low, high = env.simulation.low, env.simulation.high
    frame, info = env.reset(seed=seed)
    rows: list[tuple] = []
    for step in range(steps or env.simulation.steps):
        action = np.asarray(policy.act(Observation(frame, info["state"], step), rng), np.float32)
        if noise:
            action = action + noise * rng.standard_normal(action.shape, np.float32)
        action = np.clip(action, low, high)  # keeps a NaN, which the simulation refuses with a clear message
        after, reward, _, last, info_after = env.step(action)
        rows.append((frame, action, np.float32(reward), info["state"], info["physics"], info["distractors"]))
        frame, info = after, info_after
        progress.advance()
        if last:
            break
    return Episode(*(np.stack(column) for column in zip(*rows, strict=True)))


def play_together(
    envs: Sequence[ControlEnv],
    policy: SeeingPolicy,
    stacks: UInt8[np.ndarray, "n k h w 3"],
    steps: int,
    progress: Progress = SILENT,
) -> Float64[np.ndarray, " n"]:
    """Returns of episodes that have begun with these frames, played side by side: one batch a step for the policy."""
    totals = np.zeros(len(envs))
    for _ in range(steps):
        actions, ended, frames = policy.decide(stacks), False, []
        for place, (env, action) in enumerate(zip(envs, actions, strict=True)):
            frame, reward, _, ended, _ = env.step(action)
            totals[place] += reward
            frames.append(frame)
            progress.advance()
        if ended:  # suite tasks end only by their time limit, so that all end together
            break
        stacks = np.concatenate([stacks[:, 1:], np.stack(frames)[:, None]], 1)
    return totals


def state_return(
    simulation: Simulation, policy: Policy, seed: int, steps: int | None = None, progress: Progress = SILENT
) -> float:
    """The return of a policy that looks only at states, in the episode of a seed, without drawing anything."""
    return return_from(simulation, policy, simulation.begin(seed), policy_rng(seed), steps, progress)


def return_from(
    simulation: Simulation,
    policy: Policy,
    state: Float32[np.ndarray, " s"],
    rng: np.random.Generator,
    steps: int | None = None,
    progress: Progress = SILENT,
) -> float:
    """The same from the state that a simulation is in."""
    total = 0.0
    for step in range(steps or simulation.steps):
        action = np.clip(policy.act(Observation(None, state, step), rng), simulation.low, simulation.high)
        state, reward, last = simulation.step(action)
        total += reward
        progress.advance()
        if last:
            break
    return total
