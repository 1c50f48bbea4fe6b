"""Benchmarks of latent action models: what loading costs, and what storing frozen networks' outputs saves."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from otflam.core import Batch, Hardware, Run, TrainConfig, UserError, fit, launch, make_optimiser
from otflam.data import Clips, Column, Store, derive
from otflam.experiments.bench.tokenizer import walker
from otflam.lam import LAM, METHODS, Backbone, Base, Parts, build_lam
from otflam.presets import get_preset
from otflam.tokenizer import FrameTokenizer, build_tokenizer

KINDS = ("otf-lam-pixel", "otf-lam-dino", "lapo-256", "flam-8", "hilam")
"""A method of each kind, the slowest of its kind."""
STEPS = 12
"""Timed training steps; three more before them are not counted."""


def loader_share() -> float:
    """Largest share of a training step that goes into reading its batch, over the methods of the laptop preset."""
    return max(_loader_share(method) for method in KINDS)


def _loader_share(method: str) -> float:
    model, clips = ready(method, "laptop")
    training = get_preset("laptop").lam_training[method]
    optimiser, reading, whole = make_optimiser(model, training), 0.0, 0.0
    for step in range(STEPS + 3):
        began = time.perf_counter()
        batch = clips.batch(training.batch, 0, step)
        read = time.perf_counter()
        _step(model, batch, optimiser)
        if step >= 3:
            reading, whole = reading + read - began, whole + time.perf_counter() - began
    return reading / whole


def dino_features_stored() -> float:
    """Training steps of OTF-LAM-DINO at the paper's width, batch 16: with the backbone in every step over stored."""
    size = 196
    model, _ = ready("otf-lam-dino", "paper", backbone := _random_dinov2_small(size))
    frames = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (16, 2, 64, 64, 3), np.uint8))
    codes = torch.zeros(16, 2, 196, dtype=torch.uint8)
    features = torch.stack([backbone(frames[:, place]) for place in (0, 1)], 1).half()
    online = Batch(frames, (0, 2), {"codes": codes})
    return _ratio(model, online, Batch(frames, (0, 2), {"codes": codes, "features": features}))


def pixel_codes_stored() -> float:
    """Training steps of OTF-LAM-Pixel at the laptop preset: with the tokenizer in every step over stored codes."""
    model, clips = ready("otf-lam-pixel", "laptop")
    batch = clips.batch(get_preset("laptop").lam_training["otf-lam-pixel"].batch, 0, 0)
    return _ratio(model, Batch(batch.frames, batch.offsets, {}), batch)


def lapo_over_plain_loop() -> float:
    """Steps per second of our training loop over a plain one with a shuffling DataLoader, on the same model."""
    training = TrainConfig(steps=STEPS, batch=32, log_every=10**6, save_every=10**6, weights={"next": 1.0}, clip=0.0)
    model, clips = ready("lapo-256", "laptop")
    optimiser = make_optimiser(model, training)
    loader = DataLoader(clips, batch_size=32, shuffle=True)

    def plain() -> None:
        for step, samples in enumerate(loader):
            if step == STEPS:
                return
            _step(model, Batch(samples["frames"], clips.offsets, {}), optimiser)

    def ours() -> None:
        with tempfile.TemporaryDirectory() as folder:
            fit(model, clips, training, Run(Path(folder) / "run", {}), launch(Hardware(accelerator="cpu")))
            model.train()

    return _seconds(plain) / _seconds(ours)


def _seconds(work: Callable[[], None]) -> float:
    """The faster of two times: the first also warms up."""
    times = []
    for _ in range(2):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def _ratio(model: LAM, slow: Batch, fast: Batch) -> float:
    """Time of a training step on one batch over that on another, interleaved."""
    optimiser = make_optimiser(model, TrainConfig(lr=1e-4))
    spent = [0.0, 0.0]
    for turn in range(6):
        for place, batch in enumerate((slow, fast)):
            began = time.perf_counter()
            _step(model, batch, optimiser)
            spent[place] += (time.perf_counter() - began) * (turn > 0)
    return spent[0] / spent[1]


def _step(model: LAM, batch: Batch, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    torch.stack(list(model(batch).losses.values())).sum().backward()
    optimiser.step()


def ready(method: str, name: str, backbone: Backbone | None = None) -> tuple[LAM, Clips]:
    """A fresh model and clips with whatever its frozen networks would have stored."""
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
    columns = model.columns(parts, store, None, lambda name: lambda done, total: None, online=True)
    if METHODS[method].features and backbone is None:
        columns["features"] = _random_features(store, (config.size // 14) ** 2, 384)
    return model, Clips(store, model.training_offsets, (), None, columns)


def _random_features(store: Store, patches: int, width: int) -> Store:
    """Numbers in the place of features: only reading them is measured."""
    rng = np.random.default_rng(0)

    def compute(index: int) -> np.ndarray:
        return rng.standard_normal((int(store.lengths[index]), patches, width), np.float32).astype(np.float16)

    return derive(store, "features", "bench", Column("float16", (patches, width)), compute)


def _random_dinov2_small(size: int) -> Backbone:
    """The shape of DINOv2-small; its weights do not matter for its speed."""
    try:
        from transformers import Dinov2Config, Dinov2Model  # late: an extra
    except ImportError:
        raise UserError("transformers is not installed", "pip install 'otflam[dino]'") from None
    small = Dinov2Config(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=518, patch_size=14)
    return Backbone(Dinov2Model(small), "random", size, 14, 384, "bench")
