"""Returns: an agent, or a policy by name, plays episodes of the simulator that no data set has.

Seeds of evaluation episodes are shared by all methods, so that each meets the same starts, cameras and backgrounds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64

from otflam.core.config import from_json
from otflam.core.errors import UserError
from otflam.core.pool import run_jobs
from otflam.envs.experts import POLICIES, make_policy
from otflam.envs.rollout import Policy, episode_seed, rollout, state_return
from otflam.envs.simulation import Simulation
from otflam.envs.suite import ControlEnv
from otflam.envs.world import World
from otflam.evaluate.stats import interquartile_mean
from otflam.policy.agent import Agent, load_agent

VERSION = 1
EVALUATION, VALIDATION = 1000, 2000
"""Added to a seed for the episodes that returns are reported on, and for those on which anything may be chosen."""


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
    """One worker: a world and who plays in it."""

    def __init__(self, player: str | Path, world: World, seed: int, steps: int | None) -> None:
        torch.set_num_threads(1)  # batches of one frame gain nothing from more
        self.seed, self.steps = seed, steps
        if player in POLICIES:  # they look at states: nothing has to be drawn
            simulation = Simulation(world.task)
            self.play = partial(state_return, simulation, make_policy(str(player), simulation))
        else:
            env = ControlEnv(world)
            self.play = partial(drawn_return, env, load_agent_for(Path(player), env))

    def __call__(self, index: int, tick: Callable[[], None]) -> float:
        return self.play(episode_seed(self.seed, index), self.steps, tick)


def drawn_return(env: ControlEnv, policy: Policy, seed: int, steps: int | None, on_step: Callable[[], None]) -> float:
    return float(rollout(env, policy, seed, steps=steps, on_step=on_step).rewards.sum(dtype=np.float64))


def load_agent_for(folder: Path, env: ControlEnv) -> Agent:
    """A saved agent that fits a world."""
    agent = load_agent(folder)
    check_agent(agent, env.world)
    if agent.about["actions"] != env.simulation.action_size:
        raise UserError(
            f"the agent puts out {agent.about['actions']} numbers",
            f"{env.world.task} takes {env.simulation.action_size}",
        )
    return agent


def play(
    player: str | Path,
    world: World,
    seed: int,
    episodes: int,
    workers: int,
    steps: int | None = None,
    on_tick: Callable[[int], None] = lambda ticks: None,
) -> Float64[np.ndarray, " n"]:
    """Returns of whole episodes, in parallel."""
    if episodes < 1:
        raise UserError(f"--episodes {episodes}", "ask for at least one")
    found = dict(run_jobs(Player, (player, world, seed, steps), range(episodes), workers, on_tick))
    return np.array([found[index] for index in range(episodes)])


def return_metrics(returns: Float64[np.ndarray, " n"]) -> dict[str, float | list[float]]:
    """What a record says of the episodes of one seed."""
    return {
        "return_mean": float(returns.mean()),
        "return_std": float(returns.std(ddof=1)) if len(returns) > 1 else 0.0,
        "return_iqm": interquartile_mean(returns),
        "returns": [round(float(value), 3) for value in returns],
    }
