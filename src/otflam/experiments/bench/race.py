"""A race of latent action models: same architecture, batch, data and step size, one thread."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

from otflam.core import Batch, Hardware, Run, TrainConfig, bfloat16, fit, launch, make_optimiser
from otflam.data import Clips, export_laom, split_episodes
from otflam.experiments.bench import benchmark
from otflam.experiments.bench.models import Stepping, plain_step, walker
from otflam.experiments.bench.opponents import Clock, Enough, TimeIsUpError, find_clone, load_modules, race_to_error
from otflam.experiments.bench.policy import CPU
from otflam.lam import LAM, Parts, build_lam
from otflam.presets import get_preset

BATCH, LR, FRAMES, LATENT = 32, 1e-3, 3, 256
SHARES = (0.75, 0.25)
"""Of the episodes that are trained on and held out."""
SECONDS = 60.0
"""How long the opponent trains before its error becomes the goal."""


def training() -> TrainConfig:
    return TrainConfig(
        10**6, BATCH, "adam", LR, ramp=50, clip=0.0, log_every=10**6, save_every=10**6, weights={"next": 1.0}
    )


def lapo() -> tuple[LAM, Clips, Callable[[], float]]:
    """Our LAPO, what it learns from, and its held-out error of the newest frame."""
    store, config = walker(), replace(get_preset("laptop").lam["lapo-256"], stride=1, reach=1, latent=LATENT)
    train, held = split_episodes(store, *SHARES)
    torch.manual_seed(0)
    model = build_lam("lapo-256", config, Parts((64, 64, 3))).train()
    unseen = Clips(store, model.offsets, episodes=held).batch(256, 0, 0)

    def error() -> float:
        model.eval()
        with torch.inference_mode():
            found = float(F.mse_loss(model.predict(unseen, model.infer(unseen)), unseen.images(1)))
        model.train()
        return found

    return model, Clips(store, model.training_offsets, episodes=train), error


def ours(hardware: Hardware, enough: Enough) -> Clock:
    """Our LAPO in our loop."""
    model, clips, error = lapo()
    machine, clock = launch(hardware), Clock(error, enough, BATCH)
    with tempfile.TemporaryDirectory() as folder, suppress(TimeIsUpError):
        run = Run(Path(folder) / "run", {})
        fit(model, clips, training(), run, machine, Stepping(model, lambda model, step: clock.step()))
    return clock


def restated(enough: Enough) -> Clock:
    """The same model in a plain loop with a DataLoader."""
    model, clips, error = lapo()
    optimiser, clock = make_optimiser(model, training()), Clock(error, enough, BATCH)
    with suppress(TimeIsUpError):
        while True:
            for samples in DataLoader(clips, BATCH, shuffle=True, drop_last=True):
                plain_step(model, Batch(samples["frames"], clips.offsets, {}), optimiser)
                clock.step()
    return clock


def theirs(laom: Path, enough: Enough) -> Clock:
    """LAOM's own model and data set in the loop of its script, in our words: the script itself does not start."""
    networks, tools = load_modules(laom, "src.nn", "src.utils")
    store = walker()
    train, held = split_episodes(store, *SHARES)
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

    clock = Clock(error, enough, BATCH)
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


@benchmark(">= 3", "x", opponent="laom")
def race_lapo_time_to_error() -> tuple[float, dict[str, float]]:
    """LAPO: CPU time to the held-out error that the opponent has after 60 s, opponent over ours, one thread"""
    laom, mine = find_clone("laom"), {"ours in float32": partial(ours, CPU)}
    if bfloat16().refusal is None:
        mine["ours in bfloat16"] = partial(ours, replace(CPU, precision="bfloat16"))
    return race_to_error(restated if laom is None else partial(theirs, laom), mine, SECONDS)
