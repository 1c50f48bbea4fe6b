"""What agents earn: every method between floor and ceiling, what distractors cost it (figure combined_result), and
returns against labelled episodes and the size of the vocabulary (tables supervision and full_ksweep)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from otflam.evaluate import (
    ALL_ACTIONS,
    BOUNDS,
    LABELS_ONLY,
    OURS,
    SUPERVISED,
    VANILLA,
    Earned,
    Records,
    chosen,
    distracted,
    earned,
    group,
    main_budget,
    named,
    sized,
    task_of,
    usual,
)
from otflam.report.canvas import Sketch, counted, draw_bar, draw_log_axis, draw_paper, legend_below, played, spread
from otflam.report.published import BASELINES, SCALE, VOCABULARY
from otflam.report.style import INK, MUTED, PAPER, colour_of, hatch_of, hexed, rank_of, tint

LINES: dict[str, tuple[str, Any]] = {
    "random": ("random", ":"),
    LABELS_ONLY: ("labels alone", "--"),
    ALL_ACTIONS: ("all actions", "-"),
    "expert": ("expert", (0, (8, 2))),
}
"""What methods are compared with, drawn as lines: their names and styles."""
EXPERT_HEIGHT = 0.97
"""Height of the expert's line, as a share of the whole."""
VANILLA_TINT = 0.4
"""How much colour the bars without distractors have."""
LABEL_GAP = 0.075
"""Least distance of two names at the side, as a share of the height."""
SHADES = {16: (0.4, PAPER, "v"), 32: (0.68, PAPER, "s"), 64: (1.0, PAPER, "o"), 128: (0.55, INK, "^")}
"""How a vocabulary's line looks: from pale to dark, with marks of their own."""
UNMARKED = "Without marks: random play, and cloning all true actions."


def sketch_returns(folder: Path, preset: str) -> Sketch | None:
    """Bars of every method at the main budget, with distractors; floor, labels alone and ceiling as lines."""
    records = usual(record for record in chosen(folder, "control", preset) if not record["task"].endswith(VANILLA))
    labels = main_budget(records)
    records = [record for record in records if record["labels"] in (0, labels)]
    groups = group(records, "task", "method")
    methods = sorted({method for _, method in groups} - {*BOUNDS, *LINES}, key=rank_of)
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
            _draw_method(axis, float(place), bars[method], method, 0.66)
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
    lines |= {"expert": (expert, EXPERT_HEIGHT)} if expert else {}
    for (method, (value, height)), place in zip(
        lines.items(), spread([height for _, height in lines.values()], LABEL_GAP), strict=True
    ):
        colour, (name, style) = colour_of(method), LINES[method]
        axis.axhline(height * top, color=colour, linewidth=1.3, linestyle=style, zorder=3)
        text = f"{name} {value.text(0)}" + (" (out of scale)" if method == "expert" else "")
        axis.text(1.01, place, text, transform=axis.transAxes, va="center", color=hexed(INK), fontsize=8)


def _draw_method(axis: Axes, place: float, value: Earned, method: str, width: float, share: float = 1.0) -> None:
    """The bar of a method, with so much of its colour."""
    look: dict[str, Any] = {"edgecolor": hexed(PAPER), "linewidth": 0, "hatch": hatch_of(method)}
    draw_bar(axis, place, value, value.seeds, width, color=tint(colour_of(method), share), **look)


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
    tasks, methods = sorted({task for task, _ in pairs}), sorted({method for _, method in pairs}, key=rank_of)
    figure = Figure(figsize=(2.2 + 0.62 * max(len(methods), 6), 1.1 + 2.2 * len(tasks)), layout="constrained")
    axes = figure.subplots(len(tasks), 1, sharex=True, squeeze=False)[:, 0]
    for axis, task in zip(axes, tasks, strict=True):
        for (_, method), pair in ((key, pair) for key, pair in pairs.items() if key[0] == task):
            for shift, share, found in zip((-0.2, 0.2), (VANILLA_TINT, 1.0), pair, strict=True):
                value = earned(found).times(100 / tops[found[0]["task"]].mean)
                _draw_method(axis, methods.index(method) + shift, value, method, 0.36, share)
        axis.axhline(100, color=colour_of(ALL_ACTIONS), linewidth=1.2)
        ceilings = f"all actions: {tops[task + VANILLA].mean:.0f} without, {tops[task].mean:.0f} with distractors"
        axis.set_title(ceilings, loc="right", fontweight="normal", fontsize=8.5, color=hexed(MUTED))
        axis.set(title=task_of(task), ylabel="% of all actions", xlim=(-0.6, len(methods) - 0.4), ylim=(0, None))
    names = {method: named(found[0]) for (_, method), (found, _) in pairs.items()}
    _name_bars(axes, [names[method] for method in methods])
    keys = {"without distractors": tint(hexed(MUTED), VANILLA_TINT), "with distractors": hexed(MUTED)}
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
        for method, codes in sorted({key[1:3] for key in groups if key[0] == task}, key=lambda k: (rank_of(k[0]), k)):
            found = {labels: groups.get((task, method, codes, labels), []) for labels in budgets}
            _draw_line(axis, found, method, codes)
        draw_log_axis(axis, budgets, "labelled episodes")
        axis.set(title=task, ylim=(0, None))
    axes[0].set_ylabel("return")
    legend_below(figure, axes, 3)
    caption = (
        f"Return with distractors against labelled episodes ({preset} preset; {counted(groups.values(), 'seeds')}, "
        f"{played(records)} each). K: size of the vocabulary. Lines: mean; bands: 95 % interval over "
        f"seeds (Student's t). {UNMARKED} The paper's sweep is from 16 to 128 trajectories. {SCALE}"
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
        draw_log_axis(axis, sizes, "size K of the vocabulary")
        axis.set(title=task, ylim=(0, None))
    axes[0].set_ylabel("return")
    legend_below(figure, axes, 3)
    caption = (
        f"Return with distractors against the size of the motion vocabulary, {labels} labelled episodes ({preset} "
        f"preset; {counted(groups.values(), 'seeds')}, {played(records)} each). Lines: mean; bands: 95 % interval "
        f"over seeds (Student's t). {UNMARKED} Dotted with diamonds: the paper, 32 labelled trajectories. {SCALE}"
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
