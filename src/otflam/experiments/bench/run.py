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
from otflam.experiments.bench import BENCHMARKS, benchmark, growth, models, peak, policy, race  # noqa: F401 - loading them lists theirs

BATCH = 512
POLL_SECONDS = 0.2


def run_bench(out: Path, only: str | None = None, opponents: Path | None = None) -> Iterator[tuple[str, dict]]:
    """Run the benchmarks, yielding each record as it is made and keeping the file up to date.

    Races need somebody to race with: a folder of `opponents`; without it they are left out, and their records stay.
    """
    race.opponents[:] = [] if opponents is None else [opponents]
    names = [name for name in BENCHMARKS if opponents is not None or not name.startswith("race_")]
    names = names if only is None else [require_name("benchmark", only, BENCHMARKS)]
    records = read_json(out, "delete it to start anew") if out.exists() else {}
    out.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        mark = BENCHMARKS[name]
        found = mark.measure()
        value, parts = found if isinstance(found, tuple) else (found, {})
        records[name] = {"value": value, "goal": mark.goal, "unit": mark.unit, "how": mark.how}
        records[name] |= {"parts": {part: float(f"{share:.4g}") for part, share in parts.items()}} if parts else {}
        write_json(out, records)
        yield name, records[name]


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


def anonymous_memory(root: int) -> int:
    """Bytes of a process and of all its descendants that no file stands behind."""
    parents, sizes = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "status").read_text()
        except OSError:  # gone in the meantime
            continue
        facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        parents[int(folder.name)] = int(facts["PPid"])
        sizes[int(folder.name)] = 1024 * int(facts.get("RssAnon", "0 kB").split()[0])
    family = {root}
    while grown := {child for child, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(sizes.get(member, 0) for member in family)
