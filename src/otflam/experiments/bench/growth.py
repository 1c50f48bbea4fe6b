"""How cost grows with frames, episodes, codes and processes: the exponent of a power law through measured times.

1 is linear; above it is a defect. What a batch costs must not grow with the data at all.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch

from otflam.core import METRICS, Batch, read_metrics
from otflam.data import Clips, Column, Store, StoreWriter, derive, split_episodes
from otflam.experiments.bench import benchmark
from otflam.experiments.bench.models import walker
from otflam.experiments.bench.processes import processor_seconds
from otflam.presets import get_preset
from otflam.tokenizer import build_tokenizer

FRAMES = (10**4, 10**5, 10**6, 10**7)
EPISODES = (10**3, 10**4, 10**5)
CODES = (16, 64, 256, 1024, 4096)
PROCESSES = (1, 2, 4)
SHARED_BATCH, SHARED_STEPS, POLL_SECONDS = 128, 60, 0.1
"""Of a training that processes share."""
EPISODE_STEPS = 1000
TINY_FRAME = Column("uint8", (4, 4, 1))
"""Small, so that ten million of them fit a laptop's disk; what grows is their number."""
BATCHES, BATCH = 50, 512
STEPS, REPEATS = 8, 3
Times = dict[str, dict[int, float]]
"""Seconds of each piece of work by size."""


