"""Commands that show what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from otflam.report.progress import say


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
