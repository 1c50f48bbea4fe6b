"""Returns: an agent, or a policy by name, plays in the simulator: episodes that no data set has, or short stretches.

Seeds of evaluation episodes are shared by all methods, so that each meets the same starts, cameras and backgrounds.

A whole episode is lost when an agent falls over once. Stretches begin in recorded states of an expert's held-out
episodes: there every agent begins well, and what it earns until a stretch ends tells how well it goes on. Momentum pays
for a while, so that doing nothing is the floor and the expert without noise is the ceiling, both from the same states.

Axes: e episodes, s stretches of each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64

from otflam.core import (
    SILENT,
    Failure,
    Hardware,
    Launcher,
    Progress,
    UserError,
    device_of,
    from_json,
    run_jobs,
    stable_hash,
)
from otflam.data import Column, Store, derive, recorded_collection
from otflam.envs import (
    Environment,
    Policy,
    Simulated,
    World,
    episode_seed,
    make_policy,
    open_world,
    play_together,
    policy_names,
    policy_returns,
    policy_rng,
    restorable,
    return_from,
    simulate_world,
)
from otflam.evaluate.stats import interquartile_mean
from otflam.policy import Agent, load_agent

CONTROL_VERSION = 2
DRAWN_VERSION = 1
"""How one of several choices is drawn by an agent."""
TOGETHER = 5
"""Episodes that are played side by side, whatever the number of workers: batches of frames decide the last bits."""
AUTO = Hardware()
"""A GPU if there is one."""
EVALUATION, VALIDATION = 1000, 2000
"""Added to a seed for the episodes that returns are reported on, and for those on which anything may be chosen."""

_open_worlds: dict[World, list[Environment]] = {}
"""Opening one takes as long as some hundred steps in it; those of one world at a time are kept."""
STARTS_VERSION = 1
FIRST_START = 10
"""Where in an episode the first begins; the next begins where it ends."""


def check_agent(agent: Agent, world: World) -> None:
    """Refuse an agent that was made for something else."""
    trained = agent.about["world"]
    if trained is not None and trained["task"] != world.task:
        raise UserError(f"the agent was trained for {trained['task']}", f"it cannot play {world.task}")


def agent_world(agent: Agent) -> World:
    """The world an agent was trained in."""
    if agent.about["world"] is None:
        raise UserError("the agent was trained on imported videos", "say which world to play with --task")
    return from_json(World, agent.about["world"], "agent: world")


class Player:
    """One worker: worlds, and who plays in them."""

    def __init__(
        self, player: str | Path, world: World, seed: int, episodes: int, steps: int | None, hardware: Hardware
    ) -> None:
        torch.set_num_threads(1)  # batches of a few frames gain nothing from more
        self.player, self.world, self.seed, self.episodes, self.steps = player, world, seed, episodes, steps
        self.hardware = hardware

    def __call__(self, group: int, progress: Progress) -> list[float]:
        """Returns of one group of episodes, which are played side by side."""
        first = group * TOGETHER
        seeds = [episode_seed(self.seed, index) for index in range(first, min(first + TOGETHER, self.episodes))]
        if self.player in policy_names(self.world.task):
            return list(policy_returns(self.world, str(self.player), seeds, self.steps, progress))
        with worlds_and_agent(Path(self.player), self.world, len(seeds), self.hardware) as (envs, agent):
            frames = np.stack([env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)])
            stacks = frames[:, None].repeat(agent.seen, 1)  # before an episode its first frame is repeated
            steps, rngs = self.steps or envs[0].facts.steps, [policy_rng(seed) for seed in seeds]
            return play_together(envs, agent, stacks, steps, rngs, progress).tolist()


@contextmanager
def worlds_and_agent(
    folder: Path, world: World, count: int, hardware: Hardware
) -> Generator[tuple[list[Environment], Agent]]:
    """So many equal worlds, and a saved agent that fits them; the worlds stay open for who plays there next."""
    for other in set(_open_worlds) - {world}:
        close_worlds(other)
    envs = _open_worlds.setdefault(world, [])
    envs += [open_world(world) for _ in range(count - len(envs))]
    try:
        yield envs[:count], load_agent_for(folder, envs[0]).to(device_of(hardware))
    except BaseException:  # nobody knows what state they are in
        close_worlds(world)
        raise


def close_worlds(world: World) -> None:
    for env in _open_worlds.pop(world, []):
        env.close()


def load_agent_for(folder: Path, env: Environment) -> Agent:
    """A saved agent that fits a world."""
    agent, task, actions = load_agent(folder), env.facts.task, env.facts.actions
    check_agent(agent, World(task))
    if agent.choices != actions.choices:
        kinds = [f"one of {count} choices" if count else "continuous" for count in (agent.choices, actions.choices)]
        raise UserError(f"the actions of the agent are {kinds[0]}", f"those of {task} are {kinds[1]}")
    if agent.about["actions"] != actions.size:
        raise UserError(f"the agent puts out {agent.about['actions']} numbers", f"{task} takes {actions.size}")
    return agent


def play(
    player: str | Path,
    world: World,
    seed: int,
    episodes: int,
    jobs: Launcher | int,
    steps: int | None = None,
    progress: Progress = SILENT,
    hardware: Hardware = AUTO,
) -> Float64[np.ndarray, " n"]:
    """Returns of whole episodes, in so many processes or as jobs elsewhere."""
    if episodes < 1:
        raise UserError(f"--episodes {episodes}", "ask for at least one")
    groups = range(-(-episodes // TOGETHER))
    launcher = Launcher(jobs) if isinstance(jobs, int) else jobs
    found = dict(launcher.run(Player, (player, world, seed, episodes, steps, hardware), groups, progress))
    for problem in (each for each in found.values() if isinstance(each, Failure)):
        raise UserError(f"{player} could not play all episodes: {problem}", "run the same command again")
    return np.array([value for group in groups for value in found[group]])


def return_metrics(returns: Float64[np.ndarray, " n"]) -> dict[str, float | list[float]]:
    """What a record says of the episodes of one seed."""
    return {
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std(ddof=1)) if len(returns) > 1 else 0.0,
        "return_iqm": interquartile_mean(returns),
        "returns": [round(float(value), 3) for value in returns],
    }


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
        found = range(FIRST_START, shortest - self.steps + 1, self.steps)
        if not found:
            raise UserError(
                f"{self.data} has episodes of {shortest} steps", f"returns from starts need {FIRST_START + self.steps}"
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
                rngs = [policy_rng(self.store.episodes[index]["seed"]) for index in episodes]
                earned[:, place] = play_together(envs, agent, np.stack(recent), self.stretches.steps, rngs, progress)
        return earned.tolist()

    def _stretch(self, simulation: Simulated, policy: Policy, index: int, time: int, progress: Progress) -> float:
        """One stretch of a policy that looks at states."""
        seed = self.store.episodes[index]["seed"]
        simulation.begin(seed)
        state = simulation.resume(self.store.episode(index, simulation.facts.snapshot_column())[time])
        return return_from(simulation, policy, state, policy_rng(seed), self.stretches.steps, progress)


def start_returns(
    player: str | Path, stretches: Stretches, workers: int = 1, hardware: Hardware = AUTO
) -> Float64[np.ndarray, "e s"]:
    """What a player earns in each stretch of each episode."""
    groups = range(-(-len(stretches.episodes) // TOGETHER))
    found = dict(run_jobs(Starter, (player, stretches, hardware), groups, workers))
    return np.array([row for group in groups for row in found[group]])


def start_metrics(
    player: str | Path, stretches: Stretches, hardware: Hardware = AUTO
) -> dict[str, float | list[float]]:
    """What a record says: the share of the way from doing nothing to the expert, over all episodes, and its parts."""
    earned = start_returns(player, stretches, hardware=hardware).sum(1)
    floor, ceiling = (bound_returns(name, stretches) for name in ("zero", "expert"))
    return {
        "start_return_share": float((earned - floor).sum() / (ceiling - floor).sum()),
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
