"""The one training loop, for every trainable thing.

A model's `forward(batch)` returns its losses; this file weighs them, steps, logs and saves. Batches and the random
numbers of a step are pure functions of (seed, step), so a checkpoint is the model, the optimiser and the step, and a
run that was killed ends in the same bits as one that was not. On many processes each takes its part of the same batch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from otflam.core.batch import Terms
from otflam.core.config import SMALLER_STEPS, TrainConfig, to_json, versions
from otflam.core.errors import UserError, first_line
from otflam.core.machine import Machine, seed_all
from otflam.core.nn import Block, Residual
from otflam.core.progress import SILENT, Progress
from otflam.core.release import first_not_finite, save_weights
from otflam.core.run import Run

M = TypeVar("M", bound=nn.Module)
CLIP_MARGIN = 1e-6
"""What torch adds to a gradient's norm when it clips."""


@runtime_checkable
class Feed(Protocol):
    """Where batches come from."""

    def batch(self, size: int, seed: int, step: int, rank: int, world: int) -> Any:
        """Part `rank` of `world` of batch number `step`: whatever the model takes, if it can go `to` a device."""
        ...


@runtime_checkable
class Follower(Protocol):
    """A model of which something follows its weights, such as a slow copy."""

    def after_step(self) -> None:
        """Called after every step of the optimiser."""
        ...


def train_into(
    out: Path,
    about: dict[str, Any],
    model: M,
    feed: Callable[[], Feed],
    train: TrainConfig,
    fabric: Machine,
    load: Callable[[], M],
    progress: Progress = SILENT,
    check: Callable[[], dict[str, float]] | None = None,
    finish: Callable[[], None] | None = None,
) -> M:
    """Train a fresh model into a folder, continue what was begun there, or `load` what is finished.

    `about` is what the folder belongs to; `feed` makes the batches' source when it is needed, and `finish` may add to
    the folder, or refuse the model, before its weights are saved.
    """
    check_batch(train, fabric)
    about = about | {"train": to_json(train), "versions": versions("torch", "numpy")}
    run = Run(out, about, writes=fabric.global_rank == 0, logger=fabric.hardware.logger)
    if run.finished:
        return load()
    fit(model, feed(), train, run, fabric, progress, check)
    if fabric.global_rank == 0:
        if finish is not None:
            finish()
        save_weights(model, out)
    fabric.barrier()
    return model.cpu().eval()


def fit(
    model: nn.Module,
    feed: Feed,
    config: TrainConfig,
    run: Run,
    fabric: Machine,
    progress: Progress = SILENT,
    check: Callable[[], dict[str, float]] | None = None,
) -> None:
    """Train a model in place, continuing from the run's checkpoint if there is one.

    What `check` finds out about the model is logged with every checkpoint.
    """
    check_batch(config, fabric)
    optimiser = make_optimiser(model, config)
    module, optimiser = prepare(model, optimiser, fabric)
    rank, world, parts = fabric.global_rank, fabric.world_size, fabric.hardware.parts
    saved, step = run.load(), 0
    if saved is not None:
        step = restore(saved, model, optimiser, config, run.checkpoint)
    run.forget_after(step)
    progress.start(step, config.steps)
    module.train()
    began, counted = time.monotonic(), step
    while step < config.steps:
        for group in optimiser.param_groups:
            group["lr"] = config.lr * rate_at(config, step)
        seed_all(int(np.random.SeedSequence([config.seed, step, rank]).generate_state(1)[0]), fabric.device)
        batches = (
            feed.batch(config.batch, config.seed, step, rank * parts + part, world * parts).to(fabric.device)
            for part in range(parts)
        )
        logged = train_step(module, batches, optimiser, config, fabric, step)
        if isinstance(model, Follower):
            model.after_step()
        step += 1
        progress.advance()
        saving = step % config.save_every == 0 or step == config.steps
        if saving and (broken := not_finite(model.state_dict(), optimiser.state_dict())) is not None:
            raise UserError(f"{broken} is not finite after step {step}", SMALLER_STEPS)
        if step % config.log_every == 0 or (saving and check is not None) or step == config.steps:
            row = average({name: value.detach() for name, value in logged.items()}, fabric)
            row |= {"step": step, "steps_per_s": (step - counted) / (time.monotonic() - began)}
            if check is not None and saving:
                row |= {f"check/{name}": value for name, value in check().items()}
            began, counted = time.monotonic(), step
            run.log(row)
            progress.log(row)
        if saving:
            run.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step})
    run.close()
    model.eval()


def prepare(model: nn.Module, optimiser: torch.optim.Optimizer, fabric: Machine) -> tuple[Any, Any]:
    """The model as the loop calls it: compiled, and sparing with memory, if that was asked for."""
    if fabric.hardware.recompute:
        for layer in model.modules():
            if isinstance(layer, Block | Residual):
                layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
    compiled: Any = torch.compile(model, dynamic=False) if fabric.hardware.compile else model
    return fabric.prepare(compiled, optimiser)


