"""Runs recorded experiments: cells in parallel processes of one thread each, every finished one leaves its record."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

from otflam.core.errors import UserError
from otflam.core.pool import run_jobs
from otflam.evaluate.records import find_record, write_record
from otflam.experiments import agents, alignments, lams, tokenizers
from otflam.experiments.datasets import prepare_data

EXPERIMENTS: dict[str, ModuleType] = {
    "transfer": tokenizers,
    "tokenizer": tokenizers,
    "carrier": tokenizers,
    "lam": lams,
    "alignment": alignments,
    "control": agents,
    "supervision": agents,
    "vocabulary": agents,
}
"""Where an experiment's jobs are planned (`plan`), named (`cell`), given their data (`needs`) and done (`measure`)."""


def run_experiment(
    root: Path,
    records: Path,
    size: str,
    experiment: str,
    workers: int,
    command: str,
    on_start: Callable[[int, int], None] = lambda done, total: None,
    on_done: Callable[[int], None] = lambda count: None,
) -> None:
    """Run the jobs that have no valid record yet; one that fails does not keep the others from it."""
    module = EXPERIMENTS[experiment]
    jobs = module.plan(size, experiment)
    for name in dict.fromkeys(name for job in jobs for name in module.needs(job)):
        prepare_data(root, size, name, workers)
    cells = [module.cell(root, size, job) for job in jobs]
    missing = [index for index, cell in enumerate(cells) if find_record(records, cell) is None]
    on_start(len(jobs) - len(missing), len(jobs))
    failed = {}
    for index, problem in run_jobs(Worker, (root, records, size, experiment, command), missing, workers):
        if problem is not None:
            failed[cells[index].path(records).stem] = problem
        on_done(1)
    if failed:
        name, problem = next(iter(failed.items()))
        raise UserError(
            f"{len(failed)} of {len(missing)} cells failed, e.g. {name}: {problem}",
            "all others are recorded; run the same command again for these",
        )


class Worker:
    """One process that works off cells on one thread."""

    def __init__(self, root: Path, records: Path, size: str, experiment: str, command: str) -> None:
        torch.set_num_threads(1)
        self.root, self.records, self.size, self.command = root, records, size, command
        self.module = EXPERIMENTS[experiment]
        self.jobs = self.module.plan(size, experiment)

    def __call__(self, index: int, tick: Callable[[], None]) -> str | None:
        """Leave a job's record, or say what went wrong."""
        job, began = self.jobs[index], time.monotonic()
        try:
            metrics = self.module.measure(self.root, self.size, job)
            cell = self.module.cell(self.root, self.size, job)
            write_record(self.records, cell, metrics, time.monotonic() - began, self.command)
        except Exception as error:  # whatever it is, the other cells are worth having
            logging.getLogger(__name__).debug("a cell failed", exc_info=True)
            return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        return None
