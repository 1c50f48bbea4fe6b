"""The command that tests what kills and damaged files do."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from otflam.commands.base import Workers
from otflam.core import UserError, default_workers
from otflam.report import ProgressBar, say


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
    """Parallel processes."""

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
