"""What agents earn: every method between floor and ceiling, and what distractors cost it (figure combined_result)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from otflam.evaluate import (
    ALL_ACTIONS,
    BOUNDS,
    LABELS_ONLY,
    VANILLA,
    Earned,
    Records,
    chosen,
    earned,
    group,
    main_budget,
    named,
    task_of,
    usual,
)
from otflam.report.canvas import Sketch, counted, draw_interval, draw_paper, draw_seeds, legend_below, played, spread
from otflam.report.published import BASELINES, SCALE
from otflam.report.style import INK, MUTED, PAPER, colour_of, hatch_of, hexed, place_of, tint

LINES: dict[str, tuple[str, Any]] = {
    "random": ("random", ":"),
    LABELS_ONLY: ("labels alone", "--"),
    ALL_ACTIONS: ("all actions", "-"),
    "expert": ("expert", (0, (8, 2))),
}
"""What methods are compared with, drawn as lines: their names and styles."""
EDGE = 0.97
"""Height of the expert's line, as a share of the whole."""
PALE = 0.4
"""How much colour the bars without distractors have."""
GAP = 0.075
"""Least distance of two names at the side, as a share of the height."""


@dataclass(frozen=True)
class Bar:
    """One bar: what it shows and how it looks."""

    value: Earned
    colour: str
    hatch: str
    width: float
    label: str | None = None


def sketch_returns(folder: Path, preset: str) -> Sketch | None:
    """Bars of every method at the main budget, with distractors; floor, labels alone and ceiling as lines."""
    records = usual(record for record in chosen(folder, "control", preset) if not record["task"].endswith(VANILLA))
    labels = main_budget(records)
    records = [record for record in records if record["labels"] in (0, labels)]
    groups = group(records, "task", "method")
    methods = _compared({method for _, method in groups})
    tasks = sorted({task for task, _ in groups})
    if not methods or not tasks:
        return None
    names = {record["method"]: named(record) for record in records}
    figure = Figure(figsize=(2.6 + 0.56 * max(len(methods), 6), 0.9 + 2.4 * len(tasks)), layout="constrained")
    axes = figure.subplots(len(tasks), 1, sharex=True, squeeze=False)[:, 0]
    for axis, task in zip(axes, tasks, strict=True):
        found = {method: part for (data, method), part in groups.items() if data == task}
        _draw_returns(axis, task, methods, found)
    _name_bars(axes, [names[method] for method in methods])
    legend_below(figure, axes, 4)
    caption = (
        f"Return with distractors and {labels} labelled episodes ({preset} preset; "
        f"{counted(groups.values(), 'seeds')}, {played(records)} each). Bars: mean; whiskers: 95 % interval over seeds "
        "(Student's t); dots: seeds. Lines: random play, cloning the labels alone, cloning all true actions, and at "
        "the top, out of scale, the expert. Diamonds: the paper's returns with 32 labelled trajectories, of OTF-LAM "
        f"with the vocabulary that earned most. {SCALE}"
    )
    return Sketch(figure, caption)


def _compared(methods: set[str]) -> list[str]:
    """Methods that are drawn as bars, in their order."""
    return sorted(methods - {*BOUNDS, *LINES}, key=place_of)


def _draw_returns(axis: Axes, task: str, methods: list[str], found: dict[str, Records]) -> None:
    """One task: its bars, its lines and the expert as a number."""
    references = {name: earned(found[name]) for name in LINES if name in found and name != "expert"}
    paper = BASELINES.get(task_of(task), {})
    bars = {method: earned(found[method]) for method in methods if method in found}
    shown = [each.mean for each in references.values()]
    shown += [value for each in bars.values() for value in (*each.seeds, each.high) if math.isfinite(value)]
    shown += [paper[method][0] for method in methods if method in paper]
    top = 1.15 * max(shown, default=0.0) or 1.0  # a cheetah that does not run earns nothing at all
    axis.set(xlim=(-0.6, len(methods) - 0.4), ylim=(0, top), ylabel="return")
    for place, method in enumerate(methods):
        if method in bars:
            draw_bar(axis, float(place), Bar(bars[method], colour_of(method), hatch_of(method), 0.66))
        else:
            axis.text(place, 0.04 * top, "no record", rotation=90, ha="center", color=hexed(MUTED), fontsize=7)
        if method in paper:
            draw_paper(axis, place + 0.24, paper[method][0], "the paper (32 labelled trajectories)")
    _draw_references(axis, references, earned(found["expert"]) if "expert" in found else None)
    axis.set_title(task_of(task))


