"""Policies by name, in any world: random play, doing nothing, what its family has beside, and mixtures of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import closing

import numpy as np
from jaxtyping import Float32, Float64

from otflam.core import SILENT, Progress, UserError, import_name, require_name, unknown_name
from otflam.envs.environment import Actions, Environment, Simulated, open_world, simulate_world
from otflam.envs.families import EXPERT, RANDOM, ZERO, can_simulate, find_family, policy_names
from otflam.envs.rollout import Observation, Policy, episode_seed, play_episode, state_return
from otflam.envs.world import World


class Random:
    """Uniform actions."""

    def __init__(self, low: Float32[np.ndarray, " a"], high: Float32[np.ndarray, " a"], choices: int = 0) -> None:
        self.actions = Actions(low, high, choices)

    def act(self, observation: Observation, rng: np.random.Generator) -> Float32[np.ndarray, " a"]:
        return self.actions.draw(rng)


class Zero:
    """No action at all."""

    def __init__(self, size: int, rest: int = 0) -> None:
        self.size, self.rest = size, rest

    def act(self, observation: Observation, rng: np.random.Generator) -> Float32[np.ndarray, " a"]:
        return np.full(self.size, self.rest, np.float32)


def make_policy(name: str, played: Environment | Simulated, expert: str | None = None) -> Policy:
    """A policy by name for what it is to play in; `expert` is a file to use instead of the packaged one."""
    facts, actions = played.facts, played.facts.actions
    require_name("policy", name, policy_names(facts.task))
    if name == RANDOM:
        return Random(actions.low, actions.high, actions.choices)
    if name == ZERO:
        return Zero(actions.size, actions.rest)
    return import_name(find_family(facts.task).policies[name])(facts, expert)


def parse_mix(text: str, known: Collection[str] = (EXPERT, RANDOM, ZERO)) -> dict[str, float]:
    """Read shares such as `expert=0.8,random=0.2`; they must add up to 1."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        if name not in known:
            raise unknown_name("policy in --mix", name, known)
        try:
            shares[name] = float(share or 1)
        except ValueError:
            raise UserError(f"share {share!r} in --mix", "write e.g. expert=0.8,random=0.2") from None
    if not all(share >= 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-6:
        raise UserError(f"--mix {text}", "shares must not be negative and must add up to 1")
    return shares


def policy_returns(
    world: World,
    name: str,
    seeds: Iterable[int],
    steps: int | None = None,
    progress: Progress = SILENT,
    expert: str | None = None,
) -> Iterator[float]:
    """Returns of a policy by name in the episodes of these seeds; nothing is drawn where that can be avoided."""
    if can_simulate(world.task):
        simulation = simulate_world(world.task)
        policy = make_policy(name, simulation, expert)
        for seed in seeds:
            yield state_return(simulation, policy, seed, steps, progress)
        return
    with closing(open_world(world)) as env:
        policy = make_policy(name, env, expert)
        for seed in seeds:
            played = play_episode(env, policy, seed, steps=steps, progress=progress)
            yield float(played.rewards.sum(dtype=np.float64))


def expert_returns(
    task: str, policy: str, expert: str | None, episodes: int, seed: int, progress: Progress = SILENT
) -> Float64[np.ndarray, " n"]:
    """Returns of a policy by name over full episodes."""
    if episodes < 1:
        raise UserError(f"--episodes {episodes}", "ask for at least one")
    seeds, returns = [episode_seed(seed, index) for index in range(episodes)], []
    progress.start(0, episodes)
    for earned in policy_returns(World(task), policy, seeds, expert=expert):
        returns.append(earned)
        progress.advance()
    return np.array(returns)
