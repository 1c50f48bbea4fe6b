"""The demo, the benchmarks and the check of this machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import tyro

from otflam.commands.base import Bars, Workers
from otflam.core.errors import UserError
from otflam.core.pool import default_workers
from otflam.report.progress import Progress, say


@dataclass(frozen=True)
class GL:
    """Check that frames can be rendered off screen on this machine."""

    install: bool = False
    """Where no OpenGL library loads, install one with apt (needs root)."""

    def run(self) -> None:
        from otflam.envs.gl import ensure_gl

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
        from otflam.experiments.demo import demo

        with Progress("demo", "cells") as bar:
            for line in demo(self.out, self.preset, self.workers, Bars(bar, "demo")):
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
        from otflam.experiments.bench import bench

        for name, row in bench(self.out, self.only):
            say(f"{name}: {row['value']:.3g} {row['unit']} (goal {row['goal']})")


@dataclass(frozen=True)
class Tables:
    """Make the marked tables of a page anew from the records."""

    page: tyro.conf.Positional[Path]
    """A Markdown file with places such as <!-- table transfer laptop --> … <!-- end of table -->."""
    records: Path = Path("results/records")
    """Folder of the records."""

    def run(self) -> None:
        from otflam.core.files import write_text
        from otflam.report.tables import fill

        write_text(self.page, fill(self.page.read_text(encoding="utf-8"), self.records))
        say(f"filled {self.page}")


@dataclass(frozen=True)
class Export:
    """Write every table as CSV and LaTeX and every figure as PNG and SVG, from the records."""

    out: Path
    """Folder for the files."""
    records: Path = Path("results/records")
    """Folder of the records."""
    preset: str = "laptop"
    """Which records: tiny, demo, laptop or paper."""

    def run(self) -> None:
        from otflam.report.figures import draw_figures
        from otflam.report.tables import export_tables

        written = list(export_tables(self.records, self.preset, self.out))
        if not written:
            raise UserError(f"{self.records} has no records of {self.preset}", "run an experiment or give --preset")
        written += [path for each in draw_figures(self.records, self.preset, self.out) for path in (each.svg, each.png)]
        say(f"wrote {len(written)} files to {self.out}")