def _draw_references(axis: Axes, references: dict[str, Earned], expert: Earned | None) -> None:
    """Lines over the whole width, each named at its right end; the expert's would squash all else in its own place."""
    top = axis.get_ylim()[1]
    lines = {method: (value, value.mean / top) for method, value in references.items()}
    lines |= {"expert": (expert, EDGE)} if expert else {}
    for (method, (value, height)), place in zip(
        lines.items(), spread([height for _, height in lines.values()], GAP), strict=True
    ):
        colour, (name, style) = colour_of(method), LINES[method]
        axis.axhline(height * top, color=colour, linewidth=1.3, linestyle=style, zorder=3)
        told = f"{name} {value.text(0)}" + (" (out of scale)" if method == "expert" else "")
        axis.text(1.01, place, told, transform=axis.transAxes, va="center", color=hexed(INK), fontsize=8)


def draw_bar(axis: Axes, place: float, bar: Bar) -> None:
    """A bar with its interval and a dot for each seed."""
    axis.bar(
        place,
        bar.value.mean,
        bar.width,
        color=bar.colour,
        hatch=bar.hatch,
        edgecolor=hexed(PAPER),
        linewidth=0,
        label=bar.label,
        zorder=2,
    )
    draw_interval(axis, place, bar.value.mean, bar.value.half)
    draw_seeds(axis, place, bar.value.seeds, bar.width)


def _name_bars(axes: Iterable[Axes], names: list[str]) -> None:
    """Names under the bars, tilted so that they do not run into each other."""
    for axis in axes:
        axis.set_xticks(range(len(names)), [name.replace(" (", "\n(") for name in names])
        axis.tick_params(axis="x", length=0)
        for name in axis.get_xticklabels():
            name.set(rotation=45, ha="right", rotation_mode="anchor")


def sketch_worlds(folder: Path, preset: str) -> Sketch | None:
    """Shares of what cloning all actions earns, without and with distractors, where both are recorded."""
    records = usual(chosen(folder, "control", preset))
    tops = {
        task: earned(found)
        for (task, method), found in group(records, "task", "method").items()
        if method == ALL_ACTIONS
    }
    tops = {task: value for task, value in tops.items() if value.mean > 0}
    pairs = _in_both_worlds([record for record in records if record["task"] in tops and record["labels"]])
    labels = main_budget([record for pair in pairs.values() for found in pair for record in found])
    pairs = {key[:2]: pair for key, pair in pairs.items() if key[2] == labels}
    if not pairs:
        return None
    tasks, methods = sorted({task for task, _ in pairs}), sorted({method for _, method in pairs}, key=place_of)
    figure = Figure(figsize=(2.2 + 0.62 * max(len(methods), 6), 1.1 + 2.2 * len(tasks)), layout="constrained")
    axes = figure.subplots(len(tasks), 1, sharex=True, squeeze=False)[:, 0]
    for axis, task in zip(axes, tasks, strict=True):
        for (_, method), pair in ((key, pair) for key, pair in pairs.items() if key[0] == task):
            for shift, share, found in zip((-0.2, 0.2), (PALE, 1.0), pair, strict=True):
                value = earned(found).times(100 / tops[found[0]["task"]].mean)
                bar = Bar(value, tint(colour_of(method), share), hatch_of(method), 0.36)
                draw_bar(axis, methods.index(method) + shift, bar)
        axis.axhline(100, color=colour_of(ALL_ACTIONS), linewidth=1.2)
        told = f"all actions: {tops[task + VANILLA].mean:.0f} without, {tops[task].mean:.0f} with distractors"
        axis.set_title(told, loc="right", fontweight="normal", fontsize=8.5, color=hexed(MUTED))
        axis.set(title=task_of(task), ylabel="% of all actions", xlim=(-0.6, len(methods) - 0.4), ylim=(0, None))
    names = {method: named(found[0]) for (_, method), (found, _) in pairs.items()}
    _name_bars(axes, [names[method] for method in methods])
    keys = {"without distractors": tint(hexed(MUTED), PALE), "with distractors": hexed(MUTED)}
    patches = [Patch(color=colour, label=name) for name, colour in keys.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=2)
    both = [found for pair in pairs.values() for found in pair]
    caption = (
        f"What distractors cost: return with {labels} labelled episodes as a share of what cloning all true actions "
        f"earns in the same world ({preset} preset; {counted(both, 'seeds')}, "
        f"{played([record for found in both for record in found])} each). Whiskers: 95 % interval of the method's "
        "return over seeds (Student's t), not of what it is divided by; dots: seeds."
    )
    return Sketch(figure, caption)


def _in_both_worlds(records: Records) -> dict[tuple, tuple[Records, Records]]:
    """By task, method and labels: what was recorded without and with distractors."""
    groups = group(records, "task", "method", "labels")
    return {
        (task, *rest): (groups[task + VANILLA, *rest], found)
        for (task, *rest), found in groups.items()
        if (task + VANILLA, *rest) in groups
    }