def check_batch(config: TrainConfig, fabric: Machine) -> None:
    """Refuse a batch that processes and parts cannot share equally."""
    shares = fabric.world_size * fabric.hardware.parts
    if config.batch % shares:
        parts = f" in {fabric.hardware.parts} parts" if fabric.hardware.parts > 1 else ""
        raise UserError(
            f"a batch of {config.batch} on {fabric.world_size} processes{parts}", f"choose a multiple of {shares}"
        )


def not_finite(weights: dict[str, Any], optimiser: dict[str, Any]) -> str | None:
    """The name of something in a training's state that is not a finite number, if there is such a thing."""
    tensors = dict(weights)
    for number, moments in optimiser["state"].items():
        tensors |= {f"the optimiser's {name} of parameter {number}": tensor for name, tensor in moments.items()}
    return first_not_finite(tensors)


def restore(saved: dict[str, Any], model: nn.Module, optimiser: Any, config: TrainConfig, file: Path) -> int:
    """Continue from a checkpoint and return its step; one that does not fit, or is not finite, is named."""
    cure = "delete it to start again"
    try:
        step, broken = saved["step"], not_finite(saved["model"], saved["optimiser"])
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise UserError(f"{file} does not fit this training ({first_line(error)})", cure) from None
    if broken is not None or not isinstance(step, int) or not 0 <= step <= config.steps:
        raise UserError(f"{file} is damaged ({broken or 'step'})", cure)
    return step


def train_step(
    module: Any, batches: Iterable[Any], optimiser: Any, config: TrainConfig, fabric: Machine, step: int
) -> dict[str, Tensor]:
    """Take one gradient step on the parts of a batch and return what to log."""
    optimiser.zero_grad(set_to_none=True)
    parts, found = fabric.hardware.parts, []
    for part, batch in enumerate(batches):
        terms: Terms = module(batch)
        if terms.losses.keys() != config.weights.keys():
            raise KeyError(f"losses and weights disagree on {sorted(terms.losses.keys() ^ config.weights.keys())}")
        total = torch.stack([config.weights[name] * loss for name, loss in terms.losses.items()]).sum()
        fabric.go_back(module, total / parts if parts > 1 else total, more=part + 1 < parts)
        found.append({"total": total, **terms.losses, **terms.metrics})
    parameters = [each for each in module.parameters() if each.grad is not None]
    try:
        norm = torch.nn.utils.get_total_norm([each.grad for each in parameters], error_if_nonfinite=True)
    except RuntimeError:
        raise UserError(f"the gradient is not finite at step {step}", SMALLER_STEPS) from None
    if config.clip and config.clip < norm + CLIP_MARGIN:  # else torch would multiply every gradient by one
        torch.nn.utils.clip_grads_with_norm_(parameters, config.clip, norm)
    optimiser.step()
    if parts == 1:
        return {"grad_norm": norm, **found[0]}
    means = {name: torch.stack([each[name].detach().float() for each in found]).mean() for name in found[0]}
    return {"grad_norm": norm, **means}


def make_optimiser(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    kind = torch.optim.AdamW if config.optimiser == "adamw" else torch.optim.Adam
    return kind(model.parameters(), lr=config.lr, weight_decay=config.weight_decay, fused=True)


def rate_at(config: TrainConfig, step: int) -> float:
    """The share of the step size in force at a step."""
    rise = min(1.0, (step + 1) / config.ramp) if config.ramp else 1.0
    done = max(0, step - config.ramp) / max(1, config.steps - config.ramp)
    fall = {"constant": 1.0, "linear": 1 - done, "cosine": 0.5 * (1 + math.cos(math.pi * done))}[config.schedule]
    return rise * fall


def average(values: dict[str, Tensor], fabric: Machine) -> dict[str, float]:
    """Means over all processes."""
    together = torch.stack([value.to(torch.float32) for value in values.values()])
    sum_over_processes(together)
    return dict(zip(values, (together / fabric.world_size).tolist(), strict=True))


def together() -> bool:
    return dist.is_available() and dist.is_initialized()


def leave_process_group() -> None:
    """Go on alone: what one process looks at after a training must not wait for the others, which have ended."""
    if together():
        dist.destroy_process_group()


def sum_over_processes(total: Tensor) -> Tensor:
    """Add up a tensor over all processes, in place."""
    if together():
        dist.all_reduce(total)
    return total


def gather_rows(rows: Shaped[Tensor, "n ..."]) -> Shaped[Tensor, "m ..."]:
    """The rows of all processes in their order: what one process with the whole batch would have."""
    if not together():
        return rows
    counts = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
    padded = rows.new_zeros(int(torch.cat(counts).max()), *rows.shape[1:])  # all must send equally many
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(parts, padded)
    return torch.cat([part[: int(count)] for part, count in zip(parts, counts, strict=True)])
