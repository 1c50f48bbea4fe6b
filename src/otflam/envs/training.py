"""How an expert is trained, by whichever algorithm fits its world: in rounds, resumable, the best one kept."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from otflam.core import (
    SILENT,
    SMALLER_STEPS,
    Progress,
    Run,
    UserError,
    first_not_finite,
    import_name,
    to_json,
    write_text,
)
from otflam.envs.experts import Expert
from otflam.envs.recipe import Recipe
from otflam.envs.world import find_family

LEARNERS = {"sac": "otflam.envs.sac:SAC", "ppo": "otflam.envs.ppo:PPO"}


class Learner(Protocol):
    """The whole training state of an algorithm."""

    steps: int
    """Decisions of an environment in a round."""
    rounds: int
    round: int

    def play_round(self, progress: Progress) -> dict[str, float]:
        """Play and learn; what to log."""
        ...

    def evaluate(self, episodes: int) -> list[float]: ...

    def expert(self) -> Expert: ...

    def tensors(self) -> dict[str, Tensor]: ...

    def state(self) -> dict[str, Any]: ...

    def load_state(self, state: dict[str, Any]) -> None: ...


def learned_by(task: str) -> str:
    """The algorithm that trains a task's expert."""
    if (algorithm := find_family(task).learner) is None:
        raise UserError(f"experts of {task} cannot be trained here", "its world declares no algorithm")
    return algorithm


def check_recipe(config: Recipe, seed: int) -> None:
    """Refuse what no expert can be trained with."""
    counts = (config.environments, config.batch, config.repeat, config.decisions, config.width, config.evaluate_every)
    if min(*counts, config.evaluate_episodes) < 1 or min(config.random_rounds, config.imitated_rounds, seed) < 0:
        raise UserError(
            "environments, batch, repeat, decisions, width, evaluate-every and evaluate-episodes",
            "each must be at least 1, random-rounds, imitated-rounds and seed at least 0",
        )
    for name in ("lr", "updates_per_decision", "discount", "target_rate"):
        if not 0 < getattr(config, name) < math.inf:
            raise UserError(f"--{name.replace('_', '-')} {getattr(config, name)}", "give a number above 0")


def train_expert(task: str, out: Path, config: Recipe, seed: int, progress: Progress = SILENT) -> Path:
    """Train an expert, continuing from a checkpoint in `out` if there is one; return the file of the best policy.

    Best is decided by evaluations on seeds of their own. `out/log.jsonl` holds the learning curve.
    """
    torch.set_num_threads(1)  # layers this small run no faster on two threads, and two tasks can train side by side
    algorithm = learned_by(task)
    check_recipe(config, seed)
    run, best_file = Run(out, {"task": task, "seed": seed, **to_json(config)}), out / f"{task}.safetensors"
    learner: Learner = import_name(LEARNERS[algorithm])(task, config, seed)
    best, seconds = -math.inf, 0.0
    rows: list[dict[str, Any]] = []
    if (saved := run.load()) is not None:
        learner.load_state(saved["state"])
        best, seconds, rows = saved["best"], saved["seconds"], saved["rows"]
    in_round = learner.steps * config.environments
    progress.start(learner.round * in_round, learner.rounds * in_round)
    began = time.monotonic() - seconds
    while learner.round < learner.rounds:
        row: dict[str, Any] = {**learner.play_round(progress), "round": learner.round}
        row["decisions"] = learner.round * in_round
        row["seconds"] = seconds = round(time.monotonic() - began, 1)
        rows.append(row)
        if learner.round % config.evaluate_every == 0 or learner.round == learner.rounds:
            row["returns"] = learner.evaluate(config.evaluate_episodes)
            if (mean := float(np.mean(row["returns"]))) > best:
                best = mean
                about = {"task": task, "algorithm": algorithm, "seed": seed, "round": learner.round}
                learner.expert().save(best_file, about | {"selection_return": round(mean, 1)})
            if (broken := first_not_finite(learner.tensors())) is not None:
                raise UserError(f"{broken} is not finite in round {learner.round}", SMALLER_STEPS)
            run.save({"state": learner.state(), "best": best, "seconds": seconds, "rows": rows})
            write_text(out / "log.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        progress.log(row)
    return best_file
