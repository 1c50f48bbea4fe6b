"""Benchmarks of games."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from otflam.data import Collection, collect_episodes
from otflam.envs import World
from otflam.experiments.bench import benchmark

EPISODES, STEPS = 40, 200


@benchmark(">= 3000", "frames/s")
def games_frames_per_cpu_s() -> tuple[float, dict[str, float]]:
    """frames per CPU second of CoinRun, collected at 64 px with the states of everything, random play that sticks"""
    rates = {}
    for name in ("coinrun", "starpilot", "bigfish"):
        plan = Collection(World(f"procgen-{name}"), episodes=EPISODES, steps=STEPS, mix="sticky=1")
        with tempfile.TemporaryDirectory() as folder:
            collect_episodes(replace(plan, episodes=2), Path(folder) / "first", 1)  # pictures are loaded once
            began = time.process_time()
            frames = collect_episodes(plan, Path(folder) / "data", 1).lengths.sum()  # levels may end early
            rates[name] = float(frames) / (time.process_time() - began)
    return rates["coinrun"], rates
