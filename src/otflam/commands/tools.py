"""The demo, the benchmarks and the check of this machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from otflam.commands.base import Bars, Workers
from otflam.core import default_workers
from otflam.report import Progress, say


@dataclass(frozen=True)
class GL:
    """Check that frames can be rendered off screen on this machine."""

    install: bool = False
    """Where no OpenGL library loads, install one with apt (needs root)."""

    def run(self) -> None:
        from otflam.envs import ensure_gl

        say(ensure_gl(self.install))


@dataclass(frozen=True)
class Demo:
    """Tell the whole story in minutes, from an empty folder."""

    out: Path = Path("runs/demo")
    """Folder for everything the demo makes; an interrupted demo continues there."""
    preset: str = "demo"
    """Sizes: tiny, demo, laptop or paper."""
    workers: Workers = field(default_factory=default_workers)
    """Parallel processes."""

    def run(self) -> None:
        from otflam.experiments import run_demo
        from otflam.presets import get_preset

        with Progress("demo", "cells") as bar:
            for line in run_demo(self.out, get_preset(self.preset), self.workers, Bars(bar, "demo")):
                bar.end()
                say(line)


@dataclass(frozen=True)
class Bench:
    """Measure speed as ratios in one run and write results/bench.json."""

    out: Path = Path("results/bench.json")
    """File to write; entries of other benchmarks in it are kept."""
    only: str | None = None
    """Run only this benchmark."""

    def run(self) -> None:
        from otflam.experiments import run_bench

        for name, row in run_bench(self.out, self.only):
            say(f"{name}: {row['value']:.3g} {row['unit']} (goal {row['goal']})")
