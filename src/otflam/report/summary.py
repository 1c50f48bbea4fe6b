"""The one table of the README: what every row earns, how far it gets from good states, and what its latents know."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from otflam.evaluate.stats import Estimate, estimate, paired
from otflam.report.markdown import chosen, group, markdown
from otflam.report.policy_tables import named
from otflam.report.reproduced import CEILING, FLOOR, TASKS, control_records

LABELS_ALONE = "labels-only"
ROWS = (LABELS_ALONE, "idm", "lapo-256", "otf-lam-pixel", "otf-lam-dino")
"""With every budget of labels, and after them the same with ways of ours."""
CEILINGS = {"innovation_r2_states": "true states before and after", "innovation_r2_frames": "frames, all labels"}
Records = list[dict[str, Any]]


def summary_table(folder: Path, size: str) -> str:
    """Returns, their difference from the labels alone, returns from recorded starts, and innovation R²."""
    records = [record for record in control_records(folder, size) if not record["codes"]]
    known = [r | {"base": r["task"].removesuffix("-noisy")} for r in chosen(folder, "innovation", size)]
    budgets = sorted({r["labels"] for r in records if r["labels"]})
    found = {record["method"] for record in records}
    rows = [_row(records, known, method, 0) for method in FLOOR if method in found]
    for labels in budgets:
        methods = {r["method"] for r in records if r["labels"] == labels}
        for method in sorted(methods, key=_place):
            rows.append(_row(records, known, method, labels))
    rows += [_row(records, known, method, 0) for method in CEILING if method in found]
    rows += [_ceiling(known, metric, name) for metric, name in CEILINGS.items() if known]
    what = ("return", "minus labels alone", "from starts", "innovation R²")
    return markdown(["method", "labels", *(f"{task}: {each}" for task in TASKS for each in what)], rows)


def _place(method: str) -> tuple[bool, int, str]:
    name, _, way = method.partition("+")
    return bool(way), ROWS.index(name) if name in ROWS else len(ROWS), method


def _row(records: Records, known: Records, method: str, labels: int) -> list[str]:
    cells: list[str] = []
    name = method
    for task in TASKS:
        here = [r for r in records if r["base"] == task]
        found = [r for r in here if (r["method"], r["labels"]) == (method, labels)]
        alone = [r for r in here if (r["method"], r["labels"]) == (LABELS_ALONE, labels)]
        read = [r for r in known if (r["base"], r["method"], r["labels"]) == (task, method, labels)]
        name = named(found[0]) if found else name
        gap = difference(found, alone, returns_of) if labels and method != LABELS_ALONE else None
        cells += [
            told(estimate([r["metrics"]["return_mean"] for r in found]) if found else None, 1),
            told(gap, 1, sign=True),
            told(_over(found, "start_return_share", 100.0), 1),
            told(_over(read, "innovation_r2"), 3),
        ]
    return [name, str(labels or "–"), *cells]


def _ceiling(known: Records, metric: str, name: str) -> list[str]:
    """What could be read at best, the same for all methods; its interval is over held-out episodes."""
    cells: list[str] = []
    for task in TASKS:
        found = [r for r in known if r["base"] == task and r["metrics"].get(metric) is not None]
        best = "–"
        if found:
            low, high = found[0]["metrics"][f"{metric}_interval"]
            best = f"{found[0]['metrics'][metric]:.3f} ({low:.3f} to {high:.3f})"
        cells += ["–", "–", "–", best]
    return [f"ceiling: {name}", "–", *cells]


def _over(records: Records, metric: str, scale: float = 1.0) -> Estimate | None:
    values = [scale * r["metrics"][metric] for r in records if r["metrics"].get(metric) is not None]
    return estimate(values) if values else None


def told(value: Estimate | None, digits: int, sign: bool = False) -> str:
    """A number with half of its interval; a draw that was made once, or always the same, has none."""
    if value is None or math.isnan(value.mean):
        return "–"
    form = f"{'+' if sign else ''}.{digits}f"
    half = f" ± {value.half:.{digits}f}" if math.isfinite(value.half) and value.half > 1e-9 else ""
    return f"{value.mean:{form}}{half}"


def difference(
    ours: Records, theirs: Records, values: Callable[[dict[str, Any]], Sequence[float]], comparisons: int = 1
) -> Estimate | None:
    """Ours minus theirs in the same episodes, seed by seed."""
    other = {record["seed"]: values(record) for record in theirs}
    pairs = [(values(record), other[record["seed"]]) for record in ours if record["seed"] in other]
    gaps = [np.subtract(*both).tolist() for both in pairs if len(both[0]) == len(both[1])]
    return paired(gaps, comparisons) if gaps else None


def returns_of(record: dict[str, Any]) -> list[float]:
    """Returns of the episodes that all methods meet."""
    return record["metrics"]["returns"]


def starts_of(record: dict[str, Any]) -> list[float]:
    """Shares of the way from floor to ceiling that each held-out episode's stretches earn."""
    metrics = record["metrics"]
    earned, floor, ceiling = (np.array(metrics[f"start_{name}"]) for name in ("returns", "zero", "expert"))
    return ((earned - floor) / (ceiling - floor).mean()).tolist()


def tuning_table(folder: Path, size: str) -> str:
    """Every trial: what so many steps on labelled episodes earned on validation seeds; the best is marked."""
    records = [r | {"base": r["task"].removesuffix("-noisy")} for r in chosen(folder, "tuning", size)]
    steps = sorted({r["steps"] for r in records})
    rows = []
    groups = group(records, "method", "labels", "base")
    for method, labels, task in sorted(groups, key=lambda key: (_place(key[0]), key[1:])):
        earned = {r["steps"]: r["metrics"]["return_mean"] for r in groups[method, labels, task]}
        best = max(earned.values())
        cells = [f"{earned[each]:.1f}" + " *" * (earned[each] == best) if each in earned else "–" for each in steps]
        rows.append([named(groups[method, labels, task][0]), str(labels), task, *cells])
    return markdown(["method", "labels", "task", *(f"{each:,} steps" for each in steps)], rows)


def innovation_table(folder: Path, size: str) -> str:
    """What latents know that no state could have told, beside raw motion and the ceilings."""
    rows = []
    for (task, labels, _), found in sorted(
        group(chosen(folder, "innovation", size), "task", "labels", "method").items()
    ):
        metrics = found[0]["metrics"]
        read = [told(_over(found, name), 3) for name in ("innovation_r2", "innovation_mlp_r2", "innovation_r2_motion")]
        tops = [_with_interval(metrics, f"innovation_{kind}") for kind in ("r2_states", "mlp_r2_states", "r2_frames")]
        rows.append([task, str(labels), named(found[0]), *read, *(share_of(found, top) for top in CEILINGS), *tops])
    head = ["data", "labels", "method", "innovation R²", "MLP", "raw motion", "% of states", "% of frames"]
    return markdown([*head, "ceiling of states", "by MLP", "ceiling of frames"], rows)


def _with_interval(metrics: dict[str, Any], name: str) -> str:
    if metrics.get(name) is None:
        return "–"
    low, high = metrics[f"{name}_interval"]
    return f"{metrics[name]:.3f} ({low:.3f} to {high:.3f})"


def share_of(records: Records, ceiling: str) -> str:
    """The share of a ceiling, where that is surely above 0."""
    metrics = records[0]["metrics"]
    if metrics.get(ceiling) is None or metrics[f"{ceiling}_interval"][0] <= 0:
        return "–"
    return told(_over(records, "innovation_r2", 100 / metrics[ceiling]), 0)
