"""Experts, the simple policies, and the training that makes experts."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import nn

from otflam.core.errors import UserError
from otflam.core.progress import Progress
from otflam.envs.environment import Actions
from otflam.envs.experts import Expert, load_expert, packaged_experts
from otflam.envs.games import PREFIX
from otflam.envs.rollout import (
    Observation,
    Random,
    Zero,
    episode_seed,
    expert_returns,
    make_policy,
    parse_mix,
    play_episode,
    policy_rng,
    return_from,
)
from otflam.envs.sac import SAC, Actor, TwinCritic
from otflam.envs.simulation import Simulation
from otflam.envs.suite import make
from otflam.envs.training import train_expert
from otflam.presets import get_preset

BARS = {
    "ball_in_cup-catch": 900,
    "cartpole-swingup": 750,
    "cheetah-run": 600,
    "reacher-easy": 850,
    "walker-run": 500,
    "procgen-coinrun": 7.5,
    "procgen-bigfish": 3.0,
    "procgen-starpilot": 6.0,
}
EPISODES, LEVELS = 2, 60
"""Of each task and of each game; 'otflam expert evaluate' plays ten, and of games hundred."""


class PPOAgent(nn.Module):
    """A published-style agent, as the file of one is the only thing we are given."""

    def __init__(self, states: int, actions: int) -> None:
        super().__init__()
        self.actor_mean = nn.Sequential(
            nn.Linear(states, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, actions)
        )
        self.actor_logstd = nn.Parameter(torch.zeros(1, actions))
        self.obs_rms = nn.Module()
        self.obs_rms.register_buffer("running_mean", torch.randn(states, dtype=torch.float64))
        self.obs_rms.register_buffer("running_var", torch.rand(states, dtype=torch.float64) + 0.1)

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        normal = (state - self.obs_rms.running_mean) / (self.obs_rms.running_var + 1e-8).sqrt()
        return self.actor_mean(normal.clamp(-10, 10).float())


@pytest.mark.parametrize("task", BARS)
def test_packaged_experts_are_experts(task: str) -> None:
    episodes = LEVELS if task.startswith(PREFIX) else EPISODES
    assert expert_returns(task, "expert", None, episodes, seed=1).mean() >= BARS[task]


def test_packaged_experts_are_small() -> None:
    assert set(packaged_experts()) == set(BARS)
    assert sum(path.stat().st_size for path in packaged_experts().values()) < 3_000_000


def test_drawing_does_not_change_what_happens() -> None:
    env = make("cheetah-run", size=16)
    expert = load_expert("cheetah-run")
    env.simulation._env._step_limit = 40
    drawn = play_episode(env, expert, 3, steps=40).rewards.sum(dtype=np.float64)
    simulation = Simulation("cheetah-run")
    simulation._env._step_limit = simulation.steps = 40
    assert return_from(simulation, expert, simulation.begin(3), policy_rng(3)) == pytest.approx(drawn, abs=1e-4)
    env.close()


def test_expert_equals_the_network_it_came_from() -> None:
    sac = SAC("walker-run", dataclasses.replace(get_preset("tiny").expert), seed=0)
    sac.mean, sac.std = torch.randn(24), torch.rand(24) + 0.5
    states = torch.randn(5, 24)
    with torch.no_grad():
        expected = sac.actor.body(sac.normalise(states)).chunk(2, -1)[0].tanh().numpy()
    actual = np.stack([sac.expert().action(state) for state in states.numpy()])
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_expert_file_round_trip(tmp_path: Path) -> None:
    expert = load_expert("cheetah-run")
    expert.save(tmp_path / "copy.safetensors", {"task": "cheetah-run"})
    again = load_expert("cheetah-run", str(tmp_path / "copy.safetensors"))
    state = np.linspace(-2, 2, 17, dtype=np.float32)
    np.testing.assert_array_equal(again.action(state), expert.action(state))


def test_published_ppo_checkpoint_loads(tmp_path: Path) -> None:
    torch.manual_seed(0)
    agent = PPOAgent(17, 6)
    torch.save(agent.state_dict(), tmp_path / "agent.pt")
    expert = load_expert("cheetah-run", str(tmp_path / "agent.pt"))
    state = np.random.default_rng(0).standard_normal(17).astype(np.float32)
    with torch.no_grad():
        np.testing.assert_allclose(expert.action(state), agent(torch.from_numpy(state)).numpy(), atol=1e-5)


def test_checkpoints_never_run_code(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple:
            return Path.touch, (tmp_path / "exploded",)

    (tmp_path / "bomb.pt").write_bytes(pickle.dumps({"actor_mean.0.weight": Bomb()}))
    torch.save({"actor_mean.0.weight": Bomb()}, tmp_path / "bomb2.pt")
    for name in ("bomb.pt", "bomb2.pt"):
        with pytest.raises(UserError, match=f"{name} cannot be read as a checkpoint"):
            load_expert("cheetah-run", str(tmp_path / name))
    assert not (tmp_path / "exploded").exists()


def test_broken_experts_are_named(tmp_path: Path) -> None:
    for name in ("broken.safetensors", "broken.pt"):
        (tmp_path / name).write_bytes(b"not a checkpoint")
        with pytest.raises(UserError, match=name):
            load_expert("cheetah-run", str(tmp_path / name))
    torch.save({"actor_mean.0.weight": torch.zeros(2, 2)}, tmp_path / "half.pt")
    with pytest.raises(UserError, match="half"):
        load_expert("cheetah-run", str(tmp_path / "half.pt"))
    with pytest.raises(UserError, match="no expert file"):
        load_expert("cheetah-run", str(tmp_path / "missing.pt"))
    with pytest.raises(UserError, match="no packaged expert for 'hopper-hop'"):
        load_expert("hopper-hop")
    with pytest.raises(UserError, match="is for 17 states and 6 actions: walker-run has 24 and 6"):
        make_policy("expert", Simulation("walker-run"), str(packaged_experts()["cheetah-run"]))


PPO = {
    "actor_mean.0.weight": torch.zeros(6, 17),
    "actor_mean.0.bias": torch.zeros(6),
    "obs.running_mean": torch.zeros(17),
    "obs.running_var": torch.ones(17),
}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"actor_mean.0.weight": None, "actor_mean.0.bias": None}, "has the wrong tensors"),
        ({"actor_mean.0.bias": None}, r"has no actor_mean\.0\.bias"),
        ({"actor_mean.0.weight": torch.tensor(1.0)}, "layer 0 has weights"),
        ({"actor_mean.0.weight": torch.zeros(6, 5)}, "layer 0 has weights"),
        ({"actor_mean.0.weight": torch.zeros(6, 17, dtype=torch.complex64)}, "is no plain tensor of numbers"),
        ({"actor_mean.0.weight": torch.full((6, 17), torch.nan)}, "not finite"),
        ({"obs.running_var": -torch.ones(17)}, "negative variances"),
    ],
)
def test_ppo_files_that_make_no_expert_are_one_line(change: dict, told: str, tmp_path: Path) -> None:
    torch.save({k: v for k, v in (PPO | change).items() if v is not None}, tmp_path / "agent.pt")
    with pytest.raises(UserError, match=rf"agent\.pt.*{told}"):
        load_expert("cheetah-run", str(tmp_path / "agent.pt"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"layers.0.weight": np.zeros((6, 5), np.float32)}, "layer 0 has weights"),
        ({"layers.0.bias": np.full(6, np.inf, np.float32)}, "not finite"),
        ({"std": np.zeros(17, np.float32)}, "a deviation is not above 0"),
        ({"mean": np.zeros(3, np.float32)}, "mean and deviation have the shapes"),
    ],
)
def test_experts_of_wrong_shapes_or_numbers_are_one_line(change: dict, told: str, tmp_path: Path) -> None:
    tensors = {"mean": np.zeros(17, np.float32), "std": np.ones(17, np.float32)}
    tensors |= {"layers.0.weight": np.zeros((6, 17), np.float32), "layers.0.bias": np.zeros(6, np.float32)}
    save_file(tensors | change, tmp_path / "x.safetensors", {"about": '{"activation": "relu", "squash": true}'})
    with pytest.raises(UserError, match=rf"x\.safetensors is not an expert \(.*{told}"):
        load_expert("cheetah-run", str(tmp_path / "x.safetensors"))


def test_impossible_recipes_are_named(tmp_path: Path) -> None:
    for lr in (np.nan, np.inf, -1.0):
        with pytest.raises(UserError, match=f"--lr {lr}"):
            train_expert("cheetah-run", tmp_path / "x", dataclasses.replace(get_preset("tiny").expert, lr=float(lr)), 0)
    assert not (tmp_path / "x").exists()


def test_simple_policies() -> None:
    low, high = np.array([-1, -2], np.float32), np.array([1, 3], np.float32)
    seen, rng = Observation(None, np.zeros(3, np.float32), 0), np.random.default_rng(0)
    actions = np.stack([Random(Actions(low, high)).act(seen, rng) for _ in range(500)])
    assert (actions >= low).all() and (actions <= high).all() and np.allclose(actions.mean(0), [0, 0.5], atol=0.2)
    assert not Zero(2).act(seen, rng).any()
    assert isinstance(make_policy("zero", Simulation("walker-run")), Zero)
    with pytest.raises(UserError, match="unknown policy 'expart': did you mean 'expert'"):
        make_policy("expart", Simulation("walker-run"))


def test_mix() -> None:
    assert parse_mix("expert=0.8, random=0.2") == {"expert": 0.8, "random": 0.2}
    assert parse_mix("zero") == {"zero": 1.0}
    for text in ("expert=0.5", "expert=2,random=-1", "expert=x", "nobody=1"):
        with pytest.raises(UserError, match="mix"):
            parse_mix(text)


def test_episode_seeds_do_not_overlap() -> None:
    seeds = {episode_seed(seed, index) for seed in range(20) for index in range(100)}
    assert len(seeds) == 2000


def test_critics_equal_two_plain_networks() -> None:
    torch.manual_seed(0)
    critic = TwinCritic(3, 2, 8)
    observation, action = torch.randn(5, 3), torch.randn(5, 2)
    for which, values in enumerate(critic(observation, action)):
        x = torch.cat([observation, action], -1)
        for layer in range(2):
            x = nn.functional.layer_norm(x @ critic.weights[layer][which] + critic.biases[layer][which], (8,)).relu()
        torch.testing.assert_close(values, (x @ critic.weights[2][which] + critic.biases[2][which]).squeeze(-1))


def test_actor_density_matches_torch() -> None:
    torch.manual_seed(0)
    actor, observation, noise = Actor(3, 2, 8), torch.randn(6, 3), torch.randn(6, 2)
    action, log_prob = actor(observation, noise)
    mean, spread = actor.body(observation).chunk(2, -1)
    normal = torch.distributions.Normal(mean, (-5 + 3.5 * (spread.tanh() + 1)).exp())
    squashed = torch.distributions.TransformedDistribution(normal, torch.distributions.TanhTransform(cache_size=1))
    torch.testing.assert_close(squashed.log_prob(action).sum(-1), log_prob, rtol=1e-3, atol=1e-3)


def test_training_resumes_exactly(tmp_path: Path) -> None:
    recipe = dataclasses.replace(get_preset("tiny").expert, decisions=3000)  # three rounds, the first of them random

    class KilledError(Exception):
        pass

    class Kill(Progress):
        def log(self, row: dict) -> None:
            if row["round"] == 2:
                raise KilledError

    whole = train_expert("cheetah-run", tmp_path / "whole", recipe, 0)
    with pytest.raises(KilledError):
        train_expert("cheetah-run", tmp_path / "parts", recipe, 0, Kill())
    parts = train_expert("cheetah-run", tmp_path / "parts", recipe, 0)
    assert whole.read_bytes() == parts.read_bytes()
    states = [torch.load(tmp_path / n / "checkpoint.pt", weights_only=True)["state"] for n in ("whole", "parts")]
    for part in ("actor", "critic", "target"):
        assert all(torch.equal(states[0][part][name], states[1][part][name]) for name in states[0][part])
    with pytest.raises(UserError, match="seed differ"):
        train_expert("cheetah-run", tmp_path / "parts", recipe, 1)
    (tmp_path / "parts" / "checkpoint.pt").write_bytes(b"garbage")
    with pytest.raises(UserError, match=r"checkpoint\.pt is damaged"):
        train_expert("cheetah-run", tmp_path / "parts", recipe, 0)
    with pytest.raises(UserError, match="environments"):
        train_expert("cheetah-run", tmp_path / "none", dataclasses.replace(recipe, environments=0), 0)
    assert isinstance(load_expert("cheetah-run", str(whole)), Expert)
