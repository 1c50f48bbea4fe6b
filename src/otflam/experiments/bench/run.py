"""Speed as ratios measured in one run, because machines differ and are noisy.

Every benchmark returns one number; the record keeps it with its goal and how it was measured.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import read_json, require_name, write_json
from otflam.data import Clips, Column, Store, StoreWriter, batch_order, export_laom
from otflam.envs import Quality, make
from otflam.experiments.bench import (  # noqa: F401 - loading the others lists theirs
    BENCHMARKS,
    Benchmark,
    benchmark,
    features,
    games,
    growth,
    install,
    models,
    opponents,
    peak,
    policy,
    race,
    race_collect,
    race_tokenizer,
)
from otflam.experiments.bench.processes import anonymous_memory

BATCH = 512
POLL_SECONDS = 0.2
RENDER_ROUNDS = 5


def run_bench(out: Path, only: str | None = None, clones: Path | None = None) -> Iterator[tuple[str, dict]]:
    """Run the benchmarks, yielding each record as it is made and keeping the file up to date.

    Races are run against the public code in a folder of `clones`, or else against our own re-statements of it; such a
    record never takes the place of one against the real thing.
    """
    opponents.folder[:] = [] if clones is None else [clones]
    names = [name for name in BENCHMARKS if only is None or name == only or name.startswith(f"{only}_")]
    if only is not None and not names:
        require_name("benchmark", only, BENCHMARKS)
    cure = "delete it to start anew"
    if out.exists():
        read_json(out, cure)  # a damaged file is refused before anything is measured
    out.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        record = measure(BENCHMARKS[name])
        # Read late: a benchmark takes minutes, and another run may have written its own by now.
        records = read_json(out, cure) if out.exists() else {}
        if not outranks(records.get(name, {}), record):
            records[name] = record
            write_json(out, records)
        yield name, record


def measure(mark: Benchmark) -> dict[str, Any]:
    """Run a benchmark; the record of a race names its opponent."""
    found = mark.measure()
    value, parts = found if isinstance(found, tuple) else (found, {})
    record = {"value": value, "goal": mark.goal, "unit": mark.unit, "how": mark.how}
    if mark.opponent:
        opponent = opponents.opponent_of(mark.opponent)
        record |= {"how": f"{mark.how}; against {opponent}", "opponent": opponent}
    return record | ({"parts": {part: float(f"{share:.4g}") for part, share in parts.items()}} if parts else {})


def outranks(kept: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether a record is of a race against the real thing, and a newer one is not."""
    return new.get("opponent") == opponents.RESTATEMENT and kept.get("opponent") in opponents.CLONES.values()


@benchmark(">= 0.7", "x", how="pictures per CPU second beside a rival over those without, with distractors")
def rival_render_share() -> tuple[float, dict[str, float]]:
    """Pictures with a second body over pictures without; whole steps simulate it, too."""
    worlds: dict[str, dict[str, Any]] = {"distracting": {}, "plain": {"difficulty": "vanilla"}}
    beside = {"rival": "cheetah-run", "rival_noise": 0.5}
    share, parts = 0.0, {}
    for name, options in worlds.items():
        alone, both = (Pictures(make("cheetah-run", **options, **more)) for more in ({}, beside))
        for what in ("picture", "step"):
            pairs = [(both.rate(what), alone.rate(what)) for _ in range(RENDER_ROUNDS)]  # in turns: machines are noisy
            parts[f"{name}, {what}s"] = float(np.median([one / other for one, other in pairs]))
        share = share or parts["distracting, pictures"]
    return share, parts


class Pictures:
    """Draws, or steps and draws, an environment."""

    def __init__(self, env: Any, count: int = 200) -> None:
        self.env, self.count = env, count
        env.reset(seed=0)
        self.still = np.zeros(env.action_space.shape, np.float32)

    def rate(self, what: str) -> float:
        """Frames per CPU second."""
        act = self.env.picture if what == "picture" else lambda: self.env.step(self.still)
        began = time.process_time()
        for _ in range(self.count):
            act()
        return self.count / (time.process_time() - began)


@benchmark(">= 8", "x")
def render_fast_over_reference() -> float:
    """frames per CPU second, quality fast over reference: cheetah-run, 64 px, dynamic scale_easy_video_hard"""
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


@benchmark(">= 20", "x")
def store_over_hdf5() -> float:
    """pairs per second at batch 512: store over a LAOM-style HDF5 file, file[trajectory]['obs'][t] for every frame"""
    return _store_over(lambda file: lambda episode: file[str(episode)]["obs"])


@benchmark("none", "x")
def store_over_open_hdf5() -> float:
    """the same over a reader that keeps the data set of every trajectory open and reads one frame at a time"""

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


@benchmark("<= 1.10", "x")
def sampling_memory_growth() -> float:
    """RssAnon after sampling 200 batches of 512 pairs: 32,000 frames over 8,000"""
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


@benchmark("<= 4", "min")
def demo_minutes() -> float:
    """otflam demo from an empty folder to the page, after installation, on 2 cores"""
    return run_demo()[0]


@benchmark("<= 4", "GB")
def demo_peak_gb() -> float:
    """anonymous memory of the demo and all its processes, at its peak"""
    return run_demo()[1]


@cache
def run_demo() -> tuple[float, float]:
    """Minutes, and gigabytes of anonymous memory at their peak, of the very command."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w") as log:
        began, peak = time.monotonic(), 0
        words = [sys.executable, "-m", "otflam", "demo", "--out", str(Path(folder) / "demo")]
        process = subprocess.Popen(words, stdout=log, stderr=log)
        while process.poll() is None:
            peak = max(peak, anonymous_memory(process.pid))
            time.sleep(POLL_SECONDS)
        if process.returncode:
            raise RuntimeError((Path(folder) / "log").read_text()[-2000:])
        return (time.monotonic() - began) / 60, peak / 1e9
