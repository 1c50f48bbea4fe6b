"""The command that makes the report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from otflam.report.progress import say

RECORDS = Path("results/records")


@dataclass(frozen=True)
class Report:
    """Make one page with all verdicts, figures, tables and an explorer of codes and predictions."""

    runs: tyro.conf.Positional[Path]
    """Folder with data sets and trained models, in any layout; without any the page has no explorer."""
    out: Path = Path("report")
    """Folder for the page, index.html, which holds everything it shows."""
    records: Path | None = None
    """Folder of the records; by default 'records' in the first folder, or else results/records."""
    preset: str = "laptop"
    """Which records: tiny, demo, laptop or paper."""

    def run(self) -> None:
        from otflam.presets import preset
        from otflam.report.page import make_page

        preset(self.preset)  # an unknown name gets a suggestion
        own = self.runs / "records"
        records = self.records or (own if own.is_dir() else RECORDS)
        page = make_page(self.runs, records, self.preset, self.out, say)
        say(f"wrote {page} ({page.stat().st_size / 1e6:.1f} MB)")
