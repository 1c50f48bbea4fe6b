"""Stretches from recorded states: exactly where the episode was, and a measure between doing nothing and the expert."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.data.collect import recorded_collection
from otflam.data.store import Store
from otflam.envs.rollout import episode_seed, play_episode, play_together, policy_rng
from otflam.envs.suite import ControlEnv
from otflam.evaluate.control import Stretches, bound_returns, play, start_metrics, start_returns
from otflam.policy.agent import load_agent
from otflam.policy.train import AgentPlan, train_reference
from otflam.presets import get_preset


@pytest.fixture(scope="module")
def agent(noisy_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("starts") / "agent"
    train_reference(
        AgentPlan(noisy_store, 2, get_preset("tiny").policy.seeded(0), Hardware(accelerator="cpu"), out), "labels-only"
    )
    return out


def test_an_episode_goes_on_as_it_did(noisy_store: Store) -> None:
    """From any recorded state the recorded actions lead to the recorded pictures, distractors and all."""
    env = ControlEnv(recorded_collection(noisy_store).world)
    for index, time in ((3, 0), (5, 11)):
        rows = {name: noisy_store.episode(index, name) for name in noisy_store.columns}
        env.resume(noisy_store.episodes[index]["seed"], time, rows["physics"][time])
        for step in range(time, time + 6):
            frame, reward, *_, info = env.step(rows["actions"][step])
            assert np.array_equal(frame, rows["frames"][step + 1])
            assert np.allclose(info["state"], rows["states"][step + 1], atol=1e-5)
            assert reward == pytest.approx(rows["rewards"][step], abs=1e-5)
            assert np.array_equal(info["distractors"], rows["distractors"][step + 1])
    env.close()


def test_playing_together_is_playing_alone(noisy_store: Store, agent: Path) -> None:
    """Episodes side by side earn what each earns alone, up to the rounding of larger batches."""
    world = recorded_collection(noisy_store).world
    together = play(agent, world, 7, 3, 1, 8)
    env = ControlEnv(world)
    policy = load_agent(agent)
    for index in range(3):
        alone = play_episode(env, policy, episode_seed(7, index), steps=8)
        assert together[index] == pytest.approx(alone.rewards.sum(), abs=1e-3)
    frames = np.stack([env.reset(seed=episode_seed(7, 0))[0]])[:, None].repeat(policy.seen, 1)
    assert play_together([env], policy, frames, 8, [policy_rng(0)])[0] == pytest.approx(together[0], abs=1e-3)
    env.close()


def test_the_floor_is_zero_and_the_ceiling_one(noisy_store: Store, agent: Path) -> None:
    stretches = Stretches(noisy_store.path, (6, 7), 6)
    shares = [start_metrics(player, stretches)["start_return_share"] for player in ("zero", "expert")]
    assert shares == pytest.approx([0.0, 1.0])
    found = start_metrics(agent, stretches)
    assert len(found["start_returns"]) == 2 and np.isfinite(found["start_return_share"])
    floor, ceiling = (np.array(found[f"start_{name}"]) for name in ("zero", "expert"))
    assert found["start_return_share"] == pytest.approx(
        (np.array(found["start_returns"]) - floor).sum() / (ceiling - floor).sum(), abs=0.01
    )
    assert start_returns(agent, stretches, workers=2) == pytest.approx(start_returns(agent, stretches))


def test_bounds_are_found_out_once(noisy_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    stretches = Stretches(noisy_store.path, (6, 7), 6)
    first = bound_returns("expert", stretches)
    monkeypatch.setattr("otflam.evaluate.control.start_returns", None)
    assert np.array_equal(bound_returns("expert", stretches), first)


def test_short_episodes_are_refused(noisy_store: Store) -> None:
    with pytest.raises(UserError, match="episodes of 24 steps: returns from starts need 60"):
        start_returns("zero", Stretches(noisy_store.path, (6,), 50))
