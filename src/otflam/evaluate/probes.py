"""Reading actions from anything, linearly and with a small network; their innovation; and what could be read at best.

An expert's action follows from its state, so that most of an action can be read from anything that knows the state. The
noise cannot. It is known exactly: the policy's own choice follows from the recorded state, the noise from the episode's
seed. Actions are clipped to their bounds, which makes even the executed noise partly a matter of state; so the
innovation is the executed action minus its expectation given the policy's choice, E[clip(choice + σε)].

Ceilings are read from the true states before and after an action, and from frames with all labels: without them nobody
can tell whether an R² of 0.1 is little or all there is.

Axes: n transitions, t time steps, a actions.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import norm

from otflam.core import Hardware, TrainConfig, UserError, device_of, read_metrics, stable_hash
from otflam.data import Store, derive, recorded_collection
from otflam.envs import (
    RIVAL_ACTIONS,
    RIVAL_STATES,
    Actions,
    Observation,
    Policy,
    can_simulate,
    make_policy,
    policy_rng,
    rival_policy,
    rival_rng,
    simulate_world,
)
from otflam.evaluate.alignment import ByEpisode, Table, episodes_of, r2_score, ridge_guess
from otflam.evaluate.stats import r2_interval
from otflam.policy import (
    ACTIONS,
    SEEN_AHEAD,
    ActionDecoderConfig,
    ActionSpace,
    ActorConfig,
    Episodes,
    LatentSpace,
    Pairs,
    PolicyConfig,
    Splits,
    Target,
    guess_from_frames,
    held_out_error,
    seen_frames,
    stack_offsets,
    train_clone,
    train_decoder,
)

INNOVATION_VERSION = 1
INNOVATION = "innovation"
CEILINGS_VERSION = 1
Side = Literal["agent", "rival"]
"""Whose action?"""


def read_actions(
    store: Store, columns: Mapping[str, ByEpisode], labelled: Episodes, probes: Episodes, last: int, train: TrainConfig
) -> dict[str, float | list[float]]:
    """How well actions are read from latents and from their controls, each a column; `last` is the latents' stride."""
    space = ActionSpace.of(store)
    actions, truths = (episodes_of(store, "actions", part, last) for part in (labelled, probes))
    if count := space.discrete:  # read as a number for each choice, 1 for the one that was made
        actions, truths = ([np.eye(count, dtype=np.float32)[r[:, 0].astype(int)] for r in t] for t in (actions, truths))
        space = ActionSpace.between(np.zeros(count), np.ones(count))
    truth, edges = np.concatenate(truths), np.cumsum([len(part) for part in truths])[:-1]
    rows = {name: episodes_of(column, name, labelled, last) for name, column in columns.items()}
    tests = {name: np.concatenate(episodes_of(column, name, probes, last)) for name, column in columns.items()}
    rows["both"] = [np.concatenate(pair, 1) for pair in zip(rows["latents"], rows["state"], strict=True)]
    tests["both"] = np.concatenate([tests["latents"], tests["state"]], 1)
    linear = {name: ridge_guess(rows[name], actions, tests[name]) for name in rows}
    scores = {name: r2_score(guess, truth) for name, guess in linear.items()}
    errors = np.square(linear["latents"] - truth).mean(1)
    found: dict[str, float | list[float]] = {
        **{f"{name}_r2": score for name, score in scores.items() if name != "latents"},
        "action_r2": scores["latents"],
        "action_r2_gain": scores["latents"] - scores["state"],
        "action_mse": float(errors.mean()),
        # Episodes are what is independent here: intervals are over them.
        "episode_mse": [float(part.mean()) for part in np.split(errors, edges) if len(part)],
    }
    for name, called in {"latents": "mlp", "state": "mlp_state"}.items():
        guess, steps, curve = mlp_guess(space, rows[name], actions, tests[name], truth, train)
        found[f"{called}_r2"] = r2_score(guess, truth)
        if name == "latents":
            found |= {"mlp_mse": float(np.square(guess - truth).mean()), "curve_steps": steps, "curve_mse": curve}
    return found


