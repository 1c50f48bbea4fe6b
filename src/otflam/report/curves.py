"""Learning curves: of experts, of policies and of what decodes their actions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from otflam.core import UserError
from otflam.evaluate import VANILLA, Records, chosen, group, main_budget, named, usual, world_of
from otflam.report.canvas import Sketch, counted, legend_below, write_figure
from otflam.report.style import FIGURE, MUTED, SERIES, colour_of, hexed, line_width, rank_of


@dataclass(frozen=True)
class Curve:
    """Where a kind of curve is recorded, and what it is called."""

    experiment: str
    steps: str
    values: str
    label: str
    caption: str
    """What the caption says of it."""


CURVES = {
    "cloning": Curve(
        *("control", "curve_steps", "curve_clone", "cloning loss"),
        "How fast a policy imitates latent actions (loss as a share of their variance).",
    ),
    "decoder": Curve(
        *("control", "decoder_steps", "decoder_mse", "decoder's error"),
        "How fast the agent's decoder learns actions with {budgets} labelled episodes, from what its policy says (the "
        "paper's curve: error on episodes without labels).",
    ),
    "probe": Curve(
        *("alignment", "curve_steps", "curve_mse", "probe's error"),
        "How fast a network reads the true action from the latents themselves with {budgets} labelled episodes (error "
        "on held-out episodes).",
    ),
}


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


def draw_convergence(folder: Path, preset: str, labels: int, path: Path) -> Path:
    """The paper's convergence figure at one budget: how fast latents are imitated, and how fast decoded."""
    with matplotlib.rc_context(FIGURE):
        parts = [part for kind in CURVES for part in curve_parts(folder, preset, kind, labels)]
        sketch = sketch_curves(parts, preset)
    if sketch is None:
        raise UserError(
            f"{folder} has no curves of {preset} at {labels} labels",
            "run 'otflam reproduce convergence' or give --labels",
        )
    return write_figure(sketch.figure, path)


def sketch_convergence(folder: Path, preset: str) -> Sketch | None:
    """Cloning at the budget of labels with most methods, decoding at every budget."""
    labels = main_budget(_with_curves(folder, preset, "cloning"))
    parts = curve_parts(folder, preset, "cloning", labels)
    return sketch_curves(
        parts + [part for kind in ("decoder", "probe") for part in curve_parts(folder, preset, kind)], preset
    )


@dataclass(frozen=True)
class Part:
    """One row of the figure: the curves of one kind with so many labelled episodes."""

    kind: str
    labels: int
    records: Records

    @property
    def height(self) -> float:
        """In inches."""
        return 2.4 if self.kind == "cloning" else 1.6

    @property
    def title(self) -> str:
        """Nothing for cloning, which no label changes."""
        return "" if self.kind == "cloning" else f"{self.labels} labelled episodes"


def curve_parts(folder: Path, preset: str, kind: str, only: int | None = None) -> list[Part]:
    """A row for each budget of labels that has curves of a kind, or for one."""
    groups = group(_with_curves(folder, preset, kind), "labels")
    return [Part(kind, labels, groups[labels,]) for (labels,) in sorted(groups) if only in (None, labels)]


def _with_curves(folder: Path, preset: str, kind: str) -> Records:
    """Records that have a curve of a method of its own: ways of grounding share theirs with one, or have none."""
    found = usual(chosen(folder, CURVES[kind].experiment, preset))
    return [r for r in found if r["labels"] and CURVES[kind].values in r["metrics"] and "+" not in r["method"]]


def sketch_curves(parts: list[Part], preset: str) -> Sketch | None:
    """One row for each part, one column for each data set."""
    tasks = sorted({record["task"] for part in parts for record in part.records})
    # The figure is of distractors where there are any, as the paper's is; both worlds would be too wide to read.
    tasks = [task for task in tasks if VANILLA not in task] or tasks
    if not tasks:
        return None
    heights = [part.height for part in parts]
    figure = Figure(figsize=(3.9 * len(tasks) + 0.6, sum(heights) + 0.6), layout="constrained")
    axes = figure.subplots(len(parts), len(tasks), squeeze=False, height_ratios=heights)
    for row, part in zip(axes, parts, strict=True):
        _draw_part(row, part, tasks)
    for axis, task in zip(axes[0], tasks, strict=True):
        axis.set_title(", ".join(filter(None, (world_of(task), parts[0].title))))
    for axis in axes[-1]:
        axis.set_xlabel("steps")
    legend_below(figure, axes.flat, 4)
    return Sketch(figure, _caption_of(parts, preset))


def _draw_part(row: np.ndarray, part: Part, tasks: list[str]) -> None:
    """The curves of all methods, task by task."""
    curve = CURVES[part.kind]
    for axis, task in zip(row, tasks, strict=True):
        found = group((record for record in part.records if record["task"] == task), "method")
        for method in sorted(found, key=lambda key: rank_of(key[0])):
            _draw_curve(axis, found[method], curve)
        if not found:
            axis.text(0.5, 0.5, "no record", transform=axis.transAxes, ha="center", color=hexed(MUTED))
        axis.set_title(part.title, fontweight="normal", fontsize=8.5)
        if part.kind == "cloning":
            axis.set_xlabel("steps")  # decoding takes others
    row[0].set_ylabel(curve.label)


def _caption_of(parts: list[Part], preset: str) -> str:
    """The caption."""
    sentences = []
    for kind in dict.fromkeys(part.kind for part in parts):
        budgets = [str(part.labels) for part in parts if part.kind == kind]
        listed = " and ".join(filter(None, (", ".join(budgets[:-1]), *budgets[-1:])))
        sentences.append(CURVES[kind].caption.format(budgets=listed))
    seeds = counted([found for part in parts for found in group(part.records, "task", "method").values()], "seeds")
    return " ".join(sentences) + (
        f" Preset: {preset}. Lines: mean over {seeds}; bands: their range. The paper's curves are of far "
        "longer training on far more data."
    )


def _draw_curve(axis: Axes, records: Records, curve: Curve) -> None:
    """The mean over seeds as far as all of them go."""
    length = min(len(record["metrics"][curve.values]) for record in records)
    rows = np.array([record["metrics"][curve.values][:length] for record in records], np.float64)
    steps, method = records[0]["metrics"][curve.steps][:length], records[0]["method"]
    axis.fill_between(steps, rows.min(0), rows.max(0), color=colour_of(method), alpha=0.15, linewidth=0)
    axis.plot(steps, rows.mean(0), color=colour_of(method), linewidth=line_width(method), label=named(records[0]))
