"""Learning curves: of experts, of policies and of what decodes their actions."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from otflam.core.errors import UserError
from otflam.report.canvas import (
    VANILLA,
    Records,
    Sketch,
    counted,
    legend_below,
    main_budget,
    usual,
    world_of,
    write_figure,
)
from otflam.report.markdown import chosen, group
from otflam.report.policy_tables import named
from otflam.report.style import FIGURE, SERIES, colour_of, place_of, weight_of

CURVES = {"control": ("curve_clone", "cloning loss"), "alignment": ("curve_mse", "decoding error, held out")}


def draw_expert_curves(logs: dict[str, Path], path: Path) -> Path:
    """Draw the mean evaluation return of each training log against the decisions taken."""
    with matplotlib.rc_context(FIGURE):
        figure = Figure(figsize=(7, 3.4), layout="constrained")
        axes = figure.subplots()
        for (name, log), colour in zip(logs.items(), SERIES, strict=False):
            try:
                rows = [json.loads(line) for line in log.read_text().splitlines()]
                points = [
                    (row["decisions"], sum(row["returns"]) / len(row["returns"])) for row in rows if "returns" in row
                ]
            except (OSError, ValueError, KeyError) as error:
                raise UserError(
                    f"{log} is no training log ({error})", "give log.jsonl of 'otflam expert train'"
                ) from None
            axes.plot([x / 1e3 for x, _ in points], [y for _, y in points], color=colour, label=name)
        axes.set(xlabel="thousand decisions", ylabel="return at repeat 1", ylim=(0, None))
        axes.legend()
        return write_figure(figure, path)


def draw_convergence(folder: Path, size: str, labels: int, path: Path) -> Path:
    """The paper's convergence figure from records: how fast latents are imitated, and how fast decoded."""
    with matplotlib.rc_context(FIGURE):
        sketch = sketch_curves(folder, size, labels)
    if sketch is None:
        raise UserError(
            f"{folder} has no curves of {size} at {labels} labels",
            "run 'otflam reproduce convergence' or give --labels",
        )
    return write_figure(sketch.figure, path)


def sketch_convergence(folder: Path, size: str) -> Sketch | None:
    """The convergence figure at the budget of labels with most methods."""
    records = [record for name in CURVES for record in chosen(folder, name, size)]
    return sketch_curves(folder, size, main_budget(usual(record for record in records if record["labels"])))


def sketch_curves(folder: Path, size: str, labels: int) -> Sketch | None:
    """Loss of imitating latents above, error of decoding them below, one column for each data set."""
    curves = {
        name: group(
            (r for r in usual(chosen(folder, name, size)) if r["labels"] == labels and CURVES[name][0] in r["metrics"]),
            "task",
            "method",
        )
        for name in CURVES
    }
    tasks = sorted({task for found in curves.values() for task, _ in found})
    # The figure is of distractors where there are any, as the paper's is; both worlds would be too wide to read.
    tasks = [task for task in tasks if VANILLA not in task] or tasks
    if not tasks:
        return None
    shown = {name: CURVES[name] for name, found in curves.items() if found}
    figure = Figure(figsize=(3.9 * len(tasks) + 0.6, 2.4 * len(shown) + 0.6), layout="constrained")
    axes = figure.subplots(len(shown), len(tasks), squeeze=False)
    for row, (name, (metric, label)) in zip(axes, shown.items(), strict=True):
        for axis, task in zip(row, tasks, strict=True):
            methods = {method for data, method in curves[name] if data == task and "+" not in method}
            for method in sorted(methods, key=place_of):
                _draw_curve(axis, curves[name][task, method], metric)
            axis.set(xlabel="steps")
        row[0].set_ylabel(label)
    for axis, task in zip(axes[0], tasks, strict=True):
        axis.set_title(world_of(task))
    legend_below(figure, axes.flat, 4)
    seeds = counted([part for found in curves.values() for part in found.values()], "seeds")
    told = {
        "control": "How fast a policy imitates latent actions (loss as a share of their variance).",
        "alignment": f"How fast a decoder reads the true action from them with {labels} labelled episodes (error on "
        "held-out episodes).",
    }
    caption = " ".join(told[name] for name in shown) + (
        f" Preset: {size}. Lines: mean over {seeds}; bands: their range. The paper's curves are of far "
        "longer training on far more data."
    )
    return Sketch(figure, caption)


def _draw_curve(axis: Axes, records: Records, metric: str) -> None:
    """The mean over seeds as far as all of them go."""
    length = min(len(record["metrics"][metric]) for record in records)
    rows = np.array([record["metrics"][metric][:length] for record in records], np.float64)
    steps, method = records[0]["metrics"]["curve_steps"][:length], records[0]["method"]
    axis.fill_between(steps, rows.min(0), rows.max(0), color=colour_of(method), alpha=0.15, linewidth=0)
    axis.plot(steps, rows.mean(0), color=colour_of(method), linewidth=weight_of(method), label=named(records[0]))
