"""Training an expert from nothing to a file, with exact resume."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import numpy as np
import torch

from otflam.core import SILENT, SMALLER_STEPS, Progress, Run, UserError, first_not_finite, to_json, write_text
from otflam.envs.recipe import Recipe
from otflam.envs.sac import SAC


def check_recipe(config: Recipe, seed: int) -> None:
    """Refuse what no expert can be trained with."""
    counts = (config.environments, config.batch, config.repeat, config.decisions, config.width, config.evaluate_every)
    if min(*counts, config.evaluate_episodes) < 1 or min(config.random_rounds, seed) < 0:
        raise UserError(
            "environments, batch, repeat, decisions, width, evaluate-every and evaluate-episodes",
            "each must be at least 1, random-rounds and seed at least 0",
        )
    for name in ("lr", "updates_per_decision", "discount", "target_rate"):
        if not 0 < getattr(config, name) < math.inf:
            raise UserError(f"--{name.replace('_', '-')} {getattr(config, name)}", "give a number above 0")


def train_expert(task: str, out: Path, config: Recipe, seed: int, progress: Progress = SILENT) -> Path:
    """Train an expert, continuing from a checkpoint in `out` if there is one; return the file of the best policy.

    Best is decided by evaluations at repeat 1 on seeds of their own. `out/log.jsonl` holds the learning curve.
    """
    torch.set_num_threads(1)  # layers this small run no faster on two threads, and two tasks can train side by side
    check_recipe(config, seed)
    run, best_file = Run(out, {"task": task, "seed": seed, **to_json(config)}), out / f"{task}.safetensors"
    sac, best, seconds, rows = SAC(task, config, seed), -math.inf, 0.0, []
    if (saved := run.load()) is not None:
        sac.load_state(saved["state"])
        best, seconds, rows = saved["best"], saved["seconds"], saved["rows"]
    progress.start(sac.round * sac.steps * config.environments, sac.rounds * sac.steps * config.environments)
    began = time.monotonic() - seconds
    while sac.round < sac.rounds:
        row = sac.play_round(progress) | {"round": sac.round}
        row["decisions"] = sac.round * sac.steps * config.environments
        row["seconds"] = seconds = round(time.monotonic() - began, 1)
        rows.append(row)
        if sac.round % config.evaluate_every == 0 or sac.round == sac.rounds:
            row["returns"] = sac.evaluate(config.evaluate_episodes)
            if (mean := float(np.mean(row["returns"]))) > best:
                best = mean
                about = {"task": task, "algorithm": "sac", "seed": seed, "round": sac.round}
                sac.expert().save(best_file, about | {"selection_return": round(mean, 1)})
            if (broken := first_not_finite(sac.actor.state_dict() | sac.critic.state_dict())) is not None:
                raise UserError(f"{broken} is not finite in round {sac.round}", SMALLER_STEPS)
            run.save({"state": sac.state(), "best": best, "seconds": seconds, "rows": rows})
            write_text(out / "log.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        progress.log(row)
    return best_file