def mlp_guess(
    space: ActionSpace | LatentSpace,
    inputs: list[Table],
    actions: list[Table],
    unseen: Table,
    truth: Table,
    train: TrainConfig,
) -> tuple[Table, list[float], list[float]]:
    """Its guesses for unseen rows, and the steps and values of its held-out error."""
    table = np.concatenate(inputs).astype(np.float32)
    mean, deviation = table.mean(0), table.std(0) + 1e-6
    known, held = (torch.from_numpy((rows.astype(np.float32) - mean) / deviation) for rows in (table, unseen))
    pairs, test = Pairs(known, torch.from_numpy(np.concatenate(actions))), Pairs(held, torch.from_numpy(truth))
    with tempfile.TemporaryDirectory() as folder:
        out, check = Path(folder) / "probe", held_out_error(test, space)
        cpu = Hardware(accelerator="cpu")
        decoder = train_decoder(pairs, ActionDecoderConfig(), space, train, cpu, out, {}, check)
        logged = [row for row in read_metrics(out) if "check/held_out" in row]
    with torch.no_grad():
        guess = decoder.act(held).numpy()
    return guess, [float(row["step"]) for row in logged], [round(row["check/held_out"], 5) for row in logged]


class Player(NamedTuple):
    """Whose actions are meant, and all that decided them."""

    actions: str
    """The column of what was executed."""
    states: str
    noise: float
    bounds: Actions
    policy: Callable[[str], Policy]
    """By the name that an episode has for it."""
    rng: Callable[[int], np.random.Generator]
    """By the episode's seed."""
    column: str
    """How innovations are called."""


def player_of(store: Store, side: Side) -> Player:
    """The agent of a data set, or its rival."""
    collected = recorded_collection(store)
    world = collected.world
    if side == "rival":
        simulation = simulate_world(world.rival.partition(":")[0])
        policy = rival_policy(world.rival, simulation)
        facts = (RIVAL_ACTIONS, RIVAL_STATES, world.rival_noise, simulation.facts.actions, lambda name: policy)
        return Player(*facts, rival_rng, f"rival_{INNOVATION}")
    simulation = simulate_world(world.task)
    policies = cache(lambda name: make_policy(name, simulation, collected.expert))
    return Player(ACTIONS, "states", collected.noise, simulation.facts.actions, policies, policy_rng, INNOVATION)


def innovation_column(store: Store, side: Side = "agent") -> Store | None:
    """The innovation of every executed action, beside the data.

    None where nothing was left to chance, where actions are discrete (which have no expectation), and where policies
    need pictures.
    """
    if "action_choices" in store.meta or not can_simulate(recorded_collection(store).world.task):
        return None
    player = player_of(store, side)
    if not player.noise:
        return None
    low, high = player.bounds.low.astype(np.float64), player.bounds.high.astype(np.float64)

    def compute(index: int) -> np.ndarray:
        known = store.episodes[index]
        policy, rng = player.policy(known["policy"]), player.rng(known["seed"])
        choices, noise = [], []
        for step, state in enumerate(store.episode(index, player.states)):  # in the order in which they were drawn
            choices.append(np.asarray(policy.act(Observation(None, state, step), rng), np.float32))
            noise.append(rng.standard_normal(choices[-1].shape, np.float32))
        wanted = np.clip(np.stack(choices) + player.noise * np.stack(noise), player.bounds.low, player.bounds.high)
        actions = store.episode(index, player.actions)
        if not np.array_equal(wanted.astype(np.float32), actions):
            raise UserError(
                f"{store.path}: the {player.actions} of episode {index} are not those of its policy and seed",
                "collect the data set with this version, or give the expert it was collected with",
            )
        return (actions - expected_clip(np.stack(choices), player.noise, low, high)).astype(np.float32)

    key = stable_hash([INNOVATION, INNOVATION_VERSION])
    return derive(store, player.column, key, store.columns[player.actions], compute)


def expected_clip(
    mean: Float[np.ndarray, "*t a"], sigma: float, low: Float[np.ndarray, " a"], high: Float[np.ndarray, " a"]
) -> Float[np.ndarray, "*t a"]:
    """E[clip(mean + σε)] for a standard normal ε."""
    mean = mean.astype(np.float64)
    below, above = (low - mean) / sigma, (high - mean) / sigma
    inside = norm.cdf(above) - norm.cdf(below)
    return low * norm.cdf(below) + high * norm.sf(above) + mean * inside - sigma * (norm.pdf(above) - norm.pdf(below))