def tiny_store(path: Path, episodes: int, steps: int) -> Store:
    """A store of many frames that fill little space."""
    writer = StoreWriter(path, {"frames": TINY_FRAME}, {})
    frames = np.zeros((steps, *TINY_FRAME.shape), np.uint8)
    for index in range(episodes):
        writer.append(index, {"frames": frames}, {})
    return writer.finish({"kind": "zeros"}, episodes)


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """The least of so many times: what comes on top is the machine's."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def exponent(times: dict[int, float]) -> float:
    """The slope through the three largest sizes, on logarithmic scales: below them constant costs hide it."""
    sizes, taken = zip(*sorted(times.items())[-3:], strict=True)
    return float(np.polyfit(np.log(sizes), np.log(taken), 1)[0])


def parts_of(times: Times) -> dict[str, float]:
    """Every time, and the exponent of each piece of work."""
    found = {f"{work}, {size:,}": value for work, sizes in times.items() for size, value in sizes.items()}
    return {f"{work}, exponent": exponent(sizes) for work, sizes in times.items()} | found


@cache
def frame_times() -> Times:
    """Writing, opening, splitting, reading batches, deriving a column and checking, against frames."""
    times: Times = {}
    with tempfile.TemporaryDirectory() as folder:
        for frames in FRAMES:
            path = Path(folder) / str(frames)
            episodes = frames // EPISODE_STEPS
            found = {"write": seconds(lambda path=path, count=episodes: tiny_store(path, count, EPISODE_STEPS))}
            found["open"] = seconds(lambda path=path: split_episodes(Store(path), 0.5, 0.5), REPEATS)
            clips = Clips(store := Store(path), (0, 1))
            found["batch"] = min(
                seconds(lambda clips=clips, step=step: clips.batch(BATCH, 0, step)) for step in range(BATCHES)
            )
            found["derive"] = seconds(lambda store=store: _derive(store))
            found["check"] = seconds(store.check, REPEATS)
            for work, value in found.items():
                times.setdefault(work, {})[frames] = value
    return times


def _derive(store: Store) -> Store:
    """A column whose numbers cost nothing: what remains is the machinery."""

    def compute(index: int) -> np.ndarray:
        return np.zeros((int(store.lengths[index]), 1), np.float32)

    return derive(store, "zeros", "bench", Column("float32", (1,)), compute)


@benchmark("<= 1.05", "exponent")
def cost_exponent_frames() -> tuple[float, dict[str, float]]:
    """writing, opening, checking and deriving against 10^4 to 10^7 frames: the largest slope of the last two decades"""
    times = frame_times()
    return max(exponent(sizes) for sizes in times.values()), parts_of(times)


@benchmark("<= 0.1", "exponent")
def batch_exponent_frames() -> float:
    """reading a batch of 512 pairs against 10^4 to 10^7 frames"""
    return exponent(frame_times()["batch"])


@cache
def episode_times() -> Times:
    times: Times = {}
    with tempfile.TemporaryDirectory() as folder:
        for episodes in EPISODES:
            path = Path(folder) / str(episodes)
            times.setdefault("write", {})[episodes] = seconds(lambda path=path, n=episodes: tiny_store(path, n, 3))
            times.setdefault("open", {})[episodes] = seconds(lambda path=path: Clips(Store(path), (0, 1)), REPEATS)
    return times


@benchmark("<= 2", "s")
def open_seconds_100k_episodes() -> float:
    """opening a store of 100,000 episodes of three frames, and the clips in it"""
    return episode_times()["open"][EPISODES[-1]]


@benchmark("<= 1.05", "exponent")
def cost_exponent_episodes() -> tuple[float, dict[str, float]]:
    """writing and opening a store against 10^3 to 10^5 short episodes"""
    times = episode_times()
    return max(exponent(sizes) for sizes in times.values()), parts_of(times)


@benchmark("<= 1", "exponent")
def cost_exponent_codes() -> tuple[float, dict[str, float]]:
    """a training step of the tokenizer against 16 to 4,096 codes"""
    preset = get_preset("laptop")
    base, training = preset.tokenizer, preset.tokenizer_training
    frames = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (training.batch, 2, 64, 64, 3), np.uint8))
    batch = Batch(frames, (0, base.motion.stride), {})
    times: Times = {"step": {}}
    for codes in CODES:
        book = dataclasses.replace(base.codebook, codes=codes)
        model = build_tokenizer(dataclasses.replace(base, codebook=book, warmup=1))
        taken = []
        for _ in range(STEPS):
            taken.append(seconds(lambda model=model: _step(model, batch)))
        times["step"][codes] = sorted(taken[2:])[len(taken[2:]) // 2]
    return exponent(times["step"]), parts_of(times)


def _step(model: torch.nn.Module, batch: Batch) -> None:
    losses = model(batch).losses
    (losses["rec"] + 0.25 * losses["commit"]).backward()


def process_costs(folder: Path) -> dict[int, float]:
    """Processor-seconds of a sample by the number of processes that share its batch: the command itself, on gloo.

    They do not depend on how many cores there are, nor on what else these do.
    """
    found = {}
    for count in PROCESSES:
        out = folder / str(count)
        words = [sys.executable, "-m", "otflam", "lam", "train", "lapo-256", str(walker().path), "--out", str(out)]
        words += f"--accelerator cpu --devices {count} --batch {SHARED_BATCH} --steps {SHARED_STEPS}".split()
        words += f"--log-every 10 --save-every {SHARED_STEPS}".split()
        environment, marks = os.environ | {"OMP_NUM_THREADS": "1"}, list[tuple[int, float]]()
        with (folder / f"{count}.log").open("w") as log:
            process = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
            while process.poll() is None:
                steps = [int(row["step"]) for row in read_metrics(out)] if (out / METRICS).exists() else []
                if steps and (not marks or steps[-1] > marks[-1][0]):
                    marks.append((steps[-1], processor_seconds(process.pid)))
                time.sleep(POLL_SECONDS)
        if process.returncode:
            raise RuntimeError((folder / f"{count}.log").read_text()[-2000:])
        # From the first line of the log on: what comes before is preparation.
        (first, began), (last, ended) = marks[0], marks[-1]
        found[count] = (ended - began) / (last - first) / SHARED_BATCH
    return found


@benchmark("<= 1", "exponent")
def cost_exponent_processes() -> tuple[float, dict[str, float]]:
    """processor-seconds of a sample against 1, 2 and 4 processes on gloo that share a batch of 128: LAPO-256"""
    with tempfile.TemporaryDirectory() as folder:
        cost = process_costs(Path(folder))
    return exponent(cost), parts_of({"sample": cost})
