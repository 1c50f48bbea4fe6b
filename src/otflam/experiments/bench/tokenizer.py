"""Benchmarks of the tokenizer: time to an error, encoding, and the cost of a larger vocabulary."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

from otflam.core import Hardware, Run, TrainProgress, fit, launch
from otflam.data import Collection, Store, collect_episodes, split_episodes
from otflam.envs import World
from otflam.evaluate import normalised_error
from otflam.presets import PUBLIC, get_preset
from otflam.tokenizer import (
    MotionAutoencoder,
    TokenizerConfig,
    build_tokenizer,
    encode_store,
    motion_clips,
    packaged_tokenizer,
)

PUBLIC_SECONDS = 150.0
"""How long the public decoder's shape may train before its error becomes the goal."""
CHECK_EVERY = 10
HELD_OUT = 96


class TimeIsUpError(Exception):
    pass


@cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()


@cache
def walker() -> Store:
    """A little walker-run data, made once per run of the benchmarks."""
    return collect_episodes(
        Collection(World("walker-run"), episodes=12, steps=150), Path(_folder().name) / "walker", workers=2
    )


def _train(config: TokenizerConfig, after_step: Callable[[MotionAutoencoder, int], None]) -> None:
    """Train without end; `after_step` raises to stop."""
    store = walker()
    train = dataclasses.replace(get_preset("laptop").tokenizer_training, steps=10**6, log_every=10**6, save_every=10**6)
    clips = motion_clips(store, config, split_episodes(store, 0.75, 0.25)[0])
    torch.manual_seed(0)
    model, done = build_tokenizer(config), 0

    def step(count: int) -> None:
        nonlocal done
        done += count
        after_step(model, done)

    with tempfile.TemporaryDirectory() as folder:
        try:
            fit(model, clips, train, Run(Path(folder) / "run", {}), launch(Hardware()), TrainProgress(step=step))
        except TimeIsUpError:
            model.eval()


def tokenizer_time_to_error() -> float:
    """Training time to the best held-out error that the public decoder's shape reaches, public over ours."""
    ours = dataclasses.replace(get_preset("laptop").tokenizer, warmup=40)
    public = _error_curve(dataclasses.replace(ours, decoder=PUBLIC), lambda curve: curve[-1][0] > PUBLIC_SECONDS)
    goal = min(error for _, error in public)
    reached = _error_curve(ours, lambda curve: curve[-1][1] <= goal or curve[-1][0] > PUBLIC_SECONDS)
    first = [next(seconds for seconds, error in curve if error <= goal) for curve in (public, reached)]
    return first[0] / first[1]


def _error_curve(
    config: TokenizerConfig, enough: Callable[[list[tuple[float, float]]], bool]
) -> list[tuple[float, float]]:
    """Held-out error against training seconds, without the time of measuring."""
    store = walker()
    held_out = motion_clips(store, config, split_episodes(store, 0.75, 0.25)[1])
    curve: list[tuple[float, float]] = []
    spent, resumed = 0.0, time.perf_counter()

    def measure(model: MotionAutoencoder, step: int) -> None:
        nonlocal spent, resumed
        if step <= config.warmup or step % CHECK_EVERY:
            return
        spent += time.perf_counter() - resumed
        curve.append((spent, normalised_error(model, held_out, HELD_OUT)))
        resumed = time.perf_counter()
        if enough(curve):
            raise TimeIsUpError

    _train(config, measure)
    return curve


def encode_transitions_per_s() -> float:
    """Transitions encoded per second of wall time on all cores, writing included."""
    store = walker()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = Path(folder) / "tokenizer"
        tokenizer.mkdir()
        for name in ("config.json", "model.safetensors"):
            (tokenizer / name).write_bytes((packaged_tokenizer() / name).read_bytes())
        began = time.perf_counter()
        encode_store(store, tokenizer)
        return store.rows / (time.perf_counter() - began)


def step_cost_k128_over_k16() -> float:
    """Time of a training step with 128 codes over one with 16, interleaved."""
    base = get_preset("laptop").tokenizer
    batch = motion_clips(walker(), base).batch(get_preset("laptop").tokenizer_training.batch, 0, 0)
    times = {16: 0.0, 128: 0.0}
    models = {}
    for codes in times:
        book = dataclasses.replace(base.codebook, codes=codes)
        model = build_tokenizer(dataclasses.replace(base, codebook=book, warmup=1))
        models[codes] = (model, torch.optim.AdamW(model.parameters(), 1e-3, fused=True))
    for turn in range(14):
        for codes, (model, optimiser) in models.items():
            began = time.perf_counter()
            optimiser.zero_grad()
            losses = model(batch).losses
            (losses["rec"] + 0.25 * losses["commit"]).backward()
            optimiser.step()
            times[codes] += time.perf_counter() - began if turn >= 4 else 0.0
    return times[128] / times[16]
