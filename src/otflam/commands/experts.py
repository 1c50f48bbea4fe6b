"""Commands that train and evaluate the experts of worlds."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path

import tyro

from otflam.commands.base import Sizes, altered, required
from otflam.commands.settings import Settings, expert_run
from otflam.core import read_json, write_json
from otflam.envs import Recipe
from otflam.presets import get_preset
from otflam.report import ProgressBar, say


@dataclass(frozen=True)
class ExpertTrain:
    """Train a state-based expert for a task from scratch (SAC in the control suite, PPO in games)."""

    task: tyro.conf.Positional[str]
    """dm_control suite task as DOMAIN-TASK, or a game such as procgen-coinrun."""
    recipe: Recipe
    out: Path | None = None
    """Folder for checkpoint, learning curve and expert; by default runs/expert/TASK. Training continues there."""
    seed: int = 0
    """Seed of networks, exploration and episodes."""
    preset: Sizes = "laptop"
    settings: Settings = None

    @classmethod
    def defaults(cls, name: str) -> ExpertTrain:
        return required(cls("", get_preset(name).expert, preset=name), "task")

    def configured(self, file: Path) -> ExpertTrain:
        """The same with the settings of a run."""
        recipe, seed = expert_run(file)
        return altered(self, recipe=recipe, seed=seed)

    def run(self) -> None:
        os.environ.setdefault("MUJOCO_GL", "disable")  # states only: works without any OpenGL
        from otflam.envs import expert_about, train_expert

        with ProgressBar(f"train {self.task} expert", "decisions") as bar:
            out = self.out or Path("runs") / "expert" / self.task
            file = train_expert(self.task, out, self.fitting_recipe(), self.seed, bar)
        say(f"best expert: {file} (return {expert_about(file)['selection_return']} on episodes of their own)")

    def fitting_recipe(self) -> Recipe:
        """Games have a recipe of their own; what was asked for otherwise is changed in it."""
        from otflam.envs import learned_by

        if self.settings is not None:
            return self.recipe
        preset = get_preset(self.preset)
        usual = preset.player if learned_by(self.task) == "ppo" else preset.expert
        asked = {each.name: getattr(self.recipe, each.name) for each in fields(Recipe)}
        return replace(usual, **{name: value for name, value in asked.items() if value != getattr(preset.expert, name)})


@dataclass(frozen=True)
class ExpertEvaluate:
    """Play episodes with an expert, or at random, or doing nothing, and print the returns."""

    task: tyro.conf.Positional[str]
    """dm_control suite task as DOMAIN-TASK, or a task of another world."""
    policy: str = "expert"
    """expert, random or zero, or another policy of the task's world."""
    expert: str | None = None
    """Expert file instead of the packaged one."""
    episodes: int = 10
    """Number of episodes."""
    seed: int = 0
    """Decides the episodes."""
    record: Path | None = None
    """JSON file in which to note the result, beside those of other tasks and policies."""

    def run(self) -> None:
        os.environ.setdefault("MUJOCO_GL", "disable")
        from otflam.envs import expert_returns

        with ProgressBar(f"{self.policy} on {self.task}", "episodes") as bar:
            returns = expert_returns(self.task, self.policy, self.expert, self.episodes, self.seed, bar)
        mean, deviation = float(returns.mean()), float(returns.std())
        say(f"{self.task} {self.policy}: mean return {mean:.1f}, deviation {deviation:.1f}, {len(returns)} episodes")
        if self.record is not None:
            rows = read_json(self.record, "delete it to start anew") if self.record.exists() else {}
            row = {"mean": mean, "deviation": deviation, "episodes": self.episodes, "seed": self.seed}
            rows.setdefault(self.task, {})[self.policy] = row | {"expert": self.expert or "packaged"}
            self.record.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.record, rows)


@dataclass(frozen=True)
class ExpertCurve:
    """Draw the learning curves of expert trainings."""

    logs: tyro.conf.Positional[tuple[Path, ...]]
    """Training logs (log.jsonl), named after their tasks or in folders named after them."""
    out: Path = Path("curves.png")
    """Picture to write."""

    def run(self) -> None:
        from otflam.report import draw_expert_curves

        names = {log.parent.name if log.stem == "log" else log.stem: log for log in self.logs}
        say(f"learning curves: {draw_expert_curves(names, self.out)}")
