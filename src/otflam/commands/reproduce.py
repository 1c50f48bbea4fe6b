"""The command that makes the paper's tables and figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from otflam.commands.base import NO_PREFIX, Bars, Workers
from otflam.core import Cluster, default_workers, require_name
from otflam.report import Progress, say


@dataclass(frozen=True)
class Reproduce:
    """Make a table or figure of the paper; without a name, list them."""

    name: tyro.conf.Positional[str] = ""
    """Which: transfer, pictures, tokenizer, carrier, lam, convergence, alignment, innovation, tuning, baselines,
    vocabulary, supervision or all."""
    preset: str = "laptop"
    """Sizes: tiny, demo, laptop or paper."""
    root: Path | None = None
    """Folder with data and trained models; by default runs/PRESET. What is missing is made."""
    records: Path = Path("results/records")
    """Folder of the records."""
    workers: Workers = field(default_factory=default_workers)
    """Parallel processes of one thread each, or jobs of a cluster at a time."""
    dry_run: bool = False
    """Only print what would be done, with time and disk from a short calibration."""
    launcher: Literal["local", "slurm"] = "local"
    """Run cells as processes of this machine or as SLURM jobs."""
    cluster: Annotated[Cluster, NO_PREFIX] = field(default_factory=Cluster)

    def run(self) -> None:
        from otflam.experiments import STUDIES, Lab, Site, check_failures, estimate_work, run_cells
        from otflam.presets import get_preset
        from otflam.report import draw_figures, study_tables

        if not self.name:
            for name, study in STUDIES.items():
                say(f"{name:12} {study.about}")
            return
        study = STUDIES[require_name("study", self.name, STUDIES)]
        lab = Lab(self.root or Path("runs") / self.preset, get_preset(self.preset))
        site, plan = Site(lab, self.records, self.workers, self.launcher, self.cluster), study.plan(lab.preset)
        if self.dry_run:
            with Progress("calibrate", "parts") as bar:
                lines = list(estimate_work(site, plan, bar.part("calibrate", "parts")))
            for line in lines:
                say(line)
            return
        with Progress(f"{self.name} ({self.preset})", "cells") as bar:
            failed = run_cells(site, plan, f"otflam reproduce {self.name} --preset {self.preset}", Bars(bar, self.name))
        for table in study_tables(self.name, self.records, self.preset):
            say(table)
        for path in study.draw(lab):
            say(f"wrote {path}")
        for drawn in draw_figures(self.records, self.preset, lab.root / "figures"):
            say(f"wrote {drawn.png}")
        check_failures(failed)
