"""Figures of motion codes and latent actions: transfer, alignment, leakage, and whether models use their latents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from otflam.evaluate import (
    BODY_TRANSFER,
    DIGIT_TRANSFER,
    NOISY,
    VANILLA,
    Records,
    chosen,
    complete,
    control_mse,
    estimate,
    group,
    models,
    named,
    redrawn_as,
    task_of,
    usual,
    values,
    world_of,
)
from otflam.lam import LEAST_GAIN
from otflam.report.canvas import Sketch, counted, draw_bar, draw_log_axis, draw_paper, legend_below
from otflam.report.published import SCALE, TRANSFER
from otflam.report.style import FIGURE, INK, MUTED, PAPER, SERIES, colour_of, hexed, line_width, rank_of, tint

LEAKS = {"distractor_r2": "camera", "background_r2": "background", "colour_r2": "colours"}
CONTROLS = {"state_r2": ("state alone", "--"), "motion_r2": ("raw motion", ":")}
"""What the action can be read from without any latent."""
MIN_GAIN_PERCENT = 100 * LEAST_GAIN
"""Per cent by which a healthy model's error must lie below that with another transition's latent."""
TITLES = {BODY_TRANSFER: "Another body: walker-run → cheetah-run", DIGIT_TRANSFER: "Other digits: 0 to 4 → 5 to 9"}
ORDERS = {1: "first\ndifferences", 2: "second\ndifferences"}
SOURCE_TINT = 0.35
"""How much colour the bars of the source have."""


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
    for method in sorted({method for method, _ in groups}, key=rank_of):
        budgets = sorted(labels for found, labels in groups if found == method)
        found = [values(groups[method, labels], "action_mse") for labels in budgets]
        look: dict[str, Any] = {"marker": "o", "markersize": 5, "markeredgecolor": hexed(PAPER), "markeredgewidth": 0.6}
        name, colour = named(groups[method, budgets[0]][0]), colour_of(method)
        low, high = [min(x) for x in found], [max(x) for x in found]
        axis.fill_between(budgets, low, high, color=colour, alpha=0.15, linewidth=0)
        axis.plot(
            budgets, [float(np.mean(x)) for x in found], color=colour, label=name, linewidth=line_width(method), **look
        )
    every = sorted({labels for _, labels in groups})
    for metric, (name, style) in CONTROLS.items():
        means = [float(np.mean([control_mse(r, metric) for r in records if r["labels"] == labels])) for labels in every]
        axis.plot(every, means, color=hexed(MUTED), linestyle=style, linewidth=1.4, label=name)
    draw_log_axis(axis, every, "labelled episodes")


def sketch_leakage(folder: Path, preset: str) -> Sketch | None:
    """How much of the distractors can be read from latent actions."""
    records = complete(usual(chosen(folder, "alignment", preset)), "distractor_r2")
    groups = group(records, "task", "method")
    tasks = sorted({task for task, _ in groups})
    if not tasks:
        return None
    figure = Figure(figsize=(4.4 * len(tasks) + 0.4, 3.2), layout="constrained")
    axes = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    methods = sorted({method for _, method in groups}, key=rank_of)
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
    drawn = [record for record in usual(models(folder, preset)) if redrawn_as(record["task"]) in ("", VANILLA)]
    groups = group(complete(drawn, "gain_over_shuffled"), "task", "method")
    if not groups:
        return None
    gains = {key: 100 * estimate(values(found, "gain_over_shuffled")).mean for key, found in groups.items()}
    left = min(0.0, min(gains.values()) - 3)
    methods = sorted({method for _, method in groups}, key=rank_of)
    names = {method: named(found[0]) for (_, method), found in groups.items()}
    tasks = sorted({task for task, _ in groups}, key=lambda task: (task_of(task), NOISY not in task, VANILLA in task))
    bodies = sorted({task_of(task) for task in tasks})
    figure = Figure(figsize=(8.2, 1.5 + 0.32 * len(methods)), layout="constrained")
    axis = figure.subplots()
    axis.axvspan(left, MIN_GAIN_PERCENT, color=hexed(MUTED), alpha=0.1, linewidth=0)
    axis.axvline(MIN_GAIN_PERCENT, color=hexed(MUTED), linewidth=1.0, linestyle="--")
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
        f"{MIN_GAIN_PERCENT:.0f} %, not healthy."
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


def sketch_transfer(folder: Path, preset: str) -> Sketch | None:
    """Errors on source and target, and how much they rise, of every tokenizer and order."""
    records = complete(chosen(folder, "transfer", preset), "source_nmse", "target_nmse", "drop")
    tasks = [task for task in TITLES if any(record["task"] == task for record in records)]
    if not tasks:
        return None
    groups = group(records, "task", "order", "method")
    figure = Figure(figsize=(5.2 * len(tasks), 3.3), layout="constrained")
    parts = figure.subfigures(1, len(tasks), squeeze=False)[0]
    for part, task in zip(parts, tasks, strict=True):
        part.suptitle(TITLES[task], x=0.02, ha="left", fontsize=9.5, fontweight="bold")
        errors, rises = part.subplots(1, 2, width_ratios=(1.25, 1))
        _draw_errors(errors, {key[1:]: found for key, found in groups.items() if key[0] == task})
        _draw_rises(rises, {key[1:]: found for key, found in groups.items() if key[0] == task}, task == BODY_TRANSFER)
    legend_below(figure, [axis for part in parts for axis in part.axes], 6)
    caption = (
        f"Motion vocabularies on what they have not seen ({preset} preset). Left: error of the redrawn motion as a "
        "share of its energy (nMSE), pale on the source, full on the target; right: rise from source to target of the "
        "plain squared error (the paper's drop), which also depends on how much the target moves. Bars: mean over "
        f"{counted(groups.values(), 'seeds')}; dots: seeds; whiskers: 95 % interval (Student's t). Diamonds: the "
        f"paper. {SCALE}"
    )
    return Sketch(figure, caption)


def _draw_errors(axis: Axes, groups: dict[tuple, Records]) -> None:
    """Pairs of bars, source and target."""
    for x, _, method, found in _places(groups):
        for shift, metric, share in ((-0.105, "source_nmse", SOURCE_TINT), (0.105, "target_nmse", 1.0)):
            look = {"color": tint(colour_of(method), share), "label": f"{method}, {metric.removesuffix('_nmse')}"}
            errors = values(found, metric)
            draw_bar(axis, x + shift, estimate(errors), errors, 0.19, **look)
    _name_orders(axis, groups)
    axis.set(ylabel="error (nMSE)", ylim=(0, None))


def _draw_rises(axis: Axes, groups: dict[tuple, Records], published: bool) -> None:
    for x, order, method, found in _places(groups):
        rises = [100 * value for value in values(found, "drop")]
        draw_bar(axis, x, estimate(rises), rises, 0.38, color=colour_of(method))
        if published:
            draw_paper(axis, x + 0.13, TRANSFER[method, order][2], "the paper")
    axis.axhline(0, color=hexed(INK), linewidth=0.8)
    _name_orders(axis, groups)
    axis.set(ylabel="rise of MSE, %")


def _places(groups: dict[tuple, Records]) -> list[tuple[float, int, str, Records]]:
    """Where each bar stands: methods beside each other at each order."""
    methods = sorted({method for _, method in groups}, key=rank_of, reverse=True)
    middle = (len(methods) - 1) / 2
    return [
        (order + 0.44 * (methods.index(method) - middle), order, method, found)
        for (order, method), found in sorted(groups.items(), key=lambda item: (item[0][0], methods.index(item[0][1])))
    ]


def _name_orders(axis: Axes, groups: dict[tuple, Records]) -> None:
    orders = sorted({order for order, _ in groups})
    axis.set_xticks(orders, [ORDERS[order] for order in orders])
    axis.tick_params(axis="x", length=0)


@matplotlib.rc_context(FIGURE)
def chart_codes(counts: Float[np.ndarray, "k 2"], name: str) -> Sketch:
    """A bar for each code that fires on a body: how much of it on whom; and how well codes tell bodies apart."""
    totals = counts.sum(0)
    rates = counts / np.maximum(totals, 1)  # as if both were equally large
    used = np.flatnonzero(rates.sum(1) > 0)
    share = rates[used, 0] / rates[used].sum(1)
    order = used[np.argsort(-share, kind="stable")]
    figure = Figure(figsize=(9.0, 2.4), layout="constrained")
    axis = figure.subplots()
    looks = {"agent": hexed(INK), "rival": SERIES[1]}
    for body, (label, colour) in enumerate(looks.items()):
        sign = 1 if body == 0 else -1
        axis.bar(range(len(order)), sign * 100 * rates[order, body], 0.8, color=tint(colour, 0.85), label=label)
    axis.axhline(0, color=hexed(MUTED), linewidth=0.8)
    axis.set_xticks(range(len(order)), [str(code) for code in order], fontsize=6)
    axis.set(xlabel="code", ylabel="% of a body's motion")
    axis.legend(ncols=2, loc="upper right")
    told = 100 * float(np.maximum(rates[:, 0], rates[:, 1]).sum() / 2)
    caption = (
        f"{name}: where codes fire, in a held-out episode. Bars up: share of the agent's moving patches, down: of the "
        f"rival's. Who sees only a code guesses right whose it is in {told:.0f} % (50 %: codes are for everybody)."
    )
    return Sketch(figure, caption)
