"""The report: one page that holds everything it shows, so that it works from a disk and without a network."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from contextlib import ExitStack
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from otflam.core import SILENT, Progress, UserError, write_text
from otflam.evaluate import WORDS, read_records
from otflam.report.evidence import gather_evidence, take_first
from otflam.report.example import example_data
from otflam.report.explorer import DataSet, make_explorer
from otflam.report.first_film import first_film
from otflam.report.headline import SMALL, Headline, make_chart, make_headline
from otflam.report.rendering import Table
from otflam.report.runs import ShownData, find_runs
from otflam.report.style import asset, page_style
from otflam.report.verdicts import verdicts_by_topic

SENTENCE_CHARACTERS = 34
"""Characters from which on an entry is a sentence, which may be broken."""
STATUS_SIGNS = {"holds": "✓", "fails": "✕", "open": "?", "unmeasured": "–"}
"""Signs of the verdicts, for those who cannot tell their colours."""
PAPER_TITLE = "Latent Actions from Factorized Transition Effects under Agent Ambiguity"


def make_page(
    runs: Path | None, records: Path, preset: str, out: Path, progress: Progress = SILENT, title: str = ""
) -> Path:
    """Write the report of some records and of the data sets and models under `runs`, if there are any.

    With neither claims nor a `title` the page is named after its data set. Without data it shows the packaged example.
    """
    origin = find_origin(records, preset)
    with ExitStack() as stack:
        shown = make_explorer(find_runs(runs, progress) if runs is not None and runs.is_dir() else (), progress)
        if not origin["records"] and not shown:
            raise UserError(
                f"{records} has no records of {preset}, and there is no data set with a model in {runs}",
                "run an experiment, or give --preset or --records",
            )
        own = bool(shown)
        shown = shown or make_explorer([stack.enter_context(example_data())], progress)
        film = first_film(runs, [found for found, _ in shown], progress)
        verdicts = verdicts_by_topic(records, preset) if origin["records"] else {}
        head = make_headline(records, preset, [*chain(*verdicts.values())]) if verdicts else name_data(shown[0])
        progress.note("figures and tables")
        evidence = gather_evidence(runs, records, preset, progress)
        chart = make_chart(records, preset)
        first_figure = None if chart or not verdicts else take_first(evidence)
    return write_page(
        out / "index.html",
        preset=preset,
        origin=origin,
        title=title or (PAPER_TITLE if verdicts else shown[0][1].name),
        paper=PAPER_TITLE if verdicts and not title else "",
        head=head,
        small=preset in SMALL,
        chart=chart,
        first_figure=first_figure,
        film=film,
        own=own,
        verdicts=verdicts,
        evidence=evidence,
        explorer=[dataclasses.asdict(each) for _, each in shown],
    )


def name_data(shown: tuple[ShownData, DataSet]) -> Headline:
    """What a page without records is about."""
    found, data = shown
    models = (
        f", and what {' and '.join(found.models)} predict{'s'[: len(found.models) == 1]} of it" if found.models else ""
    )
    return Headline(f"What moves in {data.name}, in {len(data.colours)} motion codes{models}.", f"{data.about}.")


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


def as_html(table: Table) -> Markup:
    """The element of a table whose columns can be sorted; its title and caption are up to the page."""
    return Markup(template("table.html").render(vars(table), names=table.names, long=SENTENCE_CHARACTERS))


def write_page(path: Path, **content: Any) -> Path:
    """Fill the page with what it shows."""
    script = "\n".join(map(asset, ("tables.js", "pictures.js", "explorer.js")))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = template("page.html").render(
        **content,
        as_html=as_html,
        words=WORDS,
        signs=STATUS_SIGNS,
        style=Markup(page_style()),
        script=Markup(script),
        allowed=f"'sha256-{digest}'",
        data=as_json(content["explorer"]),
    )
    write_text(path, text)
    return path


@cache
def template(name: str) -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(asset(name))


def as_json(value: Any) -> Markup:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
