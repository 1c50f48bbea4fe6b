"""What of an action no state could have told: exact, without bias, and read only by what has seen it."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.data.collect import collect_episodes, recorded_collection, render
from otflam.data.store import Store
from otflam.envs.experts import load_expert
from otflam.evaluate.alignment import ridge_guess
from otflam.evaluate.probes import INNOVATION, expected_clip, innovation_column, read_ceilings, scored
from otflam.evaluate.stats import Estimate, estimate, paired, r2_interval
from otflam.policy.train import Splits
from otflam.presets import get_preset


@given(st.floats(-3, 3), st.floats(0.05, 2))
def test_the_expectation_is_that_of_clipped_noise(mean: float, sigma: float) -> None:
    def weighed(noise: float) -> float:
        return float(np.clip(mean + sigma * noise, -1, 0.5) * norm.pdf(noise))

    bends = sorted(((-1 - mean) / sigma, (0.5 - mean) / sigma))
    points = [-9.0, *(bend for bend in bends if -9 < bend < 9), 9.0]
    wanted = sum(quad(weighed, a, b)[0] for a, b in itertools.pairwise(points))
    found = expected_clip(np.array([mean]), sigma, np.array([-1.0]), np.array([0.5]))[0]
    assert found == pytest.approx(wanted, abs=1e-7)


def test_innovations_are_what_the_seed_says(noisy_store: Store) -> None:
    """Action minus expectation, by the expert's own choice; no mean; the same when the episode is redrawn."""
    column = innovation_column(noisy_store)
    assert column is not None and column.columns[INNOVATION] == noisy_store.columns["actions"]
    expert = load_expert("cheetah-run")
    choices = np.stack([expert.action(state) for state in noisy_store["states"]])
    wanted = noisy_store["actions"] - expected_clip(choices, 0.5, -np.ones(6), np.ones(6))
    assert np.allclose(column[INNOVATION], wanted, atol=1e-6)
    assert np.abs(np.asarray(column[INNOVATION]).mean(0)).max() < 4 * 0.5 / math.sqrt(noisy_store.rows)


def test_redrawn_data_have_the_same_innovations(noisy_store: Store, tmp_path: Path) -> None:
    world = dataclasses.replace(recorded_collection(noisy_store).world, difficulty="vanilla")
    again = innovation_column(render(noisy_store, world, tmp_path / "plain", 1))
    first = innovation_column(noisy_store)
    assert again is not None and first is not None and np.array_equal(again[INNOVATION], first[INNOVATION])


def test_without_noise_nothing_is_new(tmp_path: Path) -> None:
    plan = dataclasses.replace(get_preset("tiny").collection, episodes=1, steps=4)
    assert innovation_column(collect_episodes(plan, tmp_path / "data", 1)) is None


def test_actions_of_another_policy_are_refused(noisy_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otflam.evaluate.probes.INNOVATION", "other")  # not the column that is there already
    monkeypatch.setitem(noisy_store.episodes[0], "seed", 1)
    with pytest.raises(UserError, match="episode 0 are not those of its policy and seed"):
        innovation_column(noisy_store)


def test_only_who_saw_it_can_tell(noisy_store: Store) -> None:
    """A probe of the present reads nothing of an innovation; one of the innovation itself reads all of it."""
    column = innovation_column(noisy_store)
    assert column is not None
    rows = [np.asarray(column.episode(index, INNOVATION)) for index in range(8)]
    states = [np.asarray(noisy_store.episode(index, "states")) for index in range(8)]
    blind, seeing = (
        scored("r2", ridge_guess(inputs[:6], rows[:6], np.concatenate(inputs[6:])), rows[6:])
        for inputs in (states, rows)
    )
    assert blind["r2"] < 0.05 and seeing["r2"] > 0.95
    assert blind["r2_interval"][0] <= blind["r2"] <= blind["r2_interval"][1]


def test_ceilings_have_their_names_and_intervals(noisy_store: Store, tmp_path: Path) -> None:
    splits, config = Splits.of(noisy_store), get_preset("tiny").policy.seeded(0)
    found = read_ceilings(noisy_store, splits, splits.probes, config, Hardware(accelerator="cpu"), tmp_path)
    names = {f"{kind}_{what}" for kind in ("action", "innovation") for what in ("r2_states", "r2_frames")}
    assert names <= found.keys() and all(len(found[f"{name}_interval"]) == 2 for name in names)


def test_an_interval_knows_which_episodes_vary() -> None:
    assert r2_interval([1.0, 1.0, 1.0], [2.0, 2.0, 2.0]) == (0.5, 0.5)
    low, high = r2_interval([1.0, 0.0, 1.9, 0.3], [2.0, 2.0, 2.0, 2.0])
    assert low < 1 - 3.2 / 8 < high


def test_pairs_decide_by_episodes_only_where_seeds_are_alike() -> None:
    rng = np.random.default_rng(0)
    alike = [rng.permutation(5 + rng.normal(0, 3, 20)).tolist()] * 3
    apart = [(mean + rng.normal(0, 3, 20)).tolist() for mean in (-10, 5, 20)]
    pooled, seeds = paired(alike), paired(apart)
    assert pooled.half < 1.0 and seeds.half == pytest.approx(estimate([float(np.mean(g)) for g in apart]).half)
    assert paired(alike, comparisons=6).half > pooled.half
    assert paired(alike[:1]) == Estimate(float(np.mean(alike[0])), math.inf, 1)
