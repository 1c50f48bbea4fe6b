"""Training an expert from nothing to a file, with exact resume."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from otflam.core.config import to_json
from otflam.core.errors import UserError
from otflam.core.files import write_text
from otflam.core.run import Run
from otflam.envs.recipe import Recipe
from otflam.envs.sac import SAC


def train_expert(
    task: str,
    out: Path,
    config: Recipe,
    seed: int,
    on_start: Callable[[int, int], None] = lambda done, total: None,
    on_step: Callable[[int], None] = lambda decisions: None,
    on_log: Callable[[dict], None] = lambda row: None,
) -> Path:
    """Train an expert, continuing from a checkpoint in `out` if there is one; return the file of the best policy.

    Best is decided by evaluations at repeat 1 on seeds of their own. `out/log.jsonl` holds the learning curve.
    """
    torch.set_num_threads(1)  # layers this small run no faster on two threads, and two tasks can train side by side
    if min(config.environments, config.batch, config.repeat, config.decisions, config.evaluate_episodes) < 1:
        raise UserError("environments, batch, repeat, decisions and evaluate-episodes", "each must be at least 1")
    run, best_file = Run(out, {"task": task, "seed": seed, **to_json(config)}), out / f"{task}.safetensors"
    sac, best, seconds, rows = SAC(task, config, seed), -math.inf, 0.0, []
    if (saved := run.load()) is not None:
        sac.load_state(saved["state"])
        best, seconds, rows = saved["best"], saved["seconds"], saved["rows"]
    on_start(sac.round * sac.steps * config.environments, sac.rounds * sac.steps * config.environments)
    began = time.monotonic() - seconds
    while sac.round < sac.rounds:
        row = sac.play_round(on_step) | {"round": sac.round}
        row["decisions"] = sac.round * sac.steps * config.environments
        row["seconds"] = seconds = round(time.monotonic() - began, 1)
        rows.append(row)
        if sac.round % config.evaluate_every == 0 or sac.round == sac.rounds:
            row["returns"] = sac.evaluate(config.evaluate_episodes)
            if (mean := float(np.mean(row["returns"]))) > best:
                best = mean
                about = {"task": task, "algorithm": "sac", "seed": seed, "round": sac.round}
                sac.expert().save(best_file, about | {"selection_return": round(mean, 1)})
            run.save({"state": sac.state(), "best": best, "seconds": seconds, "rows": rows})
            write_text(out / "log.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        on_log(row)
    return best_file
