"""The benchmark of DINOv2's features."""

from __future__ import annotations

import statistics
import time
from functools import partial

import numpy as np
import torch
from torch import Tensor

from otflam.experiments.bench import benchmark
from otflam.experiments.bench.models import random_dinov2_small
from otflam.lam import Backbone

SIZE, FRAMES, TURNS = 98, 8, 21


@benchmark(">= 1.5", "x")
def dino_features_speedup() -> tuple[float, dict[str, float]]:
    """DINOv2-small's features at 98 px, CPU time on one thread: transformers' model over ours in float32, 21 turns"""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ours = {name: random_dinov2_small(SIZE, name) for name in ("float32", "bfloat16")}
    frames = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (FRAMES, 64, 64, 3), np.uint8))
    ways = {"plain": partial(_plain, ours["float32"], frames), **{name: partial(ours[name], frames) for name in ours}}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(TURNS + 1):
        for name, way in ways.items():
            began = time.process_time()
            way()
            spent[name].append(time.process_time() - began)
    torch.set_num_threads(threads)
    turns = {name: zip(spent["plain"][1:], spent[name][1:], strict=True) for name in ours}  # the first turn prepares
    ratios = {name: statistics.median(plain / own for plain, own in pairs) for name, pairs in turns.items()}
    return ratios["float32"], ratios


def _plain(backbone: Backbone, frames: Tensor) -> Tensor:
    with torch.inference_mode():
        return backbone.model(pixel_values=backbone.pixels(frames)).last_hidden_state[:, 1:].clone()
