"""Commands that measure a foreign model, and that show what the records say: report, tables, figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from otflam.commands.base import RECORDS, Records, Sizes
from otflam.core import UserError
from otflam.presets import get_preset
from otflam.report import say


@dataclass(frozen=True)
class Report:
    """Make one page: the result, an explorer of codes and predictions, claims with verdicts, figures and tables."""

    runs: tyro.conf.Positional[Path]
    """Folder with data sets, models and agents, in any layout; without any an example is explored."""
    out: Path = Path("report")
    """Folder for the page, index.html, which holds everything it shows."""
    records: Path | None = None
    """Folder of the records; by default 'records' in the first folder, or else results/records."""
    preset: Sizes = "laptop"
    title: str | None = None
    """Title of the page where all data sets are imported videos and no records are given; by default the folder's."""

    def run(self) -> None:
        from otflam.report import Lines, make_own_page, make_page, own_stores

        get_preset(self.preset)  # an unknown name gets a suggestion
        own = self.runs / "records"
        if self.title is not None or (self.records is None and not own.is_dir() and own_stores(self.runs)):
            explorer = Path("explorer/index.html")
            try:
                make_page(self.runs, self.out / "no-records", self.preset, self.out / "explorer", Lines())
            except UserError:
                explorer = None  # nothing was trained on these data
            page = make_own_page(self.runs, self.title or self.runs.resolve().name, self.out, explorer, Lines())
            say(f"wrote {page} ({page.stat().st_size / 1e6:.1f} MB)")
            return
        records = self.records or (own if own.is_dir() else RECORDS)
        page = make_page(self.runs, records, self.preset, self.out, Lines())
        say(f"wrote {page} ({page.stat().st_size / 1e6:.1f} MB)")


@dataclass(frozen=True)
class Tables:
    """Make the marked tables of a page anew from the records."""

    page: tyro.conf.Positional[Path]
    """A Markdown file with places such as <!-- table transfer laptop --> … <!-- end of table -->."""
    records: Records = RECORDS

    def run(self) -> None:
        from otflam.core import write_text
        from otflam.report import fill

        write_text(self.page, fill(self.page.read_text(encoding="utf-8"), self.records))
        say(f"filled {self.page}")


@dataclass(frozen=True)
class Export:
    """Write every table as CSV and LaTeX and every figure as PNG and SVG, from the records."""

    out: Path
    """Folder for the files."""
    records: Records = RECORDS
    preset: Sizes = "laptop"

    def run(self) -> None:
        from otflam.report import draw_figures, export_tables

        written = list(export_tables(self.records, self.preset, self.out))
        if not written:
            raise UserError(f"{self.records} has no records of {self.preset}", "run an experiment or give --preset")
        written += draw_figures(self.records, self.preset, self.out)
        say(f"wrote {len(written)} files to {self.out}")


@dataclass(frozen=True)
class EvaluateCurves:
    """Draw how fast latents are imitated and decoded, from the records (the paper's convergence figure)."""

    out: Path
    """The figure to write."""
    records: Records = RECORDS
    preset: Sizes = "laptop"
    labels: int = 8
    """Labelled episodes."""

    def run(self) -> None:
        from otflam.report import draw_convergence

        say(f"wrote {draw_convergence(self.records, self.preset, self.labels, self.out)}")


@dataclass(frozen=True)
class EvaluateAlignment:
    """Judge the latent actions of anyone's frozen model: what they know of actions and of distractors."""

    data: tyro.conf.Positional[Path]
    """The data set; it needs actions, and labelled episodes are drawn from its third quarter."""
    extractor: str
    """MODULE:NAME of an object with `offsets` and `infer(frames) -> latents`; frames are bytes [n, k, h, w, c]."""
    labels: int = 8
    """Labelled episodes that probes learn from."""
    seed: int = 0
    """Draws them."""
    probed: int = 16
    """Held-out episodes that probes are tested on."""
    out: Path | None = None
    """JSON file for all numbers."""
    preset: str = "laptop"
    """Sizes, of the probing network: tiny, demo, laptop or paper."""

    def run(self) -> None:
        from otflam.core import write_json
        from otflam.data import Store
        from otflam.evaluate import finite, judge_extractor, load_extractor

        train = get_preset(self.preset).policy.seeded(self.seed).decode
        extractor = load_extractor(self.extractor)
        found = judge_extractor(Store(self.data), extractor, self.labels, self.seed, self.probed, train)
        for name, value in found.items():
            if isinstance(value, float):
                say(f"{name:16} {value:.4f}")
        if self.out is not None:
            write_json(self.out, {name: finite(value) for name, value in found.items()})
            say(f"wrote {self.out}")
