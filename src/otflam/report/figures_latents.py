"""What latent actions know of the action, what leaks into them, and whether models use them at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from otflam.evaluate import (
    NOISY,
    VANILLA,
    Records,
    chosen,
    complete,
    control_mse,
    estimate,
    group,
    named,
    task_of,
    usual,
    values,
    world_of,
)
from otflam.lam import LEAST_GAIN
from otflam.report.canvas import Sketch, counted, legend_below
from otflam.report.style import INK, MUTED, PAPER, colour_of, hexed, place_of, tint, weight_of

LEAKS = {"distractor_r2": "camera", "background_r2": "background", "colour_r2": "colours"}
CONTROLS = {"state_r2": ("state alone", "--"), "motion_r2": ("raw motion", ":")}
"""What the action can be read from without any latent."""
LEAST = 100 * LEAST_GAIN
"""Per cent by which a healthy model's error must lie below that with another transition's latent."""


def sketch_alignment(folder: Path, preset: str) -> Sketch | None:
    """Held-out error of a linear probe of the action, by budget of labels."""
    records = complete(usual(chosen(folder, "alignment", preset)), "action_mse", "action_r2", *CONTROLS)
    tasks = sorted({r["task"] for r in records}, key=lambda task: (task.endswith(VANILLA), task))
    if not tasks:
        return None
    columns = min(2, len(tasks))
    figure = Figure(figsize=(4.4 * columns + 0.4, 0.6 + 2.9 * -(-len(tasks) // columns)), layout="constrained")
    axes = list(figure.subplots(-(-len(tasks) // columns), columns, squeeze=False).flat)
    for axis in axes[len(tasks) :]:
        axis.set_axis_off()
    for axis, task in zip(axes, tasks, strict=False):
        _draw_alignment(axis, [r for r in records if r["task"] == task])
        axis.set_title(world_of(task))
    for axis in axes[::columns]:
        axis.set_ylabel("action MSE, held out")
    legend_below(figure, axes, 4)
    episodes = counted([r["metrics"]["episode_mse"] for r in records], "held-out episodes")
    draws = counted(group(records, "task", "method", "labels").values(), "draws of labels")
    caption = (
        f"Error of a linear probe that reads the true action from latent actions ({preset} preset; one model of each "
        f"method, {episodes}). Lines: mean over {draws}; bands: their range. Dashed: from the state alone, a control "
        "that sees no transition; dotted: from plain motion on a coarse grid. What lies below the dashed line knows "
        "more of the action than the state tells."
    )
    return Sketch(figure, caption)


def _draw_alignment(axis: Axes, records: Records) -> None:
    groups = group(records, "method", "labels")
    for method in sorted({method for method, _ in groups}, key=place_of):
        budgets = sorted(labels for found, labels in groups if found == method)
        found = [values(groups[method, labels], "action_mse") for labels in budgets]
        look: dict[str, Any] = {"marker": "o", "markersize": 5, "markeredgecolor": hexed(PAPER), "markeredgewidth": 0.6}
        name, colour = named(groups[method, budgets[0]][0]), colour_of(method)
        low, high = [min(x) for x in found], [max(x) for x in found]
        axis.fill_between(budgets, low, high, color=colour, alpha=0.15, linewidth=0)
        axis.plot(
            budgets, [float(np.mean(x)) for x in found], color=colour, label=name, linewidth=weight_of(method), **look
        )
    every = sorted({labels for _, labels in groups})
    for metric, (name, style) in CONTROLS.items():
        means = [float(np.mean([control_mse(r, metric) for r in records if r["labels"] == labels])) for labels in every]
        axis.plot(every, means, color=hexed(MUTED), linestyle=style, linewidth=1.4, label=name)
    axis.set_xscale("log", base=2)
    axis.set_xticks(every, [str(labels) for labels in every])
    axis.set_xticks([], minor=True)
    axis.set_xlabel("labelled episodes")


def sketch_leakage(folder: Path, preset: str) -> Sketch | None:
    """How much of the distractors can be read from latent actions."""
    records = complete(usual(chosen(folder, "alignment", preset)), "distractor_r2")
    groups = group(records, "task", "method")
    tasks = sorted({task for task, _ in groups})
    if not tasks:
        return None
    figure = Figure(figsize=(4.4 * len(tasks) + 0.4, 3.2), layout="constrained")
    axes = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    methods = sorted({method for _, method in groups}, key=place_of)
    width = 0.8 / len(methods)
    for axis, task in zip(axes, tasks, strict=True):
        for place, method in enumerate(methods):
            found = groups.get((task, method), [])
            each = [values(found, metric) for metric in LEAKS]
            spots = [at + width * (place - (len(methods) - 1) / 2) for at, x in enumerate(each) if x]
            heights = [estimate(x).mean for x in each if x]
            if heights:
                axis.bar(spots, heights, 0.92 * width, color=colour_of(method), label=named(found[0]), zorder=2)
        axis.axhline(0, color=hexed(INK), linewidth=0.8)
        axis.set_xticks(range(len(LEAKS)), list(LEAKS.values()))
        axis.tick_params(axis="x", length=0)
        axis.set_title(task_of(task))
    axes[0].set_ylabel("R² of the distractor's change")
    legend_below(figure, axes, 4)
    caption = (
        f"What leaks into latent actions: share of the change of camera, background video and colours that a linear "
        f"probe reads from them on held-out episodes ({preset} preset; one model of each method; no labels are drawn, "
        "so that there is no interval). Less is better; 0 is nothing, below 0 is worse than a constant."
    )
    return Sketch(figure, caption)


def sketch_health(folder: Path, preset: str) -> Sketch | None:
    """How far the error with the right latent lies below that with another's, for every model."""
    groups = group(complete(usual(chosen(folder, "lam", preset)), "gain_over_shuffled"), "task", "method")
    if not groups:
        return None
    gains = {key: 100 * estimate(values(found, "gain_over_shuffled")).mean for key, found in groups.items()}
    left = min(0.0, min(gains.values()) - 3)
    methods = sorted({method for _, method in groups}, key=place_of)
    names = {method: named(found[0]) for (_, method), found in groups.items()}
    tasks = sorted({task for task, _ in groups}, key=lambda task: (task_of(task), NOISY not in task, VANILLA in task))
    bodies = sorted({task_of(task) for task in tasks})
    figure = Figure(figsize=(8.2, 1.5 + 0.32 * len(methods)), layout="constrained")
    axis = figure.subplots()
    axis.axvspan(left, LEAST, color=hexed(MUTED), alpha=0.1, linewidth=0)
    axis.axvline(LEAST, color=hexed(MUTED), linewidth=1.0, linestyle="--")
    for (task, method), gain in gains.items():
        shift = 0.28 * ((bodies.index(task_of(task)) + 0.5) / len(bodies) - 0.5)
        axis.plot([gain], [methods.index(method) + shift], zorder=3, **_mark(task, bodies, colour_of(method)))
    axis.set_yticks(range(len(methods)), [names[method] for method in methods])
    axis.set(xlabel="error with the right latent below that with another transition's, %", xlim=(left, 100))
    axis.set_ylim(len(methods) - 0.4, -0.6)
    axis.grid(visible=True, axis="x")
    axis.grid(visible=False, axis="y")
    marks = [Line2D([], [], label=world_of(task), **_mark(task, bodies, hexed(MUTED))) for task in tasks]
    figure.legend(handles=marks, loc="outside lower center", ncols=len(bodies))
    caption = (
        "Does a model use its latent action? How far its held-out prediction error with the right latent lies below "
        f"that with another transition's ({preset} preset; {counted(groups.values(), 'seeds')}). Shaded: less than "
        f"{LEAST:.0f} %, not healthy."
    )
    return Sketch(figure, caption)


def _mark(task: str, bodies: list[str], colour: str) -> dict[str, Any]:
    """A mark's shape tells the task; full: distractors and noisy actions, pale: no noise, hollow: no distractors."""
    share = 0.0 if VANILLA in task else 1.0 if NOISY in task else 0.45
    return {
        "linestyle": "",
        "marker": "osD^v"[bodies.index(task_of(task)) % 5],
        "markersize": 6.5,
        "markerfacecolor": tint(colour, share),
        "markeredgecolor": colour,
        "markeredgewidth": 1.3,
    }
