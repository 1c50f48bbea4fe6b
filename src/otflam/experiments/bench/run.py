"""Speed as ratios measured in one run, because machines differ and are noisy.

Every benchmark returns one number; the record keeps it with its goal and how it was measured.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import read_json, require_name, write_json
from otflam.data import Clips, Column, Store, StoreWriter, batch_order, export_laom
from otflam.envs import Quality, make
from otflam.experiments.bench.demo import demo_minutes, demo_peak_gb
from otflam.experiments.bench.lam import dino_features_stored, lapo_over_plain_loop, loader_share, pixel_codes_stored
from otflam.experiments.bench.policy import (
    clone_latents_stored,
    clone_minutes,
    decoder_seconds,
    evaluation_seconds,
    lam_training_minutes,
)
from otflam.experiments.bench.tokenizer import (
    encode_transitions_per_s,
    step_cost_k128_over_k16,
    tokenizer_time_to_error,
)

BATCH = 512


@dataclass(frozen=True)
class Benchmark:
    measure: Callable[[], float]
    goal: str
    unit: str
    how: str


def run_bench(out: Path, only: str | None = None) -> Iterator[tuple[str, dict]]:
    """Run the benchmarks, yielding each record as it is made and keeping the file up to date."""
    names = BENCHMARKS if only is None else [require_name("benchmark", only, BENCHMARKS)]
    records = read_json(out, "delete it to start anew") if out.exists() else {}
    out.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        mark = BENCHMARKS[name]
        records[name] = {"value": mark.measure(), "goal": mark.goal, "unit": mark.unit, "how": mark.how}
        write_json(out, records)
        yield name, records[name]


def render_fast_over_reference() -> float:
    """Frames per CPU second, fast over reference."""
    return _frames_per_cpu_second("fast", 400) / _frames_per_cpu_second("reference", 40)


def _frames_per_cpu_second(quality: Quality, frames: int) -> float:
    env = make("cheetah-run", quality=quality)
    env.reset(seed=0)
    env.step(env.facts.actions.low)
    began = time.process_time()
    for _ in range(frames):
        env.step(env.facts.actions.low)
    seconds = time.process_time() - began
    env.close()
    return frames / seconds


def store_over_hdf5() -> float:
    """Transition pairs per second, the store over a LAOM-style reader that looks frames up by name."""
    return _store_over(lambda file: lambda episode: file[str(episode)]["obs"])


def store_over_open_hdf5() -> float:
    """The same over a reader that keeps every trajectory's data set open."""

    def keep_open(file: Any) -> Callable[[int], Any]:
        handles = [file[str(number)]["obs"] for number in range(len(file))]
        return lambda episode: handles[episode]

    return _store_over(keep_open)


