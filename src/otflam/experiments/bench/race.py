"""Races against public code that a user has put beside ours: same architecture, batch, data and step size, one thread.

The folder has clones of public repositories under their own names (`laom`); nothing of them is in this package.
Without it there is no race.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

from otflam.core import Run, TrainConfig, UserError, fit, launch
from otflam.data import Clips, export_laom, split_episodes
from otflam.experiments.bench import benchmark
from otflam.experiments.bench.models import Stepping, TimeIsUpError, walker
from otflam.experiments.bench.policy import CPU
from otflam.lam import Parts, build_lam
from otflam.presets import get_preset

opponents: list[Path] = []
"""The folder of clones, if there is one."""
BATCH, LR, FRAMES, LATENT = 32, 1e-3, 3, 256
SECONDS = 60.0
"""How long the opponent trains before its error becomes the goal."""
CHECK_EVERY = 10
Curve = list[tuple[float, float]]
"""Training seconds and held-out error of the newest frame."""


class Clock:
    """Training seconds without those of measuring."""

    def __init__(self, error: Callable[[], float], enough: Callable[[Curve], bool]) -> None:
        self.error, self.enough = error, enough
        self.curve: Curve = []
        self.spent, self.steps, self.resumed = 0.0, 0, time.perf_counter()

    def step(self) -> None:
        self.steps += 1
        if self.steps % CHECK_EVERY:
            return
        self.spent += time.perf_counter() - self.resumed
        self.curve.append((self.spent, self.error()))
        if self.enough(self.curve):
            raise TimeIsUpError
        self.resumed = time.perf_counter()

    @property
    def samples_per_s(self) -> float:
        return BATCH * len(self.curve) * CHECK_EVERY / self.spent


def training() -> TrainConfig:
    return TrainConfig(
        10**6, BATCH, "adam", LR, ramp=50, clip=0.0, log_every=10**6, save_every=10**6, weights={"next": 1.0}
    )


def ours(enough: Callable[[Curve], bool]) -> Clock:
    """Our LAPO in our loop."""
    store, config = walker(), replace(get_preset("laptop").lam["lapo-256"], stride=1, reach=1, latent=LATENT)
    train, held = split_episodes(store, 0.75, 0.25)
    torch.manual_seed(0)
    model = build_lam("lapo-256", config, Parts((64, 64, 3))).train()
    unseen = Clips(store, model.offsets, episodes=held).batch(256, 0, 0)

    def error() -> float:
        model.eval()
        with torch.inference_mode():
            found = float(F.mse_loss(model.predict(unseen, model.infer(unseen)), unseen.images(1)))
        model.train()
        return found

    clock = Clock(error, enough)
    with tempfile.TemporaryDirectory() as folder, suppress(TimeIsUpError):
        run, clips = Run(Path(folder) / "run", {}), Clips(store, model.training_offsets, episodes=train)
        fit(model, clips, training(), run, launch(CPU), Stepping(model, lambda model, step: clock.step()))
    return clock


def theirs(folder: Path, enough: Callable[[Curve], bool]) -> Clock:
    """LAOM's own model and data set in the loop of its script, in our words: the script itself does not start."""
    networks, tools = laom_modules(folder / "laom")
    store = walker()
    train, held = split_episodes(store, 0.75, 0.25)
    with tempfile.TemporaryDirectory() as temporary:
        export_laom(store, file := Path(temporary) / "walker.hdf5")
        seen, unseen = (tools.DCSInMemoryDataset(str(file), frame_stack=FRAMES) for _ in range(2))
    order = sorted(range(len(store)), key=str)  # as HDF5 lists them
    for data, episodes in ((seen, train), (unseen, held)):
        for name in ("observations", "actions"):
            setattr(data, name, [getattr(data, name)[order.index(int(index))] for index in episodes])
    torch.manual_seed(0)
    model = networks.LAPO((3 * FRAMES, 64, 64), LATENT, 1, (16, 32, 32), 0).train()
    chosen = np.random.default_rng(0).choice(len(unseen), 256, replace=False)
    before, after = (torch.stack([unseen[int(index)][place] for index in chosen]) for place in (0, 1))
    probe = nn.Linear(LATENT, seen.act_dim)
    optimisers = [
        torch.optim.Adam(tools.get_optim_groups(model, 0.0), lr=LR, fused=True),
        torch.optim.Adam(probe.parameters(), lr=LR),
    ]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimisers[0], lambda step: min(1.0, (step + 1) / 50))

    def shown(frames: Tensor) -> Tensor:
        return tools.normalize_img(frames.permute(0, 3, 1, 2))

    def error() -> float:
        model.eval()
        with torch.inference_mode():
            drawn = model(shown(before), shown(after))[0][:, -3:]
            found = float(F.mse_loss((drawn + 1) / 2, (shown(after)[:, -3:] + 1) / 2))
        model.train()
        return found

    clock = Clock(error, enough)
    with suppress(TimeIsUpError):
        while True:
            for now, ahead, actions in DataLoader(seen, BATCH, shuffle=True, drop_last=True):
                now, ahead = shown(now), shown(ahead)
                with torch.autocast("cpu", torch.bfloat16):
                    drawn, latent = model(now, ahead)
                    loss = F.mse_loss(drawn, ahead)
                optimisers[0].zero_grad(set_to_none=True)
                loss.backward()
                optimisers[0].step()
                schedule.step()
                with torch.autocast("cpu", torch.bfloat16):
                    guessed = F.mse_loss(probe(latent.detach()), actions)
                optimisers[1].zero_grad(set_to_none=True)
                guessed.backward()
                optimisers[1].step()
                _ = loss.item(), guessed.item(), tools.get_grad_norm(model).item()  # what it logs at every step
                clock.step()
    return clock


def laom_modules(folder: Path) -> tuple[Any, Any]:
    """LAOM's networks and tools, which lie in a package called src."""
    sys.path.insert(0, str(folder))
    try:
        return import_module("src.nn"), import_module("src.utils")
    except ImportError as error:
        raise UserError(f"LAOM's code in {folder} cannot be loaded ({error})", "install its requirements") from None
    finally:
        sys.path.remove(str(folder))


@benchmark(">= 3", "x")
def race_lapo_time_to_error() -> tuple[float, dict[str, float]]:
    """time to the held-out error that LAOM's LAPO has after 60 s, that of LAOM (--opponents) over ours, one thread"""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    if not opponents:
        raise UserError("a race needs somebody to race with", "give a folder with a clone of LAOM by --opponents")
    try:
        other = theirs(opponents[0], lambda curve: curve[-1][0] > SECONDS)
        goal = min(error for _, error in other.curve)
        mine = ours(lambda curve: curve[-1][1] <= goal or curve[-1][0] > 2 * SECONDS)
    finally:
        torch.set_num_threads(threads)
    first = [next((spent for spent, error in clock.curve if error <= goal), np.inf) for clock in (other, mine)]
    rates = {"LAOM, samples/s": other.samples_per_s, "ours, samples/s": mine.samples_per_s, "error": goal}
    return float(first[0] / first[1]), rates
