"""The figure of growth: what work costs against how much of it there is, from the benchmarks beside the records."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from otflam.core import read_json
from otflam.report.canvas import Sketch
from otflam.report.style import MUTED, PAPER, SERIES, hexed
from otflam.report.tables_models import BENCH


class Part(NamedTuple):
    """A part of the figure: a benchmark, and what of it is shown."""

    title: str
    sizes: str
    seconds: str
    works: dict[str, str]
    """Pieces of work by their names in the record, and what the legend calls them."""


PARTS = {
    "cost_exponent_frames": Part(
        "Frames",
        "frames in a store",
        "seconds",
        {"write": "writing", "derive": "deriving", "check": "checking", "open": "opening", "batch": "a batch of 512"},
    ),
    "cost_exponent_episodes": Part(
        "Episodes", "episodes of three frames", "seconds", {"write": "writing", "open": "opening"}
    ),
    "cost_exponent_codes": Part("Codes", "codes in the vocabulary", "seconds", {"step": "tokenizer's step"}),
    "cost_exponent_processes": Part(
        "Processes", "processes that share a batch", "processor-seconds", {"sample": "LAPO-256, a sample"}
    ),
}
DECADES = 2
PRESET = "laptop"
"""The size that growth is measured at."""


def sketch_growth(folder: Path, preset: str) -> Sketch | None:
    """Time against size on logarithmic scales, with the slope of each piece of work."""
    file = folder.parent / BENCH
    marks = read_json(file, "run 'otflam bench'") if preset == PRESET and file.exists() else {}
    shown = {name: marks[name]["parts"] for name in PARTS if name in marks}
    if not shown:
        return None
    figure = Figure(figsize=(2.9 * len(shown) + 0.4, 3.3), layout="constrained")
    for axis, (name, found) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown.items(), strict=True):
        _draw_part(axis, PARTS[name], found)
    caption = (
        f"What work costs against how much of it there is ({preset} preset, logarithmic scales). In brackets: the "
        "exponent of a power law through the last three sizes; 1 is linear, 0 is no growth."
    )
    if "cost_exponent_processes" in shown:
        caption += " Processes that share a batch: seconds of the processor, of all of them together."
    return Sketch(figure, caption)


def _draw_part(axis: Axes, part: Part, found: dict[str, float]) -> None:
    for (work, label), colour in zip(part.works.items(), cycle(SERIES), strict=False):
        times = times_of(work, found)
        axis.plot(
            list(times),
            list(times.values()),
            color=colour,
            label=f"{label} ({found[f'{work}, exponent']:.2f})",
            marker="o",
            markersize=4,
            markeredgecolor=hexed(PAPER),
            markeredgewidth=0.6,
        )
    axis.set(xscale="log", yscale="log", xlabel=part.sizes, ylabel=part.seconds, title=part.title)
    low, high = axis.get_ylim()
    # A slope must look like one: two decades at least, however little grows.
    more = max(1.5, (10**DECADES * low / high) ** 0.5)
    axis.set_ylim(low / more, high * more)
    sizes, most = list(times), max(times_of(work, found)[max(times)] for work in part.works)
    axis.plot(sizes, [most * size / sizes[-1] for size in sizes], color=hexed(MUTED), ls=":", lw=1.2, label="linear")
    if len(times) == len(ticks := [size for size in times if size < 100]):  # few processes have their own numbers
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.set_xticks([], minor=True)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22))


def times_of(work: str, found: dict[str, float]) -> dict[int, float]:
    """Seconds by size of a piece of work, from names such as 'write, 10,000'."""
    sizes = {name.removeprefix(f"{work}, ").replace(",", ""): seconds for name, seconds in found.items()}
    return dict(sorted((int(size), seconds) for size, seconds in sizes.items() if size.isdigit()))
