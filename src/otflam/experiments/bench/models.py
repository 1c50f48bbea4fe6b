"""Benchmarks of tokenizers and latent action models: time to an error, encoding, loading, and what storing saves."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from otflam.core import Batch, Hardware, Progress, Run, TrainConfig, UserError, fit, launch, make_optimiser
from otflam.data import Clips, Collection, Column, Store, collect_episodes, derive, split_episodes
from otflam.envs import World
from otflam.evaluate import normalised_error
from otflam.experiments.bench import benchmark
from otflam.experiments.bench.opponents import CHECK_EVERY, TimeIsUpError
from otflam.experiments.calibration import StepTimer
from otflam.lam import LAM, METHODS, Backbone, Base, Parts, build_lam
from otflam.presets import PUBLIC, get_preset
from otflam.tokenizer import (
    FrameTokenizer,
    MotionAutoencoder,
    TokenizerConfig,
    build_tokenizer,
    encode_store,
    motion_clips,
    packaged_tokenizer,
)

KINDS = ("otf-lam-pixel", "otf-lam-dino", "lapo-256", "flam-8", "hilam")
"""A method of each kind, the slowest of its kind."""
ROUNDS = 7
LOOP_STEPS = 40
"""Of each loop in a turn."""
STEPS = 12
"""Timed training steps; three more before them are not counted."""
PUBLIC_SECONDS = 150.0
"""How long the public decoder's shape may train before its error becomes the goal."""
HELD_OUT_CLIPS = 96


@benchmark("< 0.1", "of a step")
def loader_share() -> float:
    """reading a batch, largest share over OTF-LAM-Pixel, -DINO and LAPO, laptop"""
    return max(_loader_share(method) for method in KINDS)


def _loader_share(method: str) -> float:
    model, clips = ready(method, "laptop")
    training = get_preset("laptop").lam_training[method]
    optimiser, reading, whole = make_optimiser(model, training), 0.0, 0.0
    for step in range(STEPS + 3):
        began = time.perf_counter()
        batch = clips.batch(training.batch, 0, step)
        read = time.perf_counter()
        plain_step(model, batch, optimiser)
        if step >= 3:
            reading, whole = reading + read - began, whole + time.perf_counter() - began
    return reading / whole


@benchmark(">= 4", "x")
def dino_features_stored() -> float:
    """time of an OTF-LAM-DINO training step at the paper's width, batch 16: backbone in every step over stored"""
    size = 196
    model, _ = ready("otf-lam-dino", "paper", backbone := random_dinov2_small(size))
    frames = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (16, 2, 64, 64, 3), np.uint8))
    codes = torch.zeros(16, 2, 196, dtype=torch.uint8)
    features = torch.stack([backbone(frames[:, place]) for place in (0, 1)], 1).half()
    online = Batch(frames, (0, 2), {"codes": codes})
    return _ratio(model, online, Batch(frames, (0, 2), {"codes": codes, "features": features}))


@benchmark("none", "x")
def pixel_codes_stored() -> float:
    """time of an OTF-LAM-Pixel training step: tokenizer in every step over stored"""
    model, clips = ready("otf-lam-pixel", "laptop")
    batch = clips.batch(get_preset("laptop").lam_training["otf-lam-pixel"].batch, 0, 0)
    return _ratio(model, Batch(batch.frames, batch.offsets, {}), batch)


@benchmark(">= 1", "x")
def lapo_over_plain_loop() -> float:
    """steps per second of LAPO on one thread, our loop over a plain one with a DataLoader; median of seven turns"""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    seldom, weights = 10**6, {"next": 1.0}
    training = TrainConfig(LOOP_STEPS, 32, log_every=seldom, save_every=seldom, weights=weights, clip=0.0)
    model, clips = ready("lapo-256", "laptop")
    optimiser = make_optimiser(model, training)
    loader = DataLoader(clips, batch_size=32, shuffle=True)

    def plain(timer: StepTimer) -> None:
        for step, samples in enumerate(loader):
            if step == LOOP_STEPS:
                return
            plain_step(model, Batch(samples["frames"], clips.offsets, {}), optimiser)
            timer.advance()

    def ours(timer: StepTimer) -> None:
        with tempfile.TemporaryDirectory() as folder:
            fit(model, clips, training, Run(Path(folder) / "run", {}), launch(Hardware(accelerator="cpu")), timer)
            model.train()

    ratios = []
    for turn in range(ROUNDS):
        timers = {loop: StepTimer() for loop in ((plain, ours) if turn % 2 else (ours, plain))}  # each first in turn
        for loop, timer in timers.items():
            loop(timer)
        ratios.append(timers[plain].seconds() / timers[ours].seconds())
    torch.set_num_threads(threads)
    return statistics.median(ratios)


def _ratio(model: LAM, slow: Batch, fast: Batch) -> float:
    """Time of a training step on one batch over that on another, interleaved."""
    optimiser = make_optimiser(model, TrainConfig(lr=1e-4))
    spent = [0.0, 0.0]
    for turn in range(6):
        for place, batch in enumerate((slow, fast)):
            began = time.perf_counter()
            plain_step(model, batch, optimiser)
            spent[place] += (time.perf_counter() - began) * (turn > 0)
    return spent[0] / spent[1]


