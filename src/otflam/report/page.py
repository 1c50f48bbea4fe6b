"""The report: one page that holds everything it shows, so that it works from a disk and without a network."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otflam.core import UserError
from otflam.evaluate import read_records
from otflam.report.explorer import Figure, as_uri, look_inside, make_explorer
from otflam.report.figures import sketch_figures
from otflam.report.html import write_page
from otflam.report.tables import TABLES, tables_with_rows
from otflam.report.verdicts import verdicts_by_topic


@dataclass(frozen=True)
class Origin:
    """What the records are of."""

    records: int
    experiments: int
    methods: int
    seeds: int
    software: dict[str, str]
    """Versions, all of them where records differ."""


def make_page(
    runs: Path | None, records: Path, preset: str, out: Path, on_part: Callable[[str], Any] = lambda text: None
) -> Path:
    """Write the report of some records, with an explorer of the data sets and models under `runs`, if there are any."""
    origin = find_origin(records, preset)
    explorer = make_explorer(runs, on_part)
    if not origin.records and not explorer:
        raise UserError(
            f"{records} has no records of {preset}, and there is no data set with a model in {runs}",
            "run an experiment, or give --preset or --records",
        )
    on_part("figures and tables")
    return write_page(
        out / "index.html",
        preset=preset,
        origin=origin,
        verdicts=verdicts_by_topic(records, preset) if origin.records else {},
        figures=(inline_figures(records, preset) if origin.records else []) + look_inside(runs, on_part),
        tables=[parts for name, parts in tables_with_rows(records, preset) if not TABLES[name].brief],
        explorer=[dataclasses.asdict(each) for each in explorer],
    )


def find_origin(records: Path, preset: str) -> Origin:
    found = [record for record in read_records(records) if record["preset"] == preset]
    software: dict[str, set[str]] = {}
    for record in found:
        for name, version in record.get("versions", {}).items():
            software.setdefault(name, set()).add(version)
    counts = [len({record.get(name) for record in found}) for name in ("experiment", "method", "seed")]
    return Origin(len(found), *counts, {name: ", ".join(sorted(software[name])) for name in sorted(software)})


def inline_figures(records: Path, preset: str) -> list[Figure]:
    """The figures as images inside the page."""
    return [
        Figure(name, sketch.caption, as_uri("image/svg+xml", sketch.svg()))
        for name, sketch in sketch_figures(records, preset)
    ]
