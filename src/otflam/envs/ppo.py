"""Proximal policy optimisation on the states of games: how their packaged experts were made.

Training goes in rounds of `steps` decisions in every environment. A checkpoint holds what each environment's level was
and what has been played in it, so that a resumed run repeats the uninterrupted one bit for bit.

Axes: t steps, e environments, s state, c choices.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float32
from torch import Tensor, nn

from otflam.core import Progress
from otflam.envs.experts import Expert
from otflam.envs.games import MOVED, NO_ACTION, GameWorld
from otflam.envs.players import GameExpert, Scripted
from otflam.envs.recipe import Recipe
from otflam.envs.rollout import Observation
from otflam.envs.world import World

STEPS = 128
"""Decisions of an environment in a round."""
EPOCHS, PARTS = 3, 8
"""How often a round is learned from, and in how many parts."""
CLIP, LAMBDA, ENTROPY, VALUE, LARGEST_GRADIENT = 0.2, 0.95, 0.005, 0.5, 0.5


def network(sizes: list[int], last: float) -> nn.Sequential:
    """Linear layers with ReLU between them; the last one starts with small weights."""
    layers: list[nn.Module] = []
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        linear = nn.Linear(inputs, outputs)
        nn.init.orthogonal_(linear.weight, math.sqrt(2) if number < len(sizes) - 2 else last)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Player:
    """One environment, its levels one after the other."""

    def __init__(self, task: str, seed: int, number: int, repeat: int) -> None:
        self.env, self.seeds, self.repeat = GameWorld(World(task)), (seed, number), repeat
        self.level, self.total, self.returns = -1, 0.0, []
        self.begin()

    def begin(self) -> None:
        self.level += 1
        self.observe(self.env.reset(seed=self.seed)[1])
        self.total = 0.0

    @property
    def seed(self) -> int:
        return int(np.random.SeedSequence([*self.seeds, self.level]).generate_state(1)[0])

    def observe(self, info: dict) -> None:
        self.state, self.played = info["state"], info[MOVED]

    def step(self, action: int) -> tuple[float, bool]:
        reward, ended, info = self.env.hold(action, self.repeat)
        self.observe(info)
        self.total += reward
        if ended:
            self.returns.append(self.total)
            self.begin()
        return reward, ended

    def save(self) -> dict:
        """What is needed to be here again."""
        return {"level": self.level, "played": self.played[self.played != NO_ACTION].tolist(), "total": self.total}

    def restore(self, saved: dict) -> None:
        self.level = saved["level"] - 1
        self.begin()
        for action in saved["played"]:
            self.observe(self.env.hold(action, 1)[2])
        self.total = saved["total"]


class PPO:
    """The whole training state, and one round of training."""

    def __init__(self, task: str, config: Recipe, seed: int) -> None:
        self.task, self.config, self.seed = task, config, seed
        self.players = [Player(task, seed, number, config.repeat) for number in range(config.environments)]
        facts, width = self.players[0].env.facts, config.width
        torch.manual_seed(seed)
        self.choices = torch.full((facts.actions.choices,), -1e9)
        self.choices[list(facts.actions.distinct)] = 0.0
        self.actor = network([facts.state_size, width, width, facts.actions.choices], 0.01)
        self.critic = network([facts.state_size, width, width, 1], 1.0)
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimiser = torch.optim.Adam(self.parameters, lr=config.lr, eps=1e-5, fused=True)
        self.generator = torch.Generator().manual_seed(seed)
        self.rules = Scripted(self.players[0].env.facts)
        self.steps, self.round = STEPS, 0
        self.rounds = max(1, config.decisions // (STEPS * config.environments))
        self.running, self.moments = np.zeros(config.environments), np.zeros(3)

    def play_round(self, progress: Progress) -> dict[str, float]:
        """Play, learn from it, and say what to log."""
        cfg, count = self.config, len(self.players)
        for group in self.optimiser.param_groups:
            group["lr"] = cfg.lr * (1 - 0.9 * self.round / self.rounds)
        rows: dict[str, list] = {name: [] for name in ("state", "action", "log", "reward", "ended")}
        finished: list[float] = []
        rng = np.random.default_rng([self.seed, self.round])
        for _ in range(STEPS):
            states = torch.from_numpy(np.stack([player.state for player in self.players]))
            with torch.no_grad():
                log = self.log_odds(states)
                action = torch.multinomial(log.exp(), 1, generator=self.generator)[:, 0]
            if self.imitates:
                seen = [Observation(None, player.state, 0) for player in self.players]
                action = torch.tensor([int(self.rules.act(each, rng)[0]) for each in seen])
            outcome = [player.step(int(each)) for player, each in zip(self.players, action, strict=True)]
            reward, ended = (np.array(column) for column in zip(*outcome, strict=True))
            chosen = log.gather(1, action[:, None])[:, 0]
            for name, value in zip(rows, (states, action, chosen, self.scale(reward, ended), ended), strict=True):
                rows[name].append(torch.as_tensor(value))
            progress.advance(count)
        for player in self.players:
            finished += player.returns
            player.returns = []
        logged = self.learn({name: torch.stack(column) for name, column in rows.items()})
        self.round += 1
        return {"train_return": float(np.mean(finished)) if finished else float("nan"), **logged}

    @property
    def imitates(self) -> bool:
        """Whether rules play in this round."""
        return self.round < self.config.imitated_rounds

    def log_odds(self, states: Tensor) -> Tensor:
        """Of every choice; those that do what others do are never made."""
        return F.log_softmax(self.actor(states) + self.choices, -1)

    def scale(self, reward: np.ndarray, ended: np.ndarray) -> Float32[np.ndarray, " e"]:
        """Rewards in units of the deviation of discounted returns so far."""
        self.running = self.running * self.config.discount + reward
        self.moments += len(reward), self.running.sum(), np.square(self.running).sum()
        number, total, squares = self.moments
        self.running[ended] = 0.0
        deviation = math.sqrt(max(squares / number - (total / number) ** 2, 1e-8))
        return np.clip(reward / deviation, -10, 10).astype(np.float32)

    def learn(self, rows: dict[str, Tensor]) -> dict[str, float]:
        """A few passes over a round."""
        cfg, states = self.config, rows["state"]
        with torch.no_grad():
            last = torch.from_numpy(np.stack([player.state for player in self.players]))
            values = self.critic(torch.cat([states, last[None]]))[..., 0]
            advantages, after = torch.zeros_like(rows["reward"]), torch.zeros(len(self.players))
            for step in reversed(range(STEPS)):
                goes_on = 1.0 - rows["ended"][step].float()
                surprise = rows["reward"][step] + cfg.discount * values[step + 1] * goes_on - values[step]
                advantages[step] = after = surprise + cfg.discount * LAMBDA * goes_on * after
            goals = advantages + values[:-1]
        flat = {name: column.flatten(0, 1) for name, column in (rows | {"gain": advantages, "goal": goals}).items()}
        flat["gain"] = (flat["gain"] - flat["gain"].mean()) / (flat["gain"].std() + 1e-8)
        for _ in range(EPOCHS):
            order = torch.randperm(len(flat["goal"]), generator=self.generator)
            for part in order.chunk(PARTS):
                logged = self.descend({name: column[part] for name, column in flat.items()})
        return logged

    def descend(self, rows: dict[str, Tensor]) -> dict[str, float]:
        log = self.log_odds(rows["state"])
        chosen = log.gather(1, rows["action"][:, None])[:, 0]
        ratio = (chosen - rows["log"]).exp()
        gain = torch.minimum(ratio * rows["gain"], ratio.clamp(1 - CLIP, 1 + CLIP) * rows["gain"]).mean()
        if self.imitates:
            gain = chosen.mean()
        entropy = -(log.exp() * log.clamp_min(-50)).sum(-1).mean()
        value = F.mse_loss(self.critic(rows["state"])[:, 0], rows["goal"])
        self.optimiser.zero_grad(set_to_none=True)
        (VALUE * value - gain - ENTROPY * entropy).backward()
        nn.utils.clip_grad_norm_(self.parameters, LARGEST_GRADIENT)
        self.optimiser.step()
        return {"value_loss": float(value.detach()), "entropy": float(entropy.detach())}

    def expert(self) -> Expert:
        """The policy as one that needs no torch."""
        linears = [module for module in self.actor if isinstance(module, nn.Linear)]
        layers = [(each.weight.detach().double().numpy(), each.bias.detach().double().numpy()) for each in linears]
        layers[-1] = (layers[-1][0], layers[-1][1] + self.choices.double().numpy())
        size = linears[0].in_features
        return Expert(np.zeros(size), np.ones(size), tuple(layers), "relu", squash=False)

    def evaluate(self, episodes: int) -> list[float]:
        """Returns on levels that neither training nor the final evaluation uses."""
        env, expert, returns = GameWorld(World(self.task)), GameExpert(self.expert()), []
        for episode in range(episodes):
            seed = int(np.random.SeedSequence([self.seed, 1_000_000, episode]).generate_state(1)[0])
            info, total, rng = env.reset(seed=seed)[1], 0.0, np.random.default_rng(seed)
            for step in range(env.facts.steps):
                action = expert.act(Observation(None, info["state"], step), rng)
                _, reward, terminated, _, info = env.step(int(action[0]))
                total += reward
                if terminated:
                    break
            returns.append(total)
        env.close()
        return returns

    def tensors(self) -> dict[str, Tensor]:
        """All weights."""
        return self.actor.state_dict() | {f"critic.{name}": each for name, each in self.critic.state_dict().items()}

    def state(self) -> dict:
        return {
            "actor": self.actor.state_dict(),
            "critic": self.critic.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "players": [player.save() for player in self.players],
            "running": torch.from_numpy(self.running),
            "moments": torch.from_numpy(self.moments),
            "round": self.round,
        }

    def load_state(self, state: dict) -> None:
        self.actor.load_state_dict(state["actor"])
        self.critic.load_state_dict(state["critic"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        for player, saved in zip(self.players, state["players"], strict=True):
            player.restore(saved)
        self.running, self.moments = state["running"].numpy().copy(), state["moments"].numpy().copy()
        self.round = state["round"]
