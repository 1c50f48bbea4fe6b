"""Colours, fonts and sizes of everything we draw; a method looks the same everywhere."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from PIL import Image

from otflam.core import replacing
from otflam.lam import METHODS

INK = (38, 38, 42)
PAPER = (250, 250, 248)
MUTED = (120, 120, 126)
MARGIN = 10
"""Pixels between parts of a picture."""
SERIES = ("#c2571a", "#2a6f97", "#5a8f3c", "#8a4f9e", "#b8963e", "#4a4a52")
"""Colours of lines that are not methods, in order of use."""

FLOORS = {"zero": "#cfcfcb", "random": "#a9a9a6", "labels-only": "#77777b", "idm": "#919188"}
CEILINGS = {"all-actions": "#4b4b50", "expert": "#1c1c20"}
TOKENIZERS = {"monolithic": "#4d88b2", "otf": "#b5420f"}


def method_colours() -> dict[str, str]:
    """One colour for each method, in the order in which they are shown: references are grey, ours warm, others cool.

    Methods declare their own. Their distances were maximised for normal, red-blind and green-blind eyes; a test keeps
    them apart.
    """
    ours_last = sorted(METHODS.values(), key=lambda method: method.name.startswith("otf"))
    return {**FLOORS, **{each.name: each.colour for each in ours_last if each.colour}, **CEILINGS, **TOKENIZERS}


HATCHES = {"": "", "relabel": "////", "finetune": "xxx"}
"""How a bar of `METHOD+WAY` differs from one of METHOD."""


def colour_of(method: str) -> str:
    """The colour of a method, and of all its variants; somebody else's method is grey."""
    return method_colours().get(method.partition("+")[0], hexed(MUTED))


def hatch_of(method: str) -> str:
    return HATCHES.get(method.partition("+")[2], "")


def rank_of(method: str) -> tuple[int, int]:
    """Where a method stands among others: variants follow what they are variants of, unknown ones come last."""
    base, _, way = method.partition("+")
    methods, ways = list(method_colours()), list(HATCHES)
    return (
        methods.index(base) if base in methods else len(methods),
        ways.index(way) if way in ways else len(ways),
    )


def save_picture(picture: Image.Image, path: Path) -> Path:
    with replacing(path) as temporary:
        picture.save(temporary, "PNG")
    return path


def hexed(colour: tuple[int, int, int]) -> str:
    """A colour as figures want it."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def line_width(method: str) -> float:
    """Width of a method's line: ours stand out."""
    return 2.1 if method.startswith("otf") else 1.4


def tint(colour: str, share: float, ground: tuple[int, int, int] = PAPER) -> str:
    """A colour mixed with the paper, or with ink: 1 is the colour itself, 0 the other one."""
    parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    red, green, blue = (round(share * part + (1 - share) * other) for part, other in zip(parts, ground, strict=True))
    return hexed((red, green, blue))


GRID = tint(hexed(MUTED), 0.28)
FIGURE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters on every machine
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.labelsize": 8.5,
    "axes.labelcolor": hexed(INK),
    "axes.edgecolor": hexed(MUTED),
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.color": hexed(MUTED),
    "ytick.color": hexed(MUTED),
    "xtick.labelcolor": hexed(INK),
    "ytick.labelcolor": hexed(INK),
    "xtick.major.size": 3.0,
    "ytick.major.size": 0.0,
    "text.color": hexed(INK),
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.6,
    "figure.constrained_layout.w_pad": 0.08,
    "figure.constrained_layout.h_pad": 0.06,
    "hatch.linewidth": 0.9,
    "figure.facecolor": hexed(PAPER),
    "axes.facecolor": hexed(PAPER),
    "savefig.facecolor": hexed(PAPER),
    "savefig.dpi": 160,
    "svg.hashsalt": "otflam",
    "svg.fonttype": "path",
}
"""Settings of all figures: a light ground of their own, so that dark pages can show them too."""


def asset(name: str) -> str:
    """A file that pages are made of."""
    return (files("otflam.report") / "assets" / name).read_text(encoding="utf-8")


def page_style() -> str:
    """The look of our pages, by day and by night, in the colours of our pictures."""
    colours = {"ink": f"rgb{INK}", "paper": f"rgb{PAPER}", "accent": SERIES[1]}
    own = " ".join(f"--own-{name}: {colour};" for name, colour in colours.items())
    return f":root {{ {own} }}\n{asset('page.css')}"
