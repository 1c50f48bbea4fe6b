"""Returns against labelled episodes and against the size of the vocabulary (tables supervision and full_ksweep)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from otflam.evaluate import (
    ALL_ACTIONS,
    LABELS_ONLY,
    OURS,
    SUPERVISED,
    Records,
    distracted,
    earned,
    group,
    main_budget,
    named,
    sized,
)
from otflam.report.canvas import Sketch, counted, legend_below, played
from otflam.report.figures_returns import LINES
from otflam.report.published import SCALE, VOCABULARY
from otflam.report.style import INK, PAPER, colour_of, hexed, place_of, tint

SHADES = {16: (0.4, PAPER, "v"), 32: (0.68, PAPER, "s"), 64: (1.0, PAPER, "o"), 128: (0.55, INK, "^")}
"""How a vocabulary's line looks: from pale to dark, with marks of their own."""
BOUNDS = "Without marks: random play, and cloning all true actions."


def sketch_supervision(folder: Path, preset: str) -> Sketch | None:
    """How returns grow with labelled episodes."""
    everything = sized(distracted(folder, "control", preset))
    records = [r for r in everything if r["labels"] and r["method"] in SUPERVISED]
    groups = group(records, "base", "method", "codes", "labels")
    lines = group(({"line": key[:3], "labels": key[3]} for key in groups), "line")
    if not any(len(points) > 1 for points in lines.values()):
        return None
    budgets, tasks = sorted({key[3] for key in groups}), sorted({key[0] for key in groups})
    figure, axes = _row(tasks)
    for axis, task in zip(axes, tasks, strict=True):
        _draw_bounds(axis, everything, task)
        for method, codes in sorted({key[1:3] for key in groups if key[0] == task}, key=lambda k: (place_of(k[0]), k)):
            found = {labels: groups.get((task, method, codes, labels), []) for labels in budgets}
            _draw_line(axis, found, method, codes)
        _finish(axis, task, budgets, "labelled episodes")
    axes[0].set_ylabel("return")
    legend_below(figure, axes, 3)
    caption = (
        f"Return with distractors against labelled episodes ({preset} preset; {counted(groups.values(), 'seeds')}, "
        f"{played(records)} each). K: size of the vocabulary. Lines: mean; bands: 95 % interval over "
        f"seeds (Student's t). {BOUNDS} The paper's sweep is from 16 to 128 trajectories. {SCALE}"
    )
    return Sketch(figure, caption)


def sketch_vocabulary(folder: Path, preset: str) -> Sketch | None:
    """Whether returns depend on the size of the vocabulary."""
    everything = distracted(folder, "control", preset)
    swept = [r for r in everything if r["method"] in OURS]
    labels = main_budget(everything)
    records = [r for r in sized(swept) if r["labels"] == labels]
    groups = group(records, "base", "method", "codes")
    sizes, tasks = sorted({key[2] for key in groups}), sorted({key[0] for key in groups})
    if len(sizes) < 2:
        return None
    figure, axes = _row(tasks)
    for axis, task in zip(axes, tasks, strict=True):
        _draw_bounds(axis, everything, task)
        for method in OURS:
            found = {codes: groups.get((task, method, codes), []) for codes in sizes}
            if any(found.values()):
                _draw_line(axis, found, method, 0)
            paper = VOCABULARY.get(task, {}).get(method, {})
            look: dict[str, Any] = {"linewidth": 1.0, "linestyle": ":", "marker": "D", "markersize": 4}
            look |= {"color": colour_of(method), "markerfacecolor": hexed(PAPER), "label": f"{method}, the paper"}
            axis.plot(list(paper), [mean for mean, _ in paper.values()], **look)
        _finish(axis, task, sizes, "size K of the vocabulary")
    axes[0].set_ylabel("return")
    legend_below(figure, axes, 3)
    caption = (
        f"Return with distractors against the size of the motion vocabulary, {labels} labelled episodes ({preset} "
        f"preset; {counted(groups.values(), 'seeds')}, {played(records)} each). Lines: mean; bands: 95 % interval "
        f"over seeds (Student's t). {BOUNDS} Dotted with diamonds: the paper, 32 labelled trajectories. {SCALE}"
    )
    return Sketch(figure, caption)


def _row(tasks: list[str]) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(4.4 * len(tasks) + 0.4, 3.5), layout="constrained")
    return figure, list(figure.subplots(1, len(tasks), squeeze=False)[0])


def _draw_line(axis: Axes, found: dict[int, Records], method: str, codes: int) -> None:
    """A line over the sizes or budgets that are recorded, with its band."""
    points = {x: records for x, records in found.items() if records}
    values = [earned(records) for records in points.values()]
    share, ground, mark = SHADES.get(codes, (1.0, PAPER, "o"))
    colour, x = tint(colour_of(method), share, ground), list(points)
    halves = [value.half if math.isfinite(value.half) else 0.0 for value in values]
    low, high = ([value.mean + sign * half for value, half in zip(values, halves, strict=True)] for sign in (-1, 1))
    axis.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
    look: dict[str, Any] = {"marker": mark, "markersize": 5.5, "markeredgecolor": hexed(PAPER), "markeredgewidth": 0.6}
    look["linestyle"] = "--" if method == LABELS_ONLY else "-"
    name = named(next(iter(points.values()))[0] | {"codes": codes})
    axis.plot(x, [value.mean for value in values], color=colour, label=name, **look)


def _draw_bounds(axis: Axes, records: Records, task: str) -> None:
    """Random play and cloning all true actions as lines."""
    for method in ("random", ALL_ACTIONS):
        name, style = LINES[method]
        if bound := [record for record in records if record["base"] == task and record["method"] == method]:
            axis.axhline(earned(bound).mean, color=colour_of(method), linewidth=1.0, linestyle=style, label=name)


def _finish(axis: Axes, task: str, ticks: list[int], label: str) -> None:
    """A logarithmic axis that names the values themselves."""
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.set_xticks([], minor=True)
    axis.set(title=task, xlabel=label, ylim=(0, None))
