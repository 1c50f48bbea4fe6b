"""Runs recorded experiments: cells in parallel processes of one thread each, every finished one leaves its record."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from otflam.core import Launcher, Progress, UserError, default_workers, retry_busy, use_one_thread
from otflam.evaluate import Cell, find_record, redrawn_as, write_record
from otflam.experiments import (
    agents,
    alignments,
    ambiguities,
    games,
    general,
    innovations,
    lams,
    readers,
    tokenizers,
    tuning,
    vocabularies,
    weights,
)
from otflam.experiments.datasets import Lab, prepare_data

KINDS: dict[str, ModuleType] = {
    "tokenizers": tokenizers,
    "lams": lams,
    "alignments": alignments,
    "readers": readers,
    "innovations": innovations,
    "ambiguities": ambiguities,
    "games": games,
    "general": general,
    "vocabularies": vocabularies,
    "tuning": tuning,
    "weights": weights,
    "agents": agents,
}
"""Where jobs are named (`cell`), given their data (`needs`) and done (`measure`)."""


@dataclass(frozen=True)
class PlannedCell:
    """A cell before it is measured: a job and the kind of module that knows what to do with it."""

    kind: str
    job: Any

    @property
    def module(self) -> ModuleType:
        return KINDS[self.kind]

    @property
    def needs(self) -> list[str]:
        """Data sets."""
        return self.module.needs(self.job)

    def cell(self, lab: Lab) -> Cell:
        """What its record will be of; its data must be there."""
        return self.module.cell(lab, self.job)


def named_so(plan: list[PlannedCell], words: tuple[str, ...]) -> list[PlannedCell]:
    """The cells of a plan that have all these parts in their names, such as a method, a data set and 'seed 0'."""
    found = [planned for planned in plan if {*words} <= {*re.split(r" on |, ", str(planned.job))}]
    if plan and not found:
        raise UserError(f"no cell is named {' and '.join(words)}", f"they have names such as {str(plan[0].job)!r}")
    return found


@dataclass(frozen=True)
class Site:
    """Where an experiment runs and what it leaves."""

    lab: Lab
    records: Path
    jobs: Launcher = field(default_factory=Launcher)

    def missing(self, plan: list[PlannedCell]) -> list[int]:
        """Cells without a valid record; where a cell's data are missing one cannot know."""
        known = {name: self.lab.has(name) for planned in plan for name in planned.needs}
        return [
            number
            for number, planned in enumerate(plan)
            if not all(known[name] for name in planned.needs) or not self.recorded(planned)
        ]

    def recorded(self, planned: PlannedCell) -> bool:
        """Whether a cell has a valid record; one that lacks something, such as weights, says so when it is run."""
        try:
            return find_record(self.records, planned.cell(self.lab)) is not None
        except UserError:
            return False


def run_cells(site: Site, plan: list[PlannedCell], command: str, progress: Progress) -> dict[str, str]:
    """Work off the cells that have no valid record yet; those that fail come back with what went wrong."""
    prepare(site, plan, progress)
    missing = site.missing(plan)
    progress.part("", "cells").start(len(plan) - len(missing), len(plan))
    failed, began = {}, time.monotonic()
    for number, problem in site.jobs.run(Worker, (site, plan, command), missing):
        name = str(plan[number].job)
        if problem is not None:
            failed[name] = problem
        seconds = time.monotonic() - began
        progress.note(f"{name} after {seconds:,.0f} s" if problem is None else f"{name} FAILED: {problem}")
        progress.advance()
    return failed


def check_failures(failed: dict[str, str]) -> None:
    """Raise what went wrong with some of the cells, after everything else was made."""
    if failed:
        name, problem = next(iter(failed.items()))
        raise UserError(
            f"{len(failed)} cells failed, the first being {name} ({problem})",
            "all others are recorded; run the same command again for these",
        )


def prepare(site: Site, plan: list[PlannedCell], progress: Progress) -> None:
    """Make the data sets that are missing."""
    names = list(dict.fromkeys(name for planned in plan for name in planned.needs))
    if site.jobs.launcher == "local":
        for name in names:
            part = progress.part(f"data {name}", "frames")
            retry_busy(lambda name=name, part=part: prepare_data(site.lab, name, site.jobs.parallel, part))
        return
    away = [name for name in names if not site.lab.has(name)]
    for redrawn in (False, True):  # what is redrawn needs its source first
        now = [name for name in away if bool(redrawn_as(name)) == redrawn]
        for number, problem in site.jobs.run(Preparer, (site, now), list(range(len(now)))):
            if problem is not None:
                raise UserError(f"data set {now[number]} failed: {problem}", "run the same command again")


class Preparer:
    """One job of a cluster that makes a data set."""

    def __init__(self, site: Site, names: list[str]) -> None:
        self.site, self.names = site, names

    def __call__(self, index: int, progress: Progress) -> str | None:
        try:
            prepare_data(self.site.lab, self.names[index], default_workers())
        except UserError as error:
            return str(error)
        return None


class Worker:
    """One process that works off cells on one thread."""

    def __init__(self, site: Site, plan: list[PlannedCell], command: str) -> None:
        use_one_thread()
        self.site, self.plan, self.command = site, plan, command

    def __call__(self, index: int, progress: Progress) -> str | None:
        """Leave a cell's record, or say what went wrong."""
        planned, lab, began = self.plan[index], self.site.lab, time.monotonic()
        try:
            metrics = planned.module.measure(lab, planned.job)
            write_record(self.site.records, planned.cell(lab), metrics, time.monotonic() - began, self.command)
        except Exception as error:  # whatever it is, the other cells are worth having
            logging.getLogger(__name__).debug("a cell failed", exc_info=True)
            return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        return None
