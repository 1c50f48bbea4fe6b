"""The report as HTML: one file with its style, its scripts and its data inside; every other text is escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from otflam.core import write_text
from otflam.evaluate import WORDS
from otflam.report.style import INK, PAPER, SERIES
from otflam.report.table import Table

LONG = 34
"""Characters from which on an entry is a sentence, which may be broken."""
STATUS = {"holds": "✓", "fails": "✕", "open": "?", "unmeasured": "–"}
"""Signs of the verdicts, for those who cannot tell their colours."""


def as_html(table: Table) -> Markup:
    """The element of a table whose columns can be sorted; its title and caption are up to the page."""
    return Markup(template("table.html").render(vars(table), names=table.names, long=LONG))


def write_page(path: Path, **content: Any) -> Path:
    """Fill the page with what it shows."""
    style, *scripts = (asset(name) for name in ("page.css", "tables.js", "explorer.js"))
    script = "\n".join(scripts)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = template("page.html").render(
        **content,
        as_html=as_html,
        words=WORDS,
        signs=STATUS,
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
