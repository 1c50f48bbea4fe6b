"""Benchmarks of policies, and how long the laptop preset's trainings take on one core."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from otflam.core import Hardware, Run, TrainConfig, fit, launch, make_optimiser, train_step
from otflam.data import Clips, Column, derive
from otflam.envs import World
from otflam.evaluate import EVALUATION, play
from otflam.experiments.bench import benchmark
from otflam.experiments.bench.models import fresh, ready, walker
from otflam.experiments.calibration import StepTimer
from otflam.policy import (
    ActionDecoder,
    ActionDecoderConfig,
    ActionSpace,
    Agent,
    Clone,
    LatentSpace,
    Pairs,
    Target,
    describe_agent,
)
from otflam.presets import get_preset

STEPS = 25
"""Timed training steps."""
LATENT = 256
CPU = Hardware(accelerator="cpu")


@benchmark("<= 4", "min")
def lam_training_minutes() -> tuple[float, dict[str, float]]:
    """training of the slowest laptop LAM on one thread, from 25 of its steps"""
    minutes = {}
    for method, training in get_preset("laptop").lam_training.items():
        model, clips = ready(method, "laptop")
        minutes[method] = training.steps * _step_seconds(model, clips, training) / 60
    return max(minutes.values()), minutes


@benchmark("<= 1.2", "min")
def clone_minutes() -> float:
    """training of a laptop clone on one thread"""
    model, clips, training = clone_and_clips()
    return training.steps * _step_seconds(model, clips, training) / 60


@benchmark("<= 30", "s")
def decoder_seconds() -> float:
    """training of the laptop decoder with most labels"""
    return max(get_preset("laptop").labels.values()) * _step_seconds(*decoder_and_pairs())


@benchmark("none", "x")
def clone_latents_stored() -> float:
    """a clone's training step with LAPO-256 in every step over stored latents"""
    training, clone = get_preset("laptop").policy.clone, _clone()
    lam, clips = ready("lapo-256", "laptop")
    stored = _latents().clips(walker(), (-2, -1, 0), range(12))
    fabric = launch(CPU)
    module, optimiser = fabric.prepare(clone, make_optimiser(clone, training))
    spent = [0.0, 0.0]
    for step in range(STEPS):
        for online in (True, False):
            began = time.perf_counter()
            batch = stored.batch(training.batch, 0, step)
            if online:
                with torch.no_grad():
                    latents = lam.infer(clips.batch(training.batch, 0, step))
                batch = batch._replace(columns={"latents": latents[:, None].expand(-1, 3, -1)})
            train_step(module, [batch], optimiser, training, fabric, step)
            spent[online] += (time.perf_counter() - began) * (step > 2)
    return spent[True] / spent[False]


@benchmark(">= 3000", "transitions/s")
def label_transitions_per_s() -> tuple[float, dict[str, float]]:
    """latent actions of a data set whose codes are stored, one thread: the slowest of LAPO-256 and OTF-LAM-Pixel"""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    store, rates = walker(), {}
    for method in ("lapo-256", "otf-lam-pixel"):
        model, columns = fresh(method, "laptop")
        model.eval().label(store, 0, columns)
        began = time.perf_counter()
        for index in range(1, len(store)):
            model.label(store, index, columns)
        rates[method] = (store.rows - int(store.lengths[0])) / (time.perf_counter() - began)
    torch.set_num_threads(threads)
    return min(rates.values()), rates


@benchmark("<= 14", "s")
def evaluation_seconds() -> float:
    """one agent, 10 episodes of 1,000 steps of walker-run with distractors, 2 processes"""
    clone, config = _clone(), ActionDecoderConfig()
    decoder = ActionDecoder(config, clone.actor.width + LATENT, ActionSpace.of(walker()))
    with tempfile.TemporaryDirectory() as folder:
        Agent(clone, decoder, describe_agent(clone, config, walker())).save_pretrained(folder)
        began = time.perf_counter()
        play(Path(folder), World("walker-run"), EVALUATION, 10, 2)
        return time.perf_counter() - began


def _clone() -> Clone:
    torch.manual_seed(0)
    return Clone(get_preset("laptop").policy.actor, (64, 64, 3), LatentSpace(LATENT), "latents").train()


def clone_and_clips() -> tuple[Clone, Clips, TrainConfig]:
    return _clone(), _latents().clips(walker(), (-2, -1, 0), range(12)), get_preset("laptop").policy.clone


def decoder_and_pairs() -> tuple[ActionDecoder, Pairs, TrainConfig]:
    policy = get_preset("laptop").policy
    space, width = ActionSpace.of(walker()), policy.actor.state + LATENT
    pairs = Pairs(torch.randn(16_000, width), torch.rand(16_000, space.outputs))
    return ActionDecoder(ActionDecoderConfig(), width, space), pairs, policy.decode


def _latents() -> Target:
    """Numbers in the place of latents: only imitating them is measured."""

    def compute(index: int) -> np.ndarray:
        return np.random.default_rng(index).standard_normal((int(walker().lengths[index]), LATENT), np.float32)

    return Target("latents", derive(walker(), "latents", "bench", Column("float32", (LATENT,)), compute), (2,))


def _step_seconds(model: torch.nn.Module, feed: Clips | Pairs, training: TrainConfig) -> float:
    """Seconds of a step of the real training loop, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    short = TrainConfig(STEPS, training.batch, lr=1e-5, log_every=10**6, save_every=10**6, weights=training.weights)
    timer = StepTimer()
    with tempfile.TemporaryDirectory() as folder:
        fit(model, feed, short, Run(Path(folder) / "run", {}), launch(CPU), timer)
    torch.set_num_threads(threads)
    return timer.seconds()
