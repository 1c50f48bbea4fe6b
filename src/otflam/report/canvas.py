"""What all figures share: numbers with their intervals, marks, legends, and files that are the same bytes each time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from otflam.core import replacing
from otflam.evaluate import Earned, Estimate, Records
from otflam.report.style import FIGURE, INK, PAPER, hexed

METADATA: dict[str, dict[str, str | None]] = {"svg": {"Date": None}, "png": {"Software": None}}
"""Nothing in a file says when it was drawn or by which version."""
NAME_INCHES = 1.4
"""Width of a name in a legend."""


@dataclass(frozen=True)
class Sketch:
    """A figure that is not written yet."""

    figure: Figure
    caption: str

    def svg(self) -> bytes:
        """The figure as it is written."""
        with TemporaryDirectory() as folder:
            return write_figure(self.figure, Path(folder) / "figure.svg").read_bytes()


Sketcher = Callable[[Path, str], Sketch | None]
"""Draws records of a preset, if they suffice."""


def sketched(sketch: Sketcher, records: Path, preset: str) -> Sketch | None:
    """A figure in the style of all."""
    with matplotlib.rc_context(FIGURE):
        return sketch(records, preset)


def counted(groups: Iterable[Sequence[Any]], what: str) -> str:
    """How many there are in each group: `3 seeds`, or `1 to 3 seeds` while some are missing."""
    counts = sorted({len(group) for group in groups}) or [0]
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{number} {what if counts[-1] != 1 else what.removesuffix('s')}"


def played(records: Records) -> str:
    """How many episodes each seed played."""
    return counted([record["metrics"]["returns"] for record in records], "episodes")


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Places of labels at least `gap` apart, in their order and near to what is wanted."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    blocks: list[list[int]] = []
    centres: list[float] = []
    for index in order:
        blocks.append([index])
        centres.append(wanted[index])
        while len(blocks) > 1 and centres[-1] - centres[-2] < gap * (len(blocks[-1]) + len(blocks[-2])) / 2:
            last = blocks.pop()
            centres.pop()
            blocks[-1] += last
            centres[-1] = sum(wanted[each] for each in blocks[-1]) / len(blocks[-1])
    places = [0.0] * len(wanted)
    for block, centre in zip(blocks, centres, strict=True):
        for rank, index in enumerate(block):
            places[index] = centre + gap * (rank - (len(block) - 1) / 2)
    return places


def draw_interval(axis: Axes, x: float, mean: float, half: float) -> None:
    """A whisker with a rim, so that it is seen on dark bars too; none for a single value."""
    if not math.isfinite(half):
        return
    low, high = mean - half, mean + half
    for colour, width in ((hexed(PAPER), 2.8), (hexed(INK), 1.2)):
        axis.plot([x, x], [low, high], color=colour, linewidth=width, solid_capstyle="butt", zorder=4)


def draw_paper(axis: Axes, x: float, y: float, label: str) -> None:
    """What the paper prints, as a hollow diamond."""
    look: dict[str, Any] = {"linestyle": "", "marker": "D", "markersize": 5, "markeredgewidth": 1.0}
    axis.plot([x], [y], label=label, zorder=6, markerfacecolor="white", markeredgecolor=hexed(INK), **look)


def draw_seeds(axis: Axes, x: float, heights: Sequence[float], width: float) -> None:
    """One small dot for each seed, side by side."""
    places = x + width * (np.arange(len(heights)) - (len(heights) - 1) / 2) / max(len(heights), 3)
    axis.scatter(places, heights, s=9, color=hexed(INK), edgecolors=hexed(PAPER), linewidths=0.5, zorder=5)


def draw_bar(axis: Axes, x: float, value: Estimate | Earned, seeds: Sequence[float], width: float, **look: Any) -> None:
    """A bar with its interval and a dot for each seed."""
    axis.bar(x, value.mean, width, zorder=2, **look)
    draw_interval(axis, x, value.mean, value.half)
    draw_seeds(axis, x, seeds, width)


def draw_log_axis(axis: Axes, ticks: list[int], label: str) -> None:
    """A logarithmic axis that names the values themselves."""
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.set_xticks([], minor=True)
    axis.set_xlabel(label)


def legend_below(figure: Figure, axes: Iterable[Axes], most: int) -> None:
    """One legend for all parts, each name once, in full rows of at most `most` that fit the width."""
    most = max(1, min(most, int(figure.get_figwidth() / NAME_INCHES)))
    handles: dict[str, Artist] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        rows = math.ceil(len(handles) / most)
        columns = math.ceil(len(handles) / rows)
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=columns)


def settle(figure: Figure) -> None:
    """Round what the layout found: its last bits vary, and names inside an SVG are made of them."""
    if figure.get_layout_engine() is None:
        return  # settled for another format
    figure.draw_without_rendering()
    figure.set_layout_engine(None)  # "none" would keep a place holder, for which all is drawn once more before writing
    for axis in figure.axes:
        left, bottom, width, height = (round(float(value), 4) for value in axis.get_position().bounds)
        axis.set_position((left, bottom, width, height))


def write_figure(figure: Figure, path: Path) -> Path:
    """Write a figure in the format that its name tells, PNG if it tells none."""
    kind = "svg" if path.suffix == ".svg" else "png"
    with matplotlib.rc_context(FIGURE), replacing(path) as temporary:
        settle(figure)
        figure.savefig(temporary, format=kind, metadata=METADATA[kind])
    return path
