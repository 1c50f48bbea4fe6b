"""Commands that measure what was trained."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from otflam.commands.base import Workers
from otflam.core.pool import default_workers
from otflam.report.progress import Progress, say


@dataclass(frozen=True)
class Experiment:
    """What the recorded experiments share."""

    root: Path | None = None
    """Folder with data and trained models; by default runs/PRESET. What is missing is made."""
    records: Path = Path("results/records")
    """Folder of the records."""
    preset: str = "laptop"
    """Sizes: tiny, demo, laptop or paper."""
    workers: Workers = field(default_factory=default_workers)
    """Parallel processes, one thread each."""

    def run_experiment(self, name: str) -> None:
        from otflam.experiments.cells import run_experiment
        from otflam.report.tables import TABLES

        size, root = self.preset, self.root or Path("runs") / self.preset
        with Progress(f"{name} ({size})", "cells") as bar:
            command = f"otflam evaluate {name} --preset {size}"
            run_experiment(root, self.records, size, name, self.workers, command, bar.start, bar.advance)
        say(TABLES[name](self.records, size))


@dataclass(frozen=True)
class EvaluateTransfer(Experiment):
    """Train tokenizers on one body or digit set and apply them to another (Table 1)."""

    def run(self) -> None:
        self.run_experiment("transfer")


@dataclass(frozen=True)
class EvaluateTokenizer(Experiment):
    """Train tokenizers of several sizes and forms and measure their codes."""

    def run(self) -> None:
        self.run_experiment("tokenizer")


@dataclass(frozen=True)
class EvaluateCarrier(Experiment):
    """Read motion and digit from the codes of Moving MNIST: good codes know the first and not the second."""

    def run(self) -> None:
        self.run_experiment("carrier")


@dataclass(frozen=True)
class EvaluateLam(Experiment):
    """Train every latent action model on both tasks, with and without distractors, and check that it is healthy."""

    def run(self) -> None:
        self.run_experiment("lam")


@dataclass(frozen=True)
class EvaluateAlignment(Experiment):
    """Read true actions and distractors from the latents of every method, beside what the state alone tells."""

    def run(self) -> None:
        self.run_experiment("alignment")


@dataclass(frozen=True)
class EvaluateControl(Experiment):
    """Train agents of every method and their references on both tasks and worlds, and let them play."""

    def run(self) -> None:
        self.run_experiment("control")


@dataclass(frozen=True)
class EvaluateSupervision(Experiment):
    """Train agents of OTF-LAM-DINO (16 to 128 codes) and LAPO-256 at every budget of labels (Table supervision)."""

    def run(self) -> None:
        self.run_experiment("supervision")


@dataclass(frozen=True)
class EvaluateVocabulary(Experiment):
    """Train agents of both OTF-LAMs with 16 to 128 codes (Table full_ksweep)."""

    def run(self) -> None:
        self.run_experiment("vocabulary")


@dataclass(frozen=True)
class EvaluateCurves:
    """Draw how fast latents are imitated and decoded, from the records (the paper's convergence figure)."""

    out: Path
    """The figure to write."""
    records: Path = Path("results/records")
    """Folder of the records."""
    preset: str = "laptop"
    """Sizes: tiny, demo, laptop or paper."""
    labels: int = 8
    """Labelled episodes."""

    def run(self) -> None:
        from otflam.report.curves import draw_convergence

        say(f"wrote {draw_convergence(self.records, self.preset, self.labels, self.out)}")
