"""Whom we race with: public code that a user has put beside ours, or else our own plain re-statements of it.

The folder has clones of public repositories under their own names; nothing of them is in this package.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from otflam.core import UserError

folder: list[Path] = []
"""The folder of clones, if there is one."""
CLONES = {"laom": "LAOM's public code", "lam_agent_ambiguity": "the authors' public code"}
"""What a race may need there, and what its record calls it."""
RESTATEMENT = "our own plain re-statement"
CHECK_EVERY = 10
Curve = list[tuple[float, float]]
"""Seconds of the processor spent on training, and the held-out error after them."""
Enough = Callable[[Curve], bool]


class TimeIsUpError(Exception):
    pass


def find_clone(name: str) -> Path | None:
    """Where the clone of a repository is; none without a folder of opponents."""
    if not folder:
        return None
    if not (folder[0] / name).is_dir():
        raise UserError(f"{folder[0]} has no clone of {CLONES[name]}", f"put it into a folder {name!r} there")
    return folder[0] / name


def opponent_of(name: str) -> str:
    """Whom a race that wants this clone is run against."""
    return CLONES[name] if folder else RESTATEMENT


def load_modules(clone: Path, *names: str) -> list[Any]:
    """Modules of somebody else, by the names that they have in their own repository."""
    sys.path.insert(0, str(clone))
    try:
        return [import_module(name) for name in names]
    except ImportError as error:
        raise UserError(f"the code in {clone} cannot be loaded ({error})", "install its requirements") from None
    finally:
        sys.path.remove(str(clone))


class Clock:
    """Seconds of training without those of measuring.

    They are the processor's, of one process with one thread: others that share the cores do not count.
    """

    def __init__(self, error: Callable[[], float], enough: Enough, batch: int, warmup: int = 0) -> None:
        self.error, self.enough, self.batch, self.warmup = error, enough, batch, warmup
        self.curve: Curve = []
        self.spent, self.steps, self.resumed = 0.0, 0, time.process_time()

    def step(self) -> None:
        """Hear of a step; the error is measured after some of them, and what is enough ends the training."""
        self.steps += 1
        if self.steps <= self.warmup or self.steps % CHECK_EVERY:
            return
        self.spent += time.process_time() - self.resumed
        self.curve.append((self.spent, self.error()))
        if self.enough(self.curve):
            raise TimeIsUpError
        self.resumed = time.process_time()

    @property
    def samples_per_s(self) -> float:
        return self.batch * self.steps / self.spent


def race_to_error(
    theirs: Callable[[Enough], Clock], ours: Mapping[str, Callable[[Enough], Clock]], seconds: float
) -> tuple[float, dict[str, float]]:
    """Time of the opponent to the least error that it has within so many seconds, over our time to that error.

    Of ours, which differ only in what a user may choose by an option, the fastest counts; all of them are recorded.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        other = theirs(lambda curve: curve[-1][0] > seconds)
        goal = min(error for _, error in other.curve)
        mine = {
            name: train(lambda curve: curve[-1][1] <= goal or curve[-1][0] > 2 * seconds)
            for name, train in ours.items()
        }
    finally:
        torch.set_num_threads(threads)
    parts = {"error": goal}
    for name, clock in {"opponent": other, **mine}.items():
        parts[f"{name}, s"] = next((spent for spent, error in clock.curve if error <= goal), np.inf)
        parts[f"{name}, samples/s"] = clock.samples_per_s
    return float(parts["opponent, s"] / min(parts[f"{name}, s"] for name in mine)), parts
