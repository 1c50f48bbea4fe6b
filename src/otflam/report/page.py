"""The report: one page that holds everything it shows, so that it works from a disk and without a network."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from otflam.core import SILENT, Progress, UserError, write_text
from otflam.evaluate import WORDS, read_records
from otflam.report.bodies import body_figures
from otflam.report.explorer import Figure, as_uri, inside_figures, make_explorer
from otflam.report.figures import sketch_figures
from otflam.report.game_films import game_figures
from otflam.report.rendering import Table
from otflam.report.style import INK, PAPER, SERIES
from otflam.report.tables import TABLES, tables_with_rows
from otflam.report.verdicts import verdicts_by_topic

SENTENCE_CHARACTERS = 34
"""Characters from which on an entry is a sentence, which may be broken."""
STATUS_SIGNS = {"holds": "✓", "fails": "✕", "open": "?", "unmeasured": "–"}
"""Signs of the verdicts, for those who cannot tell their colours."""


def make_page(runs: Path | None, records: Path, preset: str, out: Path, progress: Progress = SILENT) -> Path:
    """Write the report of some records, with an explorer of the data sets and models under `runs`, if there are any."""
    origin = find_origin(records, preset)
    explorer = make_explorer(runs, progress)
    if not origin["records"] and not explorer:
        raise UserError(
            f"{records} has no records of {preset}, and there is no data set with a model in {runs}",
            "run an experiment, or give --preset or --records",
        )
    progress.note("figures and tables")
    return write_page(
        out / "index.html",
        preset=preset,
        origin=origin,
        verdicts=verdicts_by_topic(records, preset) if origin["records"] else {},
        figures=[
            *(inline_figures(records, preset) if origin["records"] else []),
            *body_figures(runs, progress),
            *game_figures(runs, progress),
            *inside_figures(runs, progress),
        ],
        tables=[parts for name, parts in tables_with_rows(records, preset) if not TABLES[name].brief],
        explorer=[dataclasses.asdict(each) for each in explorer],
    )


def find_origin(records: Path, preset: str) -> dict[str, Any]:
    """How much the records are of, and the versions of the software, all of them where records differ."""
    found = [record for record in read_records(records) if record["preset"] == preset]
    software: dict[str, set[str]] = {}
    for record in found:
        for name, version in record.get("versions", {}).items():
            software.setdefault(name, set()).add(version)
    counts = {f"{name}s": len({record.get(name) for record in found}) for name in ("experiment", "method", "seed")}
    listed = {name: ", ".join(sorted(software[name])) for name in sorted(software)}
    return {"records": len(found), **counts, "software": listed}


def inline_figures(records: Path, preset: str) -> list[Figure]:
    """The figures as images inside the page."""
    return [
        Figure(name, sketch.caption, as_uri("image/svg+xml", sketch.svg()))
        for name, sketch in sketch_figures(records, preset)
    ]


def as_html(table: Table) -> Markup:
    """The element of a table whose columns can be sorted; its title and caption are up to the page."""
    return Markup(template("table.html").render(vars(table), names=table.names, long=SENTENCE_CHARACTERS))


def write_page(path: Path, **content: Any) -> Path:
    """Fill the page with what it shows."""
    style, *scripts = (asset(name) for name in ("page.css", "tables.js", "explorer.js"))
    script = "\n".join(scripts)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = template("page.html").render(
        **content,
        as_html=as_html,
        words=WORDS,
        signs=STATUS_SIGNS,
        colours={"ink": f"rgb{INK}", "paper": f"rgb{PAPER}", "accent": SERIES[1]},
        style=Markup(style),
        script=Markup(script),
        allowed=f"'sha256-{digest}'",
        data=as_json(content["explorer"]),
    )
    write_text(path, text)
    return path


def asset(name: str) -> str:
    return (files("otflam.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def template(name: str) -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(asset(name))


def as_json(value: Any) -> Markup:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
