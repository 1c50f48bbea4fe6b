"""Soft actor-critic on simulator states: how the packaged experts were made.

Twin critics with layer normalisation, running observation normalisation and an automatic temperature. Training goes
in rounds: in each, every environment plays one whole episode, so a checkpoint between rounds needs no simulator state
and a resumed run repeats the uninterrupted one bit for bit.

Axes: e critics, b batch, d features.
"""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from otflam.core import Progress
from otflam.envs.experts import Expert
from otflam.envs.recipe import Recipe
from otflam.envs.simulation import Simulation


class Actor(nn.Module):
    """Squashed Gaussian policy; its mean is the expert."""

    def __init__(self, observations: int, actions: int, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(observations, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2 * actions)
        )

    def forward(self, observation: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw_std = self.body(observation).chunk(2, -1)
        log_std = -5 + 3.5 * (raw_std.tanh() + 1)  # keeps the standard deviation between e^-5 and e^2
        raw = mean + log_std.exp() * noise
        log_prob = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        log_prob = log_prob - 2 * (math.log(2) - raw - F.softplus(-2 * raw))  # log det of tanh, stable form
        return raw.tanh(), log_prob.sum(-1)


class TwinCritic(nn.Module):
    """Two Q functions evaluated as one batched product, which halves the number of small kernels."""

    def __init__(self, observations: int, actions: int, width: int) -> None:
        super().__init__()
        sizes = [observations + actions, width, width, 1]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in itertools.pairwise(sizes):
            bound = 1 / math.sqrt(fan_in)
            self.weights.append(torch.empty(2, fan_in, fan_out).uniform_(-bound, bound))
            self.biases.append(torch.zeros(2, 1, fan_out))
        self.width = width

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        x = torch.cat([observation, action], -1).expand(2, -1, -1)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = F.relu(F.layer_norm(torch.baddbmm(bias, x, weight), (self.width,)))
        return torch.baddbmm(self.biases[-1], x, self.weights[-1]).squeeze(-1)


class Replay:
    """All transitions so far, and the running statistics that normalise observations."""

    def __init__(self, capacity: int, observations: int, actions: int) -> None:
        self.columns = {
            "observation": torch.zeros(capacity, observations),
            "action": torch.zeros(capacity, actions),
            "reward": torch.zeros(capacity),
            "after": torch.zeros(capacity, observations),
        }
        self.size = 0

    def add(self, **rows: np.ndarray) -> None:
        count = len(rows["reward"])
        for name, value in rows.items():
            self.columns[name][self.size : self.size + count] = torch.from_numpy(np.asarray(value, np.float32))
        self.size += count

    def sample(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        index = torch.randint(self.size, (count,), generator=generator)
        return {name: column[index] for name, column in self.columns.items()}

    def statistics(self) -> tuple[Tensor, Tensor]:
        seen = self.columns["observation"][: self.size]
        return seen.mean(0), seen.std(0).clamp_min(1e-3)


class SAC:
    """The whole training state, and one round of training."""

    def __init__(self, task: str, config: Recipe, seed: int) -> None:
        self.task, self.config, self.seed = task, config, seed
        self.envs = [Simulation(task) for _ in range(config.environments)]
        observations, actions = self.envs[0].state_size, self.envs[0].action_size
        torch.manual_seed(seed)
        self.actor = Actor(observations, actions, config.width)
        self.critic = TwinCritic(observations, actions, config.width)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.tensor(math.log(0.1), requires_grad=True)
        self.optimisers = [
            torch.optim.Adam(parameters, lr=config.lr, fused=True)
            for parameters in (self.critic.parameters(), self.actor.parameters(), [self.log_alpha])
        ]
        self.generator = torch.Generator().manual_seed(seed)
        self.steps = self.envs[0].steps // config.repeat
        self.rounds = max(1, config.decisions // (self.steps * config.environments))
        self.replay = Replay(self.rounds * self.steps * config.environments, observations, actions)
        self.mean, self.std = torch.zeros(observations), torch.ones(observations)
        self.round, self.owed = 0, 0.0

    def normalise(self, observation: Tensor) -> Tensor:
        return ((observation - self.mean) / self.std).clamp(-10, 10)

    def noise(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator)

    def play_round(self, progress: Progress) -> dict[str, float]:
        """Let every environment play one episode, learning along the way; return what to log."""
        cfg = self.config
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = cfg.lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * self.round / self.rounds)))
        observation = np.stack([env.reset([self.seed, self.round, i]) for i, env in enumerate(self.envs)])
        returns, logged = np.zeros(cfg.environments), {}
        for _ in range(self.steps):
            if self.round < cfg.random_rounds:
                action = torch.rand(cfg.environments, self.envs[0].action_size, generator=self.generator) * 2 - 1
            else:
                with torch.no_grad():
                    action, _ = self.actor(
                        self.normalise(torch.from_numpy(observation)),
                        self.noise(cfg.environments, self.envs[0].action_size),
                    )
            played = [play(env, a, cfg.repeat) for env, a in zip(self.envs, action.numpy(), strict=True)]
            after, reward = np.stack([state for state, _ in played]), np.array([reward for _, reward in played])
            self.replay.add(observation=observation, action=action.numpy(), reward=reward, after=after)
            observation, returns = after, returns + reward
            if self.round >= cfg.random_rounds:
                self.owed += cfg.updates_per_decision * cfg.environments
                count = int(self.owed)
                self.owed -= count
                logged = self.learn(count)
            progress.advance(cfg.environments)
        self.round += 1
        self.mean, self.std = self.replay.statistics()
        return {"train_return": float(returns.mean()), **logged}

    def learn(self, updates: int) -> dict[str, float]:
        """Take `updates` critic steps and half as many actor steps."""
        cfg, actions = self.config, self.envs[0].action_size
        rows = self.replay.sample(updates * cfg.batch, self.generator)
        rows["observation"], rows["after"] = self.normalise(rows["observation"]), self.normalise(rows["after"])
        logged = {}
        for i in range(updates):
            observation, action, reward, after = (rows[k][i * cfg.batch : (i + 1) * cfg.batch] for k in rows)
            alpha = self.log_alpha.detach().exp()
            with torch.no_grad():
                next_action, next_log_prob = self.actor(after, self.noise(cfg.batch, actions))
                value = self.target(after, next_action).amin(0) - alpha * next_log_prob
                # Episodes only ever end by the time limit, so the value of the last state is always bootstrapped.
                goal = reward + cfg.discount * value
            critic_loss = F.mse_loss(self.critic(observation, action), goal.expand(2, -1))
            self.descend(0, critic_loss)
            if i % 2 == 0:
                self.critic.requires_grad_(False)
                chosen, log_prob = self.actor(observation, self.noise(cfg.batch, actions))
                self.descend(1, (alpha * log_prob - self.critic(observation, chosen).amin(0)).mean())
                self.critic.requires_grad_(True)
                self.descend(2, -(self.log_alpha.exp() * (log_prob.detach().mean() - actions)))
                logged = {"alpha": float(alpha), "critic_loss": float(critic_loss.detach())}
            with torch.no_grad():
                torch._foreach_lerp_(list(self.target.parameters()), list(self.critic.parameters()), cfg.target_rate)
        return logged

    def descend(self, which: int, loss: Tensor) -> None:
        self.optimisers[which].zero_grad(set_to_none=True)
        loss.backward()
        self.optimisers[which].step()

    def expert(self) -> Expert:
        """The policy's mean as a policy that needs no torch."""
        linears = [module for module in self.actor.body if isinstance(module, nn.Linear)]
        layers = [
            (linear.weight.detach().double().numpy(), linear.bias.detach().double().numpy()) for linear in linears
        ]
        actions = self.envs[0].action_size
        layers[-1] = (layers[-1][0][:actions], layers[-1][1][:actions])  # the other half is the deviation
        return Expert(self.mean.double().numpy(), self.std.double().numpy(), tuple(layers), "relu", squash=True)

    def evaluate(self, episodes: int) -> list[float]:
        """Returns at repeat 1, on seeds that neither training nor the final evaluation uses."""
        env, expert, returns = self.envs[0], self.expert(), []
        for episode in range(episodes):
            observation, total = env.reset([self.seed, 1_000_000 + episode]), 0.0
            for _ in range(env.steps):
                observation, reward = play(env, expert.action(observation), 1)
                total += reward
            returns.append(total)
        return returns

    def tensors(self) -> dict[str, Tensor]:
        """All weights."""
        return self.actor.state_dict() | self.critic.state_dict()

    def state(self) -> dict:
        return {
            "actor": self.actor.state_dict(),
            "critic": self.critic.state_dict(),
            "target": self.target.state_dict(),
            "log_alpha": self.log_alpha.detach().clone(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "generator": self.generator.get_state(),
            "replay": {name: column[: self.replay.size] for name, column in self.replay.columns.items()},
            "mean": self.mean,
            "std": self.std,
            "round": self.round,
            "owed": self.owed,
        }

    def load_state(self, state: dict) -> None:
        self.actor.load_state_dict(state["actor"])
        self.critic.load_state_dict(state["critic"])
        self.target.load_state_dict(state["target"])
        self.log_alpha.data.copy_(state["log_alpha"])
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self.generator.set_state(state["generator"])
        self.replay.size = len(state["replay"]["reward"])
        for name, column in state["replay"].items():
            self.replay.columns[name][: self.replay.size] = column
        self.mean, self.std, self.round, self.owed = state["mean"], state["std"], state["round"], state["owed"]


def play(env: Simulation, action: np.ndarray, repeat: int) -> tuple[np.ndarray, float]:
    """Hold an action for `repeat` simulator steps; return the last state and the summed reward."""
    total = 0.0
    for _ in range(repeat):
        state, reward, _ = env.step(action)
        total += reward
    return state, total
