"""Commands that run whole experiments: the demo, the paper's tables, benchmarks and the campaign; and the GL check."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from otflam.commands.base import RECORDS, Records, Sizes, Workers
from otflam.core import Launcher, UserError, default_workers, import_name, require_name
from otflam.presets import get_preset
from otflam.report import ProgressBar, say

if TYPE_CHECKING:
    from otflam.experiments import Accelerated


@dataclass(frozen=True)
class GL:
    """Check that frames can be rendered off screen on this machine."""

    install: bool = False
    """Where no OpenGL library loads, install one with apt (needs root)."""

    def run(self) -> None:
        from otflam.envs import ensure_gl

        say(ensure_gl(self.install))


@dataclass(frozen=True)
class Completion:
    """Print a script that completes commands, options and choices in a shell."""

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]
    """The shell; write the script to a file that it reads when it starts."""

    def run(self) -> None:
        say(import_name("otflam.completion:completion_script")(self.shell))  # which itself looks at all commands


@dataclass(frozen=True)
class Demo:
    """Tell the whole story in minutes, from an empty folder."""

    out: Path = Path("runs/demo")
    """Folder for everything the demo makes; an interrupted demo continues there."""
    preset: Sizes = "demo"
    workers: Workers = field(default_factory=default_workers)

    def run(self) -> None:
        from otflam.experiments import run_demo

        with ProgressBar("demo", "cells") as bar:
            for line in run_demo(self.out, get_preset(self.preset), self.workers, bar):
                bar.end()
                say(line)


@dataclass(frozen=True)
class Bench:
    """Measure speed as ratios in one run and write results/bench.json."""

    out: Path = Path("results/bench.json")
    """File to write; entries of other benchmarks in it are kept."""
    only: str | None = None
    """Run only this benchmark, or those whose names begin so: race, share_of_peak."""
    opponents: Path | None = None
    """Folder with clones of public repositories (laom, lam_agent_ambiguity) to race with; their code is run, and its
    requirements must be installed. Without it races are run against our own plain re-statements."""

    def run(self) -> None:
        from otflam.experiments import run_bench

        for name, row in run_bench(self.out, self.only, self.opponents):
            against = f", against {row['opponent']}" if "opponent" in row else ""
            say(f"{name}: {row['value']:.3g} {row['unit']} (goal {row['goal']}{against})")


@dataclass(frozen=True)
class Reproduce:
    """Make a table or figure of the paper; without a name, list them."""

    name: tyro.conf.Positional[str] = ""
    """Which: transfer, pictures, tokenizer, carrier, lam, convergence, alignment, innovation, tuning, baselines,
    vocabulary, supervision or all; and ambiguity, games, general, labels, shapes, suite or weights, which all leaves
    out."""
    preset: Sizes = "laptop"
    root: Path | None = None
    """Folder with data and trained models; by default runs/PRESET. What is missing is made."""
    records: Records = RECORDS
    dry_run: bool = False
    """Only print what would be done, with time and disk from a short calibration."""
    only: tuple[str, ...] = ()
    """Only cells with all these parts in their names, such as: lapo-256 walker-run-noisy-unlike '8 labels' 'seed 0'."""
    machine: str | None = None
    """With --dry-run: what it would take on another machine, on paper: gpu1 or gpu8."""
    frames: float | None = None
    """With --machine: frames in each data set, such as 1e8; trainings keep their epochs. By default the preset's."""
    jobs: Launcher = field(default_factory=Launcher)

    def run(self) -> None:
        from otflam.experiments import STUDIES, Lab, Site, check_failures, estimate_work, named_so, plan_work, run_cells
        from otflam.report import draw_figures, study_tables

        if not self.name:
            for name, study in STUDIES.items():
                say(f"{name:12} {study.about}")
            return
        study = STUDIES[require_name("study", self.name, STUDIES)]
        machine = self._machine()
        lab = Lab(self.root or Path("runs") / self.preset, get_preset(self.preset))
        site, plan = Site(lab, self.records, self.jobs), named_so(study.plan(lab.preset), self.only)
        if self.dry_run:
            with ProgressBar("calibrate", "parts") as bar:
                told = plan_work(site, plan, machine, self.frames, bar) if machine else estimate_work(site, plan, bar)
                lines = list(told)
            for line in lines:
                say(line)
            return
        with ProgressBar(self.name, "cells") as bar:
            failed = run_cells(site, plan, f"otflam reproduce {self.name} --preset {self.preset}", bar)
        for table in study_tables(self.name, self.records, self.preset):
            say(table)
        for path in () if self.only else study.draw(lab):
            say(f"wrote {path}")
        for drawn in draw_figures(self.records, self.preset, lab.root / "figures"):
            if drawn.suffix == ".png":  # the SVG beside it is the same
                say(f"wrote {drawn}")
        check_failures(failed)

    def _machine(self) -> Accelerated | None:
        """The machine to plan for, if there is one."""
        from otflam.experiments import MACHINES

        if self.machine is None:
            if self.frames is not None:
                raise UserError("--frames is for a plan", "add --dry-run --machine gpu8")
            return None
        if not self.dry_run:
            raise UserError(f"--machine {self.machine} is only planned for", "add --dry-run")
        if self.machine not in MACHINES:
            raise UserError(f"unknown machine {self.machine!r}", f"choose one of {', '.join(MACHINES)}")
        return MACHINES[self.machine]


@dataclass(frozen=True)
class Campaign:
    """Kill commands and damage files at random, and count what comes of it; exit code 1 if anything fails."""

    kills: int = 60
    """Commands that are killed and run again."""
    mutations: int = 3000
    """Files that are damaged and read."""
    seed: int = 0
    """Decides every case."""
    case: tuple[str, ...] = ()
    """Only these cases, e.g. kill-3 mutation-17."""
    folder: Path | None = None
    """Folder for the samples, kept and used again; by default a temporary one."""
    workers: Workers = field(default_factory=default_workers)

    page: Path | None = None
    """Markdown file whose place for the counts, such as that of docs/reliability.md, is filled."""

    def run(self) -> None:
        from otflam.experiments import count_tables, fill_page, judge_cases, list_failures

        if min(self.kills, self.mutations, self.seed) < 0:
            raise UserError("a number below 0", "give 0 or more for --kills, --mutations and --seed")
        cases = [f"kill-{number}" for number in range(self.kills)]
        cases += [f"mutation-{number}" for number in range(self.mutations)]
        began = time.monotonic()
        with ProgressBar("campaign", "samples") as bar:
            verdicts = judge_cases(self.folder, list(self.case) or cases, self.seed, self.workers, bar)
        for line in list_failures(verdicts, self.seed):
            say(line)
        for verdict in verdicts if self.case else ():
            say(f"{verdict.case}: {verdict.outcome}, {verdict.about}\n    {verdict.message}")
        counts = count_tables(verdicts, self.seed, (time.monotonic() - began) / 60)
        say(f"\n{counts}")
        if self.page is not None:
            fill_page(self.page, counts)
        if any(verdict.failed for verdict in verdicts):
            raise SystemExit(1)
