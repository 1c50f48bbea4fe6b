"""Is video without labels worth anything? What each method earns more than cloning its labelled episodes alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from otflam.evaluate import (
    LABELS_ONLY,
    Estimate,
    Record,
    Records,
    chosen,
    complete,
    difference,
    group,
    returns_of,
    starts_of,
    usual,
    world_of,
)
from otflam.report.canvas import Sketch
from otflam.report.style import INK, colour_of, hexed, rank_of

MARKS = ("o", "s", "D", "^", "v")
"""Of budgets of labels, from the smallest on."""
ROOM = 0.5
"""Of a method's row that its budgets share."""
Gains = dict[tuple[str, str, str, int], Estimate]
"""By measure, world, method and budget: percent of the expert's return, or of the way to it."""


def shares_of(experts: dict[str, float], record: Record) -> list[float]:
    """Returns of whole episodes as shares of the expert's."""
    return (np.array(returns_of(record)) / experts[record["task"]]).tolist()


def gains_of(folder: Path, preset: str) -> Gains:
    """What every row has gained over the labels alone, in the same episodes."""
    records: Records = [*usual(chosen(folder, "control", preset)), *usual(chosen(folder, "rivalry", preset))]
    top = group([record for record in records if record["method"] == "expert"], "task")
    means = {task: float(np.mean([np.mean(returns_of(r)) for r in found])) for (task,), found in top.items()}
    experts = {task: mean for task, mean in means.items() if mean}  # nothing is a share of nothing
    known = [record for record in records if record["labels"] and record["task"] in experts]
    measures = {
        "from recorded states": (starts_of, complete(known, "start_returns", "start_zero", "start_expert")),
        "whole episodes": (lambda record: shares_of(experts, record), complete(known, "returns")),
    }
    found: Gains = {}
    for measure, (read, there) in measures.items():
        for (task, labels), here in group(there, "task", "labels").items():
            methods = group(here, "method")
            alone = methods.pop((LABELS_ONLY,), [])
            for (method,), ours in methods.items():
                if (gap := difference(ours, alone, read)) is not None:
                    scaled = Estimate(100 * gap.mean, 100 * gap.half, gap.count)
                    found[measure, task, method, labels] = scaled
    return found


def sketch_worth(folder: Path, preset: str) -> Sketch | None:
    """A forest of gains: right of zero, videos without labels were worth something."""
    gains = gains_of(folder, preset)
    if not gains:
        return None
    measures = list(dict.fromkeys(measure for measure, *_ in gains))
    tasks = sorted({task for _, task, *_ in gains})
    methods = sorted({method for _, _, method, _ in gains}, key=rank_of)
    budgets = sorted({labels for *_, labels in gains})
    size = (2.5 * len(tasks) + 1.6, (0.9 + 0.32 * len(methods)) * len(measures) + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(measures), len(tasks), sharey=True, squeeze=False)
    for measure, axes in zip(measures, grid, strict=True):
        for axis, task in zip(axes, tasks, strict=True):
            here = {key[2:]: gain for key, gain in gains.items() if key[:2] == (measure, task)}
            draw_forest(axis, here, methods, budgets)
            axis.set_xlabel(f"{measure}, % of the expert")
    for axis, task in zip(grid[0], tasks, strict=True):
        axis.set_title(world_of(task).replace(", ", ",\n", 1))
    grid[0, 0].set_yticks(range(len(methods)), methods)
    grid[0, 0].set_ylim(len(methods) - 0.4, -0.6)
    marks = [
        Line2D(
            [],
            [],
            linestyle="",
            marker=MARKS[place % len(MARKS)],
            color=hexed(INK),
            label=f"{labels} labelled episodes",
        )
        for place, labels in enumerate(budgets)
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks))
    caption = (
        "Is video without labels worth anything? What each row earns more than cloning its labelled episodes alone, in "
        f"the same episodes ({preset} preset; 95 % intervals over paired episodes and seeds, each for itself: of many "
        "one misses). Right of the line, videos without labels were worth something. Above: half a second from "
        "recorded states of held-out episodes, in percent of the way from doing nothing to the expert; below: whole "
        "episodes, in percent of its return."
    )
    return Sketch(figure, caption)


def draw_forest(axis: Axes, gains: dict[tuple[str, int], Estimate], methods: list[str], budgets: list[int]) -> None:
    """A line for each method, a mark for each budget."""
    for (method, labels), gain in gains.items():
        place = budgets.index(labels)
        shift = ROOM * ((place + 0.5) / len(budgets) - 0.5)
        height, colour = methods.index(method) + shift, colour_of(method)
        if np.isfinite(gain.half):
            axis.plot([gain.mean - gain.half, gain.mean + gain.half], [height, height], color=colour, linewidth=1.4)
        axis.plot([gain.mean], [height], color=colour, marker=MARKS[place % len(MARKS)], markersize=5)
    axis.axvline(0, color=hexed(INK), linewidth=1.0)
    axis.grid(visible=True, axis="x")
    axis.grid(visible=False, axis="y")
