"""Learning curves: of experts, of policies and of what decodes their actions."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from otflam.core.errors import UserError
from otflam.core.files import replacing
from otflam.report.markdown import chosen, group
from otflam.report.policy_tables import named
from otflam.report.style import SERIES

matplotlib.use("Agg")
CURVES = {"control": ("curve_clone", "cloning loss"), "alignment": ("curve_mse", "decoding error, held out")}


def draw_expert_curves(logs: dict[str, Path], path: Path) -> Path:
    """Draw the mean evaluation return of each training log against the decisions taken."""
    figure, axes = plt.subplots(figsize=(7, 3.4), dpi=120)
    for (name, log), colour in zip(logs.items(), SERIES, strict=False):
        try:
            rows = [json.loads(line) for line in log.read_text().splitlines()]
            points = [(row["decisions"], sum(row["returns"]) / len(row["returns"])) for row in rows if "returns" in row]
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"{log} is no training log ({error})", "give log.jsonl of 'otflam expert train'") from None
        axes.plot([x / 1e3 for x, _ in points], [y for _, y in points], color=colour, label=name)
    axes.set(xlabel="thousand decisions", ylabel="return at repeat 1", ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return _save(figure, path)


def draw_convergence(folder: Path, size: str, labels: int, path: Path) -> Path:
    """The paper's convergence figure from records: how fast latents are imitated, and how fast decoded."""
    curves = {
        name: group(
            (r for r in chosen(folder, name, size) if r["labels"] == labels and CURVES[name][0] in r["metrics"]),
            "task",
            "method",
        )
        for name in CURVES
    }
    tasks = sorted({task for found in curves.values() for task, _ in found})
    if not tasks:
        raise UserError(
            f"{folder} has no curves of {size} at {labels} labels", "run 'otflam evaluate alignment' or give --labels"
        )
    methods = sorted({method for found in curves.values() for _, method in found if "+" not in method})
    figure, axes = plt.subplots(2, len(tasks), figsize=(3.6 * len(tasks), 5.4), dpi=120, squeeze=False)
    for row, (name, (metric, label)) in zip(axes, CURVES.items(), strict=True):
        for axis, task in zip(row, tasks, strict=True):
            for method, colour in zip(methods, itertools.cycle(SERIES), strict=False):
                records = curves[name].get((task, method), [])
                found = [record["metrics"] for record in records]
                if found:
                    axis.plot(
                        found[0]["curve_steps"],
                        np.mean([metrics[metric] for metrics in found], 0),
                        color=colour,
                        label=named(records[0]),
                    )
            axis.set(title=task, xlabel="steps", ylabel=label if axis is row[0] else None)
            axis.spines[["top", "right"]].set_visible(False)
    handles = {label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles, frameon=False, ncol=len(handles), loc="lower center")
    return _save(figure, path, bottom=0.06)


def _save(figure: Figure, path: Path, bottom: float = 0.0) -> Path:
    figure.tight_layout(rect=(0, bottom, 1, 1))
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png")
    plt.close(figure)
    return path
