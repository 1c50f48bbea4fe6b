"""What of an executed action no state could have told: the part that latent actions must have seen happen.

An expert's action follows from its state, so that most of an action can be read from anything that knows the state. The
noise cannot. It is known exactly: the policy's own choice follows from the recorded state, the noise from the episode's
seed. Actions are clipped to their bounds, which makes even the executed noise partly a matter of state; so the
innovation is the executed action minus its expectation given the policy's choice, E[clip(choice + σε)].

Axes: t time steps, a actions.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from otflam.core import SILENT, Progress, UserError, stable_hash
from otflam.data import Store, derive, recorded_collection
from otflam.envs import Observation, can_simulate, make_policy, policy_rng, simulate_world

INNOVATION_VERSION = 1
INNOVATION = "innovation"


def innovation_column(store: Store, progress: Progress = SILENT) -> Store | None:
    """The innovation of every executed action, beside the data.

    None where nothing was left to chance, where actions are discrete (which have no expectation), and where policies
    need pictures.
    """
    collected = recorded_collection(store)
    if not collected.noise or "action_choices" in store.meta or not can_simulate(collected.world.task):
        return None
    simulation = simulate_world(collected.world.task)
    bounds = simulation.facts.actions
    low, high = bounds.low.astype(np.float64), bounds.high.astype(np.float64)

    def compute(index: int) -> np.ndarray:
        policy = make_policy(store.episodes[index]["policy"], simulation, collected.expert)
        states, rng = store.episode(index, "states"), policy_rng(store.episodes[index]["seed"])
        choices, noise = [], []
        for step, state in enumerate(states):  # in the order in which the rollout drew them
            choices.append(np.asarray(policy.act(Observation(None, state, step), rng), np.float32))
            noise.append(rng.standard_normal(choices[-1].shape, np.float32))
        wanted = np.clip(np.stack(choices) + collected.noise * np.stack(noise), bounds.low, bounds.high)
        actions = store.episode(index, "actions")
        if not np.array_equal(wanted.astype(np.float32), actions):
            raise UserError(
                f"{store.path}: the actions of episode {index} are not those of its policy and seed",
                "collect the data set with this version, or give the expert it was collected with",
            )
        return (actions - expected_clip(np.stack(choices), collected.noise, low, high)).astype(np.float32)

    key = stable_hash([INNOVATION, INNOVATION_VERSION])
    return derive(store, INNOVATION, key, store.columns["actions"], compute, progress)


def expected_clip(
    mean: Float[np.ndarray, "*t a"], sigma: float, low: Float[np.ndarray, " a"], high: Float[np.ndarray, " a"]
) -> Float[np.ndarray, "*t a"]:
    """E[clip(mean + σε)] for a standard normal ε."""
    mean = mean.astype(np.float64)
    below, above = (low - mean) / sigma, (high - mean) / sigma
    inside = norm.cdf(above) - norm.cdf(below)
    return low * norm.cdf(below) + high * norm.sf(above) + mean * inside - sigma * (norm.pdf(above) - norm.pdf(below))
