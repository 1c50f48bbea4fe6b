"""Returns of short stretches that begin in recorded states of held-out episodes: a measure that falls off no cliff.

A whole episode is lost when an agent falls over once. From the states of an expert's episodes every agent begins well,
and what it earns until a stretch ends tells how well it goes on. Momentum pays for a while, so that doing nothing is
the floor and the expert without noise is the ceiling, both from the same states.

Axes: e episodes, s stretches of each.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64

from otflam.core import SILENT, Hardware, Progress, UserError, run_jobs, stable_hash
from otflam.data import Column, Store, derive, recorded_collection
from otflam.envs import (
    Policy,
    Simulated,
    make_policy,
    play_together,
    policy_names,
    policy_rng,
    restorable,
    return_from,
    simulate_world,
)
from otflam.evaluate.control import AUTO, TOGETHER, worlds_and_agent

STARTS_VERSION = 1
FIRST = 10
"""Where in an episode the first begins; the next begins where it ends."""


@dataclass(frozen=True)
class Stretches:
    """Where to begin: some episodes of a data set, at the same times in each."""

    data: Path
    episodes: tuple[int, ...]
    steps: int
    """Length of a stretch: at 50, half a second of a run."""

    def times(self, store: Store) -> range:
        """When stretches begin: as many as fit into the shortest episode, one after the other."""
        shortest = int(store.lengths[list(self.episodes)].min())
        found = range(FIRST, shortest - self.steps + 1, self.steps)
        if not found:
            raise UserError(
                f"{self.data} has episodes of {shortest} steps", f"returns from starts need {FIRST + self.steps}"
            )
        return found


class Starter:
    """One worker that plays all stretches of a few episodes."""

    def __init__(self, player: str | Path, stretches: Stretches, hardware: Hardware) -> None:
        torch.set_num_threads(1)
        self.player, self.stretches, self.store = player, stretches, Store(stretches.data)
        self.hardware = hardware
        self.world = recorded_collection(self.store).world

    def __call__(self, group: int, progress: Progress) -> list[list[float]]:
        """What was earned in each stretch of each episode."""
        episodes = self.stretches.episodes[group * TOGETHER : (group + 1) * TOGETHER]
        times = self.stretches.times(self.store)
        if self.player in policy_names(self.world.task):
            simulation = simulate_world(self.world.task)
            policy = make_policy(str(self.player), simulation)
            return [[self._stretch(simulation, policy, index, time, progress) for time in times] for index in episodes]
        earned = np.zeros((len(episodes), len(times)))
        with worlds_and_agent(Path(self.player), self.world, len(episodes), self.hardware) as (envs, agent):
            for place, time in enumerate(times):
                for env, index in zip(envs, episodes, strict=True):
                    snapshot = self.store.episode(index, env.facts.snapshot_column())[time]
                    restorable(env).resume(self.store.episodes[index]["seed"], time, snapshot)
                recent = [self.store.episode(i, "frames")[time + 1 - agent.seen : time + 1] for i in episodes]
                earned[:, place] = play_together(envs, agent, np.stack(recent), self.stretches.steps, progress)
        return earned.tolist()

    def _stretch(self, simulation: Simulated, policy: Policy, index: int, time: int, progress: Progress) -> float:
        """One stretch of a policy that looks at states."""
        seed = self.store.episodes[index]["seed"]
        simulation.begin(seed)
        state = simulation.resume(self.store.episode(index, simulation.facts.snapshot_column())[time])
        return return_from(simulation, policy, state, policy_rng(seed), self.stretches.steps, progress)


def start_returns(
    player: str | Path, stretches: Stretches, workers: int = 1, progress: Progress = SILENT, hardware: Hardware = AUTO
) -> Float64[np.ndarray, "e s"]:
    """What a player earns in each stretch of each episode."""
    groups = range(-(-len(stretches.episodes) // TOGETHER))
    found = dict(run_jobs(Starter, (player, stretches, hardware), groups, workers, progress))
    return np.array([row for group in groups for row in found[group]])


def start_metrics(
    player: str | Path, stretches: Stretches, hardware: Hardware = AUTO
) -> dict[str, float | list[float]]:
    """What a record says: the share of the way from doing nothing to the expert, and all it is made of."""
    earned = start_returns(player, stretches, hardware=hardware).sum(1)
    floor, ceiling = (bound_returns(name, stretches) for name in ("zero", "expert"))
    return {
        "start_return_share": start_share(earned, floor, ceiling),
        **{
            name: np.round(values, 3).tolist()
            for name, values in {"start_returns": earned, "start_zero": floor, "start_expert": ceiling}.items()
        },
    }


def bound_returns(name: str, stretches: Stretches) -> Float64[np.ndarray, " e"]:
    """What floor or ceiling earn in each episode, found out once for a data set.

    It is kept as a derived column: a row holds what the stretch earns that begins there.
    """
    store, column = Store(stretches.data), f"start_{name}"
    times = stretches.times(store)

    def compute(index: int) -> np.ndarray:
        rows = np.zeros(int(store.lengths[index]))
        rows[times] = start_returns(name, dataclasses.replace(stretches, episodes=(index,)))[0]
        return rows

    key = stable_hash([column, STARTS_VERSION, stretches.steps, list(times)])
    found = derive(store, column, key, Column("float64", ()), compute, episodes=stretches.episodes)
    places = found.places
    return np.array([found.episode(places[index], column).sum() for index in stretches.episodes])


def start_share(
    earned: Float64[np.ndarray, " e"], floor: Float64[np.ndarray, " e"], ceiling: Float64[np.ndarray, " e"]
) -> float:
    """How far what was earned lies from the floor to the ceiling, over all episodes together."""
    return float((earned - floor).sum() / (ceiling - floor).sum())