def scored(name: str, guess: Table, truths: list[Table]) -> dict[str, float | list[float]]:
    """R² of guesses for held-out episodes, and its interval over them."""
    truth = np.concatenate(truths)
    edges = np.cumsum([len(part) for part in truths])[:-1]
    errors, totals = (
        [float(np.square(part).sum()) for part in np.split(gaps, edges)]
        for gaps in (guess - truth, truth - truth.mean(0))
    )
    return {name: r2_score(guess, truth), f"{name}_interval": list(r2_interval(errors, totals))}


def read_ceilings(
    store: Store, splits: Splits, probes: Episodes, config: PolicyConfig, hardware: Hardware, folder: Path
) -> dict[str, float | list[float]]:
    """Ceilings of what can be read of actions and of their innovation, for held-out episodes."""
    wanted = {"action": Target(ACTIONS)}
    if (column := innovation_column(store)) is not None:
        wanted["innovation"] = Target(INNOVATION, column)
    found: dict[str, float | list[float]] = {}
    inputs, unseen = (states_around(store, part) for part in (splits.pool, probes))
    everything = np.concatenate([splits.unlabelled, splits.pool])
    for kind, target in wanted.items():
        known = partial(episodes_of, store if target.store is None else target.store, target.column)
        outputs, truths = known(splits.pool, 1), known(probes, 1)
        found |= both_scored(kind, "_states", inputs, outputs, unseen, truths, config.decode)
        facts = (target, store, everything, probes, config.actor, config.clone, hardware, folder / kind)
        guess = guess_with_frames(*facts)
        found |= scored(f"{kind}_r2_frames", guess, known(probes, SEEN_AHEAD))
    return found


def read_innovations(
    known: Store, latents: Store, motion: Store, labelled: Episodes, probes: Episodes, last: int, train: TrainConfig
) -> dict[str, float | list[float]]:
    """Read from latents and from raw motion with few labels."""
    outputs, truths = (episodes_of(known, INNOVATION, part, last) for part in (labelled, probes))
    rows, unseen = (episodes_of(latents, "latents", part, last) for part in (labelled, probes))
    moved, later = (episodes_of(motion, "motion", part, last) for part in (labelled, probes))
    found = scored("innovation_r2_motion", ridge_guess(moved, outputs, np.concatenate(later)), truths)
    return found | both_scored("innovation", "", rows, outputs, unseen, truths, train)


def both_scored(
    kind: str,
    source: str,
    inputs: list[Table],
    outputs: list[Table],
    unseen: list[Table],
    truths: list[Table],
    train: TrainConfig,
) -> dict[str, float | list[float]]:
    """What is read linearly and with a small network."""
    rows, space = np.concatenate(unseen), LatentSpace.of(np.concatenate(outputs))
    guess, _, _ = mlp_guess(space, inputs, outputs, rows, np.concatenate(truths), train)
    linear = scored(f"{kind}_r2{source}", ridge_guess(inputs, outputs, rows), truths)
    return linear | scored(f"{kind}_mlp_r2{source}", unscaled(space, guess), truths)


def states_around(store: Store, episodes: Episodes) -> list[Table]:
    """The true states before and after every action."""
    states = [store.episode(int(index), "states") for index in episodes]
    return [np.concatenate([part[:-1], part[1:]], 1) for part in states]


def guess_with_frames(
    target: Target,
    store: Store,
    known: Episodes,
    probes: Episodes,
    actor: ActorConfig,
    train: TrainConfig,
    hardware: Hardware,
    folder: Path,
) -> Table:
    """Read by an inverse dynamics network from the frames around an action, with the labels of some episodes."""
    shape = dataclasses.replace(actor, frames=actor.frames + SEEN_AHEAD, ahead=SEEN_AHEAD)
    network = train_clone(store, known, target, shape, train, hardware, folder).to(device_of(hardware))
    clips = partial(seen_frames, store, stack_offsets(shape))
    long = probes[store.lengths[probes] > SEEN_AHEAD]
    guess = np.concatenate([guess_from_frames(network, clips([int(index)])) for index in long])
    space = network.cpu().space
    return unscaled(space, guess) if isinstance(space, LatentSpace) else guess


def unscaled(space: LatentSpace, guess: Table) -> Table:
    """Guesses on the common scale of a network, in the units of what was to be read."""
    return (torch.from_numpy(guess) * space.scale + space.mean).numpy()
