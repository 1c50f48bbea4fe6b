"""Whose action? Tables and figures of two bodies in one picture, and of one distractor at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from otflam.evaluate import (
    BASELINE,
    BODIES,
    CAMERAS,
    DOSES,
    UNLIKE,
    VANILLA,
    WORLDS,
    Estimate,
    Records,
    chosen,
    complete,
    distracted,
    estimate,
    group,
    named,
    over,
    redrawn_as,
    task_of,
    usual,
    values,
)
from otflam.report.canvas import Sketch, counted, draw_interval, legend_below
from otflam.report.style import INK, MUTED, SERIES, colour_of, hexed, rank_of
from otflam.report.tables_models import NONE, Body, over_seeds, with_half
from otflam.report.tables_returns import RETURNS, returns_rows

SIDES = ("agent", "rival")
MEASURES = ("r2", "innovation_r2")
LADDER = (VANILLA, DOSES[0], DOSES[1], UNLIKE, DOSES[2], "", DOSES[3])
"""Worlds of the same episodes, from none to all of the distractors."""


def beside(folder: Path, preset: str) -> Records:
    """Records of worlds with a rival and no other distractor."""
    found = usual(chosen(folder, "ambiguity", preset))
    return [record for record in found if redrawn_as(record["task"]) in (*BODIES, *CAMERAS)]


def ambiguity_table(folder: Path, preset: str) -> Body:
    """What latents know of both sides, beside the controls, what frames tell, and how much of each is seen."""
    rows = []
    for (task, labels, _), found in sorted(group(beside(folder, preset), "task", "labels", "method").items()):
        metrics = found[0]["metrics"]
        read = [over_seeds(found, f"{side}_{measure}") for measure in MEASURES for side in SIDES]
        shares = [with_half(share_named(found, side), 0) for side in SIDES]
        controls = [over_seeds(found, f"{side}_r2_{row}") for row in ("state", "motion") for side in SIDES]
        tops = [f"{metrics[f'{side}_{measure}_frames']:.3f}" for measure in MEASURES for side in SIDES]
        moving = [f"{100 * metrics[f'{side}_moving']:.1f}" for side in SIDES]
        rows.append([task, str(labels), named(found[0]), *read, *shares, *controls, *tops, *moving])
    pairs = ["R²", "innovation R²", "% of frames", "state alone", "raw motion", "frames", "innovation, frames"]
    head = [f"{side}: {what}" for what in [*pairs, "moving pixels %"] for side in SIDES]
    return ["data", "labels", "method", *head], rows


def share_named(records: Records, side: str) -> Estimate | None:
    """Innovation R² as a share of what frames tell of it, in %, where that is surely above 0."""
    metrics, top = records[0]["metrics"], f"{side}_innovation_r2_frames"
    if metrics.get(top) is None or metrics[f"{top}_interval"][0] <= 0:
        return None
    return over(records, f"{side}_innovation_r2", 100.0 / metrics[top])


def paired_sides_table(folder: Path, preset: str) -> Body:
    """Errors minus those from LAPO-256's latents in the same held-out episodes, for either side's labels."""
    rows = []
    for (task, labels), found in sorted(group(beside(folder, preset), "task", "labels").items()):
        for (method,), ours in sorted(group(found, "method").items()):
            gaps = [side_gap(found, method, f"{side}_{measure}_errors") for measure in MEASURES for side in SIDES]
            if method != BASELINE and all(gaps):
                rows.append([task, str(labels), named(ours[0]), *(with_half(gap, 4, sign=True) for gap in gaps)])
    head = [f"{side}: {what}" for what in ("MSE of actions", "MSE of innovations") for side in SIDES]
    return ["data", "labels", "method", *head], rows


def side_gap(
    records: Records, method: str, metric: str, other: str = BASELINE, comparisons: int = 1
) -> Estimate | None:
    """A method's error minus another's in each held-out episode, averaged over the draws of labels."""
    by = {(r["method"], r["seed"]): np.array(r["metrics"][metric]) for r in records}
    gaps = [by[method, seed] - by[other, seed] for name, seed in by if name == method and (other, seed) in by]
    return estimate(np.mean(gaps, 0).tolist(), comparisons) if gaps else None


def dosed(folder: Path, preset: str) -> Records:
    """What is known of the agent's actions in every world; where all distract at once, by the records of alignment."""
    found = usual(chosen(folder, "ambiguity", preset))
    for record in usual(distracted(folder, "alignment", preset)):
        read = record["metrics"].get("action_r2")
        found.append(record | {"metrics": {"agent_r2": read}})
    dosed_too = {record["method"] for record in found if redrawn_as(record["task"]) in (VANILLA, *DOSES)}
    return [record | {"base": task_of(record["task"])} for record in found if record["method"] in dosed_too]


def doses_table(folder: Path, preset: str) -> Body:
    """The agent's action R² in every world of the same episodes."""
    records, rows = dosed(folder, preset), []
    for (task, labels, _), found in sorted(group(records, "base", "labels", "method").items()):
        by = {redrawn_as(key[0]): part for key, part in group(found, "task").items()}
        entries = [over_seeds(by[end], "agent_r2") if end in by else NONE for end in LADDER]
        if sum(entry != NONE for entry in entries) > 1:
            rows.append([task, str(labels), named(found[0]), *entries])
    return ["task", "labels", "method", *(WORLDS[end] for end in LADDER)], rows


def rivalry_table(folder: Path, preset: str) -> Body:
    """Returns beside a rival and with one distractor at a time, between floors and ceilings."""
    return RETURNS, returns_rows(chosen(folder, "rivalry", preset))