def _store_over(make_lookup: Callable[[Any], Callable[[int], Any]]) -> float:
    import h5py  # an extra: only these benchmarks need it

    steps = 500
    with tempfile.TemporaryDirectory() as folder:
        store = noise_store(Path(folder) / "data", episodes=8, steps=steps)
        export_laom(store, Path(folder) / "laom.hdf5")
        clips = Clips(store, (0, 1))
        batches = clips.batches(BATCH, seed=0)
        ours = _pairs_per_second(lambda step: next(batches), 60)
        with h5py.File(Path(folder) / "laom.hdf5") as file:
            lookup = make_lookup(file)

            def read(step: int) -> np.ndarray:
                rows = clips.anchors(batch_order(len(clips), BATCH, 0, step))
                return np.array([[lookup(row // steps)[row % steps + k] for k in (0, 1)] for row in rows])

            theirs = _pairs_per_second(read, 6)
    return ours / theirs


def _pairs_per_second(read: Callable[[int], object], batches: int) -> float:
    read(0)
    began = time.perf_counter()
    for step in range(batches):
        read(step)
    return batches * BATCH / (time.perf_counter() - began)


def sampling_memory_growth() -> float:
    """Anonymous memory while sampling a store four times larger, as a ratio."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = []
        for episodes in (16, 64):
            noise_store(Path(folder) / str(episodes), episodes, steps=500)
            command = [sys.executable, "-c", SAMPLE, str(Path(folder) / str(episodes))]
            sizes.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    return sizes[1] / sizes[0]


SAMPLE = """
import re, sys
from itertools import islice
from pathlib import Path
from otflam.data.clips import Clips
from otflam.data.store import Store
for batch in islice(Clips(Store(sys.argv[1]), (0, 2)).batches(512, seed=0), 200):
    pass
print(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def noise_store(path: Path, episodes: int, steps: int) -> Store:
    """A store of random frames at the usual size."""
    columns = {
        "frames": Column("uint8", (64, 64, 3)),
        "actions": Column("float32", (6,)),
        "states": Column("float32", (17,)),
    }
    writer, rng = StoreWriter(path, columns, {}), np.random.default_rng(0)
    for index in range(episodes):
        frames = rng.integers(0, 256, (steps, 64, 64, 3), np.uint8)
        numbers = {name: rng.random((steps, *columns[name].shape), np.float32) for name in ("actions", "states")}
        writer.append(index, {"frames": frames, **numbers}, {})
    return writer.finish({"kind": "noise"}, episodes)


BENCHMARKS = {
    "demo_minutes": Benchmark(
        demo_minutes, "<= 10", "min", "otflam demo from an empty folder to the page, after installation, on 2 cores"
    ),
    "demo_peak_gb": Benchmark(
        demo_peak_gb, "<= 4", "GB", "anonymous memory of the demo and all its processes, at its peak"
    ),
    "render_fast_over_reference": Benchmark(
        render_fast_over_reference,
        ">= 8",
        "x",
        "frames per CPU second, quality fast over reference: cheetah-run, 64 px, dynamic scale_easy_video_hard",
    ),
    "store_over_hdf5": Benchmark(
        store_over_hdf5,
        ">= 20",
        "x",
        "pairs per second at batch 512: store over a LAOM-style HDF5 file, file[trajectory]['obs'][t] for every frame",
    ),
    "store_over_open_hdf5": Benchmark(
        store_over_open_hdf5,
        "none",
        "x",
        "the same over a reader that keeps the data set of every trajectory open and reads one frame at a time",
    ),
    "tokenizer_time_to_error": Benchmark(
        tokenizer_time_to_error,
        ">= 5",
        "x",
        "time to the held-out error that the public decoder's shape has after 150 s, same batches: public over ours",
    ),
    "encode_transitions_per_s": Benchmark(
        encode_transitions_per_s, ">= 2000", "transitions/s", "otflam tokenizer encode with the packaged tokenizer"
    ),
    "step_cost_k128_over_k16": Benchmark(
        step_cost_k128_over_k16, "< 1.3", "x", "time of a training step with 128 codes over 16 codes, interleaved"
    ),
    "lam_training_minutes": Benchmark(
        lam_training_minutes, "<= 8", "min", "training of the slowest laptop LAM on one thread, from 25 of its steps"
    ),
    "clone_latents_stored": Benchmark(
        clone_latents_stored, "none", "x", "a clone's training step with LAPO-256 in every step over stored latents"
    ),
    "clone_minutes": Benchmark(clone_minutes, "<= 2.5", "min", "training of a laptop clone on one thread"),
    "decoder_seconds": Benchmark(decoder_seconds, "<= 30", "s", "training of the laptop decoder with most labels"),
    "evaluation_seconds": Benchmark(
        evaluation_seconds,
        "< 60",
        "s",
        "one agent, 10 episodes of 1,000 steps of walker-run with distractors, 2 processes",
    ),
    "loader_share": Benchmark(
        loader_share, "< 0.1", "of a step", "reading a batch, largest share over OTF-LAM-Pixel, -DINO and LAPO, laptop"
    ),
    "dino_features_stored": Benchmark(
        dino_features_stored,
        ">= 4",
        "x",
        "time of an OTF-LAM-DINO training step at the paper's width, batch 16: backbone in every step over stored",
    ),
    "pixel_codes_stored": Benchmark(
        pixel_codes_stored, "none", "x", "time of an OTF-LAM-Pixel training step: tokenizer in every step over stored"
    ),
    "lapo_over_plain_loop": Benchmark(
        lapo_over_plain_loop, "none", "x", "steps per second of LAPO, our loop over a plain one with a DataLoader"
    ),
    "sampling_memory_growth": Benchmark(
        sampling_memory_growth,
        "<= 1.10",
        "x",
        "RssAnon after sampling 200 batches of 512 pairs: 32,000 frames over 8,000",
    ),
}
