"""Returns: an agent, or a policy by name, plays episodes of the simulator that no data set has.

Seeds of evaluation episodes are shared by all methods, so that each meets the same starts, cameras and backgrounds.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64

from otflam.core import SILENT, Hardware, Progress, UserError, device_of, from_json, run_jobs
from otflam.envs import Environment, World, episode_seed, open_world, play_together, policy_names, policy_returns
from otflam.evaluate.stats import interquartile_mean
from otflam.policy import Agent, load_agent

CONTROL_VERSION = 2
TOGETHER = 5
"""Episodes that are played side by side, whatever the number of workers: batches of frames decide the last bits."""
AUTO = Hardware()
"""A GPU if there is one."""
EVALUATION, VALIDATION = 1000, 2000
"""Added to a seed for the episodes that returns are reported on, and for those on which anything may be chosen."""

_open_worlds: dict[World, list[Environment]] = {}
"""Opening one takes as long as some hundred steps in it; those of one world at a time are kept."""


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
            return play_together(envs, agent, stacks, self.steps or envs[0].facts.steps, progress).tolist()


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
    workers: int,
    steps: int | None = None,
    progress: Progress = SILENT,
    hardware: Hardware = AUTO,
) -> Float64[np.ndarray, " n"]:
    """Returns of whole episodes, in parallel."""
    if episodes < 1:
        raise UserError(f"--episodes {episodes}", "ask for at least one")
    groups = range(-(-episodes // TOGETHER))
    found = dict(run_jobs(Player, (player, world, seed, episodes, steps, hardware), groups, workers, progress))
    return np.array([value for group in groups for value in found[group]])


def return_metrics(returns: Float64[np.ndarray, " n"]) -> dict[str, float | list[float]]:
    """What a record says of the episodes of one seed."""
    return {
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std(ddof=1)) if len(returns) > 1 else 0.0,
        "return_iqm": interquartile_mean(returns),
        "returns": [round(float(value), 3) for value in returns],
    }