def sketch_sides(folder: Path, preset: str) -> Sketch | None:
    """For every method, how much of each side's actions its latents know, with the most labels."""
    everything = complete(beside(folder, preset), "agent_r2", "rival_r2")
    if not everything:
        return None
    labels = max(record["labels"] for record in everything)
    records = [record for record in everything if record["labels"] == labels]
    groups = group(records, "task", "method")
    tasks = sorted({task_of(record["task"]) for record in records})
    ends = [end for end in (*BODIES, *CAMERAS) if any(redrawn_as(record["task"]) == end for record in records)]
    methods = sorted({method for _, method in groups}, key=rank_of)
    size = (2.9 * len(ends) + 1.4, (0.8 + 0.28 * len(methods)) * len(tasks) + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(tasks), len(ends), sharey=True, sharex=True, squeeze=False)
    looks = {"agent": (hexed(INK), "o"), "rival": (SERIES[1], "D")}
    for place, task in enumerate(tasks):
        for axis, end in zip(axes[place], ends, strict=True):
            found = {
                who: part for (data, who), part in groups.items() if (task_of(data), redrawn_as(data)) == (task, end)
            }
            draw_task(axis, {method: found.get(method, []) for method in methods}, looks)
            axis.set_title(f"{task}, {WORLDS[end].replace(', ', ',' + chr(10))}", fontsize="medium")
    for axis in axes[-1]:
        axis.set_xlabel("R² of executed actions")
    axes[0, 0].set_yticks(range(len(methods)), methods)
    axes[0, 0].set_ylim(len(methods) - 0.4, -0.6)
    marks = [
        Line2D([], [], linestyle="", marker=mark, color=colour, label=f"{side}'s actions")
        for side, (colour, mark) in looks.items()
    ]
    ticks = [Line2D([], [], color=colour, label=f"{side}: frames, all labels") for side, (colour, _) in looks.items()]
    dots = [
        Line2D([], [], color=colour, linestyle=":", label=f"{side}: state alone") for side, (colour, _) in looks.items()
    ]
    figure.legend(handles=[*marks, *ticks, *dots], loc="outside lower center", ncols=3)
    caption = (
        f"Whose action? Share of the variance of the agent's and of the rival's executed actions that a linear probe "
        f"reads from the same latents, with {labels} labelled episodes of each ({preset} preset; one model of each "
        f"method, {counted(groups.values(), 'draws')} of labels; whiskers: 95 % interval over draws, Student's t). "
        "Lines: what a network reads from frames with all labels; dotted: what the same probe reads of the state, "
        "that is of three frames without any model."
    )
    return Sketch(figure, caption)


def draw_task(axis: Axes, groups: dict[str, Records], looks: dict[str, tuple[str, str]]) -> None:
    """Both sides of every method, joined by a line."""
    for place, found in enumerate(groups.values()):
        means = [estimate(values(found, f"{side}_r2")) for side in SIDES] if found else []
        if means:
            axis.plot([each.mean for each in means], [place, place], color=hexed(MUTED), linewidth=1.2, zorder=1)
        for (colour, mark), value in zip(looks.values(), means, strict=False):
            axis.errorbar(
                value.mean, place, xerr=value.half if np.isfinite(value.half) else None, color=colour, marker=mark
            )
    known = next((found[0]["metrics"] for found in groups.values() if found), {})
    for side, (colour, _) in looks.items():
        for metric, style in {"frames": "-", "state": ":"}.items():
            if (value := known.get(f"{side}_r2_{metric}")) is not None:
                axis.axvline(value, color=colour, linewidth=1.0, alpha=0.6, linestyle=style)
    axis.axvline(0, color=hexed(INK), linewidth=0.8)


def sketch_doses(folder: Path, preset: str) -> Sketch | None:
    """What each distractor costs each method, on the same episodes."""
    everything = complete(dosed(folder, preset), "agent_r2")
    labels = max((record["labels"] for record in everything), default=0)
    records = [record for record in everything if record["labels"] == labels]
    ends = [end for end in LADDER if any(redrawn_as(record["task"]) == end for record in records)]
    if len(ends) < 2:
        return None
    tasks = sorted({record["base"] for record in records})
    figure = Figure(figsize=(5.6 * len(tasks), 3.6), layout="constrained")
    axes = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    groups = group(records, "base", "method", "task")
    for axis, task in zip(axes, tasks, strict=True):
        for method in sorted({record["method"] for record in records}, key=rank_of):
            found = {
                redrawn_as(name): part for (base, who, name), part in groups.items() if (base, who) == (task, method)
            }
            known = [
                (place, estimate(values(found[end], "agent_r2"))) for place, end in enumerate(ends) if end in found
            ]
            if known:
                axis.plot(
                    [p for p, _ in known], [e.mean for _, e in known], "o-", color=colour_of(method), label=method
                )
            for place, each in known:
                draw_interval(axis, float(place), each.mean, each.half)
        axis.set_xticks(
            range(len(ends)), [WORLDS[end].replace(" and ", "\nand ") for end in ends], rotation=30, ha="right"
        )
        axis.axhline(0, color=hexed(INK), linewidth=0.8)
        axis.set_title(task)
    axes[0].set_ylabel("R² of the agent's actions")
    legend_below(figure, axes, 5)
    caption = (
        f"Which distractor costs which method how much: R² of the agent's executed actions, read linearly from latents "
        f"with {labels} labelled episodes, on the same episodes drawn with one distractor at a time ({preset} preset; "
        "one model of each method; whiskers: 95 % interval over draws of labels)."
    )
    return Sketch(figure, caption)
