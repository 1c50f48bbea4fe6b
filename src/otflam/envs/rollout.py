"""The only place that steps an environment: collecting data and evaluating a policy are the same rollout.

And policies by name, in any world: random play, doing nothing, what its family has beside, and mixtures of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32, Float64, UInt8

from otflam.core import SILENT, Episode, Progress, UserError, import_name, require_name, unknown_name
from otflam.envs.environment import Actions, Environment, Simulated, open_world, simulate_world
from otflam.envs.world import EXPERT, RANDOM, ZERO, World, can_simulate, find_family, policy_names

NO_STATE = np.zeros(0, np.float32)
STATE = {"states": "state"}
"""Where `info` calls one row of a column otherwise."""


@dataclass(frozen=True)
class Observation:
    """What a policy may look at; `step` 0 tells it that an episode begins."""

    frame: UInt8[np.ndarray, "h w 3"] | None
    """None where nothing is drawn."""
    state: Float32[np.ndarray, " s"]
    """Empty where a world tells none."""
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

    def decide(
        self, stacks: UInt8[np.ndarray, "n k h w 3"], chances: Float64[np.ndarray, " n"]
    ) -> Float32[np.ndarray, "n a"]:
        """Actions for stacks of frames, oldest first; by `chances`, from 0 to 1, one of several choices is drawn."""
        ...


def episode_seed(seed: int, index: int) -> int:
    """The seed of one episode: independent streams for every (seed, index)."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])


def policy_rng(seed: int) -> np.random.Generator:
    """What a policy may be random with in the episode of a seed."""
    return np.random.default_rng([seed, 1])


def play_episode(
    env: Environment,
    policy: Policy,
    seed: int,
    *,
    steps: int | None = None,
    noise: float = 0.0,
    progress: Progress = SILENT,
) -> Episode:
    """Play the episode of a seed, for at most `steps` steps; `noise` says how much actions are disturbed."""
    rng, facts = policy_rng(seed), env.facts
    actions, own = facts.actions, facts.own_columns()
    frame, info = env.reset(seed=seed)
    rows: list[tuple] = []
    for step in range(steps or facts.steps):
        action = np.asarray(policy.act(Observation(frame, info.get("state", NO_STATE), step), rng), np.float32)
        if noise:
            action = actions.disturb(action, noise, rng)
        action = actions.bound(action)
        after, reward, terminated, truncated, info_after = env.step(actions.command(action))
        kept = (np.asarray(info[STATE.get(name, name)], column.dtype) for name, column in own.items())
        rows.append((frame, action, np.float32(reward), *kept))
        frame, info = after, info_after
        progress.advance()
        if terminated or truncated:
            break
    frames, executed, rewards, *more = (np.stack(column) for column in zip(*rows, strict=True))
    return Episode(frames, executed, rewards, dict(zip(own, more, strict=True)))


def play_together(
    envs: Sequence[Environment],
    policy: SeeingPolicy,
    stacks: UInt8[np.ndarray, "n k h w 3"],
    steps: int,
    rngs: Sequence[np.random.Generator],
    progress: Progress = SILENT,
) -> Float64[np.ndarray, " n"]:
    """Returns of episodes that have begun with these frames, played side by side: one batch a step for the policy.

    What a policy draws in an episode is of the episode's own generator, whoever plays beside it.
    """
    totals, playing, kind = np.zeros(len(envs)), dict(enumerate(envs)), envs[0].facts.actions
    for _ in range(steps):
        chances = np.array([rng.random() for rng in rngs])
        actions = policy.decide(stacks, chances)
        frames = stacks[:, -1].copy()  # who has ended stays in the batch: same bits
        for place, env in list(playing.items()):
            command = kind.command(kind.bound(actions[place]))
            frames[place], reward, terminated, truncated, _ = env.step(command)
            totals[place] += reward
            progress.advance()
            if terminated or truncated:
                del playing[place]
        if not playing:
            break
        stacks = np.concatenate([stacks[:, 1:], frames[:, None]], 1)
    return totals


def return_from(
    simulation: Simulated,
    policy: Policy,
    state: Float32[np.ndarray, " s"],
    rng: np.random.Generator,
    steps: int | None = None,
    progress: Progress = SILENT,
) -> float:
    """The return of a policy that looks only at states, from the one that a simulation is in; nothing is drawn."""
    total, facts = 0.0, simulation.facts
    for step in range(steps or facts.steps):
        action = facts.actions.bound(policy.act(Observation(None, state, step), rng))
        state, reward, ended = simulation.step(facts.actions.command(action))
        total += reward
        progress.advance()
        if ended:
            break
    return total


class Random:
    """Uniform actions."""

    def __init__(self, actions: Actions) -> None:
        self.actions = actions

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
        return Random(actions)
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
            yield return_from(simulation, policy, simulation.begin(seed), policy_rng(seed), steps, progress)
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
    # Levels of games that no expert was trained on; elsewhere what is seen does not matter here.
    for earned in policy_returns(World(task, split="validation"), policy, seeds, expert=expert):
        returns.append(earned)
        progress.advance()
    return np.array(returns)
