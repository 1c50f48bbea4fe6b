"""Commands that measure what was trained."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from otflam.commands.base import Workers
from otflam.core.pool import default_workers
from otflam.report.progress import Progress, say


@dataclass(frozen=True)
class EvaluateTransfer:
    """Train tokenizers on one body or digit set and apply them to another (Table 1)."""

    root: Path | None = None
    """Folder with data and trained tokenizers; by default runs/PRESET. What is missing is made."""
    records: Path = Path("results/records")
    """Folder of the records."""
    preset: str = "laptop"
    """Sizes: tiny, demo, laptop or paper."""
    workers: Workers = field(default_factory=default_workers)
    """Parallel processes, one thread each."""

    def run(self) -> None:
        run_tokenizer_experiment("transfer", self.root, self.records, self.preset, self.workers)


@dataclass(frozen=True)
class EvaluateTokenizer:
    """Train tokenizers of several sizes and forms and measure their codes."""

    root: Path | None = None
    """Folder with data and trained tokenizers; by default runs/PRESET. What is missing is made."""
    records: Path = Path("results/records")
    """Folder of the records."""
    preset: str = "laptop"
    """Sizes: tiny, demo, laptop or paper."""
    workers: Workers = field(default_factory=default_workers)
    """Parallel processes, one thread each."""

    def run(self) -> None:
        run_tokenizer_experiment("tokenizer", self.root, self.records, self.preset, self.workers)


@dataclass(frozen=True)
class EvaluateCarrier:
    """Read motion and digit from the codes of Moving MNIST: good codes know the first and not the second."""

    root: Path | None = None
    """Folder with data and trained tokenizers; by default runs/PRESET. What is missing is made."""
    records: Path = Path("results/records")
    """Folder of the records."""
    preset: str = "laptop"
    """Sizes: tiny, demo, laptop or paper."""
    workers: Workers = field(default_factory=default_workers)
    """Parallel processes, one thread each."""

    def run(self) -> None:
        run_tokenizer_experiment("carrier", self.root, self.records, self.preset, self.workers)


def run_tokenizer_experiment(name: str, root: Path | None, records: Path, size: str, workers: int) -> None:
    from otflam.experiments.tokenizers import run_experiment
    from otflam.report.tables import TABLES

    with Progress(f"{name} ({size})", "cells") as bar:
        command = f"otflam evaluate {name} --preset {size}"
        run_experiment(root or Path("runs") / size, records, size, name, workers, command, bar.start, bar.advance)
    say(TABLES[name](records, size))
