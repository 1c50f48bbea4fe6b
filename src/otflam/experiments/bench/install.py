"""Benchmarks of what a plain install takes, and of how soon it is at work."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from importlib import metadata
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from otflam.data import draw_scene
from otflam.experiments.bench import benchmark
from otflam.experiments.bench.processes import processor_seconds
from otflam.report import writing_video

ROUNDS = 5
LARGEST = 5
"""Packages that are told one by one."""
MEGA = 1e6
POLL_SECONDS = 0.005
LONG, RATE, PAL = 200, Fraction(25), (720, 576)
"""A clip: its frames, how many there are in a second, and their width and height."""


@benchmark("<= 900", "MB")
def base_install_mb() -> tuple[float, dict[str, float]]:
    """files of otflam without extras and of all that it requires, as pip installed them here"""
    sizes = {name: size_of(name) / MEGA for name in required("otflam")}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:LARGEST]
    torch = sum(sizes[name] for name in required("torch"))
    parts = {"torch and what it requires": torch} | {name: sizes[name] for name in largest}
    return sum(sizes.values()), parts


def required(package: str) -> set[str]:
    """A package and all that it requires, without extras."""
    found, ahead = set(), [package]
    while ahead:
        if (name := re.sub(r"[-_.]+", "-", ahead.pop()).lower()) in found:
            continue
        try:
            wanted = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # for another system
            continue
        found.add(name)
        plain = (entry for entry in wanted if "extra ==" not in entry.partition(";")[2])
        ahead += [re.split(r"[^\w.-]", entry.strip())[0] for entry in plain]
    return found


def size_of(package: str) -> int:
    """Bytes of a package's files; of one that is only linked here, those of its sources."""
    files = [Path(str(file.locate())) for file in metadata.files(package) or []]
    total = sum(file.stat().st_size for file in files if file.is_file())
    if package == "otflam" and not any(file.name == "cli.py" for file in files):
        total += sum(file.stat().st_size for file in Path(__file__).parents[2].rglob("*") if file.is_file())
    return total


@benchmark("<= 0.1", "s", how="import otflam, CPU time in a new process, best of five")
def import_seconds() -> float:
    return best_seconds("otflam")


def best_seconds(module: str) -> float:
    """CPU seconds that an import takes in a new process, at best."""
    program = f"import time\nbegan = time.process_time()\nimport {module}\nprint(time.process_time() - began)"
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(ROUNDS)]
    return min(float(run.stdout) for run in runs)


@benchmark("<= 2", "s", how="CPU time of otflam tokenize until a small clip's first codes, one thread, best of five")
def tokenize_start_seconds() -> tuple[float, dict[str, float]]:
    """CPU time, for a busy machine makes everything wait; beside it wall time, and what every start has to load."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with writing_video(folder / "clip.mp4", Fraction(10)) as add:
            for frame in moving_square():
                add(frame)
        runs = [time_tokenize(folder / "clip.mp4", folder / str(number)) for number in range(ROUNDS)]
    parts = {"wall time": min(wall for _, wall in runs)}
    parts |= {f"import {module}": best_seconds(module) for module in ("torch", "numpy", "av", "otflam.cli")}
    return min(used for used, _ in runs), parts


def moving_square() -> UInt8[np.ndarray, "12 48 64 3"]:
    """Twelve frames in which a bar moves to the right."""
    frames = np.zeros((12, 48, 64, 3), np.uint8)
    for place, frame in enumerate(frames):
        frame[:, 4 * place : 4 * place + 12] = 200
    return frames


def time_tokenize(video: Path, out: Path) -> tuple[float, float]:
    """CPU time and wall time of the command until its file of codes is begun."""
    began = time.perf_counter()
    words = [sys.executable, "-m", "otflam", "tokenize", str(video), "--out", str(out)]
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=alone)
    while process.poll() is None and not (out.is_dir() and any("codes" in entry.name for entry in out.iterdir())):
        time.sleep(POLL_SECONDS)
    used, wall = processor_seconds(process.pid), time.perf_counter() - began
    _, said = process.communicate()
    if process.returncode:
        raise RuntimeError(said)
    return used, wall


@benchmark(
    "<= 1.5", "x", how="CPU time of otflam tokenize, one thread, over the duration of a clip of 200 frames of 720 × 576"
)
def tokenize_realtime() -> tuple[float, dict[str, float]]:
    """All of it: decoding, codes, how well they redraw, the overlay as a video and the sheet."""
    with tempfile.TemporaryDirectory() as name:
        clip = Path(name) / "clip.mp4"
        scene = np.stack([*draw_scene(np.random.default_rng(0), LONG, 96)])
        with writing_video(clip, RATE) as add:
            for frame in scene:
                add(np.asarray(Image.fromarray(frame).resize(PAL, Image.Resampling.BICUBIC)))
        words = [sys.executable, "-m", "otflam", "tokenize", str(clip), "--out", str(Path(name) / "out")]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, capture_output=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    duration = float(LONG / RATE)
    return used / duration, {"seconds of the clip": duration, "CPU seconds": used}
