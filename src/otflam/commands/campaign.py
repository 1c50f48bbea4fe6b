"""The command that tests what kills and damaged files do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from otflam.commands.base import Workers
from otflam.core.errors import UserError
from otflam.core.pool import default_workers
from otflam.report.progress import Progress, say


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

    def run(self) -> None:
        from otflam.experiments.campaign_report import campaign

        if min(self.kills, self.mutations, self.seed) < 0:
            raise UserError("a number below 0", "give 0 or more for --kills, --mutations and --seed")
        cases = [f"kill-{number}" for number in range(self.kills)]
        cases += [f"mutation-{number}" for number in range(self.mutations)]
        cases = list(self.case) or cases
        with Progress("campaign", "samples") as bar:
            lines, failed = campaign(self.folder, cases, self.seed, self.workers, bar.part)
        for line in lines:
            say(line)
        if failed:
            raise SystemExit(1)