def plain_step(model: LAM, batch: Batch, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    torch.stack(list(model(batch).losses.values())).sum().backward()
    optimiser.step()


def ready(method: str, name: str, backbone: Backbone | None = None) -> tuple[LAM, Clips]:
    """A fresh model and clips with whatever its frozen networks would have stored."""
    model, columns = fresh(method, name, backbone)
    return model, Clips(walker(), model.training_offsets, (), None, columns)


def fresh(method: str, name: str, backbone: Backbone | None = None) -> tuple[LAM, dict[str, Store]]:
    """A model that has learned nothing, and the columns that its frozen networks would have stored."""
    preset, store = get_preset(name), walker()
    config, width = preset.lam[method], 384 if method == "otf-lam-dino" else None
    parts = Parts((64, 64, 3), backbone=backbone, width=width)
    torch.manual_seed(0)
    made: dict[Base, Callable[[], nn.Module]] = {
        "motion tokenizer": lambda: build_tokenizer(preset.tokenizer),
        "frame tokenizer": lambda: FrameTokenizer(preset.frame_tokenizer).eval(),
        "latent action model": lambda: build_lam("lapo-64", preset.lam["lapo-64"], parts).eval(),
    }
    if (base := METHODS[method].base) is not None:
        parts = replace(parts, base=made[base](), base_hash=f"bench-{name}")
    model = build_lam(method, config, parts).train()
    columns = model.columns(parts, store, None, online=True)
    if METHODS[method].features and backbone is None:
        columns["features"] = _random_features(store, (config.size // 14) ** 2, 384)
    return model, columns


def _random_features(store: Store, patches: int, width: int) -> Store:
    """Numbers in the place of features: only reading them is measured."""
    rng = np.random.default_rng(0)

    def compute(index: int) -> np.ndarray:
        return rng.standard_normal((int(store.lengths[index]), patches, width), np.float32).astype(np.float16)

    return derive(store, "features", "bench", Column("float16", (patches, width)), compute)


def random_dinov2_small(size: int, precision: str = "float32") -> Backbone:
    """The shape of DINOv2-small; its weights do not matter for its speed."""
    try:
        from transformers import Dinov2Config, Dinov2Model  # late: an extra
    except ImportError:
        raise UserError("transformers is not installed", "pip install 'otflam[dino]'") from None
    small = Dinov2Config(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=518, patch_size=14)
    return Backbone(Dinov2Model(small), "random", size, 14, 384, "bench", precision)


@cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()


@cache
def walker() -> Store:
    """A little walker-run data, made once per run of the benchmarks."""
    return collect_episodes(
        Collection(World("walker-run"), episodes=12, steps=150), Path(_folder().name) / "walker", workers=2
    )


class Stepping(Progress):
    """Calls a function of the model and the number of steps after each."""

    def __init__(self, model: Any, after_step: Callable[[Any, int], None]) -> None:
        self.model, self.after_step, self.done = model, after_step, 0

    def advance(self, count: int = 1) -> None:
        self.done += count
        self.after_step(self.model, self.done)


def train_endlessly(
    config: TokenizerConfig, after_step: Callable[[MotionAutoencoder, int], None], share: float = 0.75
) -> None:
    """Train a tokenizer on a share of the episodes without end; `after_step` raises to stop."""
    store = walker()
    train = dataclasses.replace(get_preset("laptop").tokenizer_training, steps=10**6, log_every=10**6, save_every=10**6)
    clips = motion_clips(store, config, split_episodes(store, share, 1 - share)[0])
    torch.manual_seed(0)
    model = build_tokenizer(config)
    with tempfile.TemporaryDirectory() as folder:
        try:
            fit(model, clips, train, Run(Path(folder) / "run", {}), launch(Hardware()), Stepping(model, after_step))
        except TimeIsUpError:
            model.eval()


@benchmark(">= 5", "x")
def tokenizer_time_to_error() -> float:
    """time to the held-out error that the public decoder's shape has after 150 s, same batches: public over ours"""
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
        curve.append((spent, normalised_error(model, held_out, HELD_OUT_CLIPS)))
        resumed = time.perf_counter()
        if enough(curve):
            raise TimeIsUpError

    train_endlessly(config, measure)
    return curve


@benchmark(">= 2000", "transitions/s")
def encode_transitions_per_s() -> float:
    """otflam tokenizer encode with the packaged tokenizer of walker-run"""
    store = walker()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = Path(folder) / "tokenizer"
        tokenizer.mkdir()
        for name in ("config.json", "model.safetensors"):
            (tokenizer / name).write_bytes((packaged_tokenizer("walker-run") / name).read_bytes())
        began = time.perf_counter()
        encode_store(store, tokenizer)
        return store.rows / (time.perf_counter() - began)


@benchmark("< 1.3", "x")
def step_cost_k128_over_k16() -> float:
    """time of a training step with 128 codes over 16 codes, interleaved"""
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
