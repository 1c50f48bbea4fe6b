"""How much of what the processor can do every training step uses, and where the rest of its time goes.

The processor's best is a matrix product of the same run on one thread. Operations of a step are those of its matrix
products, convolutions and attention, forwards and backwards; all else counts as time lost.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from otflam.core import TrainConfig, launch, make_optimiser, train_step
from otflam.experiments.bench import benchmark
from otflam.experiments.bench.models import ready, walker
from otflam.experiments.bench.policy import CPU, clone_and_clips, decoder_and_pairs
from otflam.lam import METHODS
from otflam.presets import get_preset
from otflam.tokenizer import build_tokenizer, motion_clips

SIDE = 1024
"""Rows and columns of the product that stands for the processor's best."""
WARM_STEPS, TIMED_STEPS, PROFILED_STEPS = 3, 10, 4
TRANSFORMERS = ("otf-lam", "flam", "hilam")
"""How the names of methods begin whose steps are mostly matrix products."""
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
KINDS = {
    "arithmetic": {
        *("mm", "bmm", "addmm", "baddbmm", "mkldnn_convolution", "_convolution", "convolution_backward"),
        *(ATTENTION, f"{ATTENTION}_backward"),
    },
    "optimiser": {"_fused_adam_", "_fused_adamw_", "_foreach_norm", "_foreach_mul_", "linalg_vector_norm"},
}
"""Operators of torch by what they do; every other one moves or maps numbers in memory."""
Ready = Callable[[], tuple[nn.Module, Any, TrainConfig]]


@cache
def peak_flops() -> float:
    """Operations a second of a large matrix product on one thread, the best of several."""
    left, right = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    seconds = []
    for _ in range(12):
        began = time.perf_counter()
        left @ right
        seconds.append(time.perf_counter() - began)
    return 2 * SIDE**3 / min(seconds)


def share_of_peak(make: Ready) -> tuple[float, dict[str, float]]:
    """Of one training step on one thread; and the shares of its time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _measure(*make())
    finally:
        torch.set_num_threads(threads)


def _measure(model: nn.Module, feed: Any, training: TrainConfig) -> tuple[float, dict[str, float]]:
    fabric = launch(CPU)
    module, optimiser = fabric.prepare(model, make_optimiser(model, training))
    reading, whole = [], []
    for step in range(WARM_STEPS + TIMED_STEPS):
        began = time.perf_counter()
        batch = feed.batch(training.batch, 0, step, 0, 1)
        read = time.perf_counter()
        train_step(module, [batch], optimiser, training, fabric, step)
        if step >= WARM_STEPS:
            reading.append(read - began)
            whole.append(time.perf_counter() - began)
    with FlopCounterMode(display=False) as counter:
        train_step(module, [batch], optimiser, training, fabric, 0)
    seconds = sorted(whole)[len(whole) // 2]
    share = counter.get_total_flops() / seconds / peak_flops()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        began = time.perf_counter()
        for step in range(PROFILED_STEPS):
            train_step(module, [batch], optimiser, training, fabric, step)
        spent = time.perf_counter() - began
    kinds = defaultdict[str, float](float)
    for event in profiled.key_averages():
        name = event.key.removeprefix("aten::")
        if event.key.startswith("aten::"):
            kind = next((kind for kind, names in KINDS.items() if name in names), "memory")
            kinds[kind] += event.self_cpu_time_total / 1e6
    kinds["python"] = max(0.0, spent - sum(kinds.values()))
    loader = sum(reading) / sum(whole)
    return share, {"loader": loader} | {kind: (1 - loader) * time / spent for kind, time in kinds.items()}


def _lam(method: str) -> tuple[nn.Module, Any, TrainConfig]:
    return *ready(method, "laptop"), get_preset("laptop").lam_training[method]


def _tokenizer() -> tuple[nn.Module, Any, TrainConfig]:
    preset = get_preset("laptop")
    return build_tokenizer(preset.tokenizer), motion_clips(walker(), preset.tokenizer), preset.tokenizer_training


TRAININGS: dict[str, tuple[Ready, str]] = {
    "tokenizer": (_tokenizer, ">= 0.45"),
    **{
        name: (partial(_lam, name), ">= 0.6" if name.startswith(TRANSFORMERS) else ">= 0.45")
        for name, method in METHODS.items()
        if "laptop" in method.sizes
    },
    "clone": (clone_and_clips, ">= 0.45"),
    "decoder": (decoder_and_pairs, ">= 0.45"),
}
for _name, (_make, _goal) in TRAININGS.items():
    benchmark(_goal, "of a matrix product's speed", f"share_of_peak_{_name}", f"a laptop training step of {_name}")(
        partial(share_of_peak, _make)
    )
