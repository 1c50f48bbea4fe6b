"""The paper's tables of returns, ours beside its own, each between floor and ceiling."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from otflam.evaluate.stats import rms_deviation
from otflam.report.markdown import chosen, group, main_budget, markdown, over_seeds
from otflam.report.policy_tables import named
from otflam.report.published import BASELINES, SUPERVISION, VOCABULARY

TASKS = ("cheetah-run", "walker-run")
SWEPT = ("otf-lam-pixel", "otf-lam-dino")
"""Methods with a vocabulary."""
USUAL = 64
"""Its size where a record names none."""
SUPERVISED = ("otf-lam-dino", "lapo-256", "labels-only")
"""Methods that play with every budget of labels."""
FLOOR, CEILING = ("zero", "random"), ("all-actions", "expert")
Records = list[dict[str, Any]]
Published = Mapping[str, tuple[float, float] | None]
"""The paper's mean and deviation on each task."""


def control_records(folder: Path, size: str) -> Records:
    """Records of returns with distractors, with the task they are of."""
    records = [record for record in chosen(folder, "control", size) if not record["task"].endswith("-vanilla")]
    return [
        record | {"base": record["task"].removesuffix("-noisy"), "codes": record.get("codes", 0)} for record in records
    ]


def sized(records: Records) -> Records:
    """Records in which the usual vocabulary has its number, for methods that have a vocabulary."""
    return [r | {"codes": (r["codes"] or USUAL) if r["method"] in SWEPT else 0} for r in records]


def baselines_table(folder: Path, size: str) -> str:
    """Table full_baseline: every method at the budget with most of them."""
    records = [record for record in control_records(folder, size) if not record["codes"]]
    labels = main_budget(records)
    groups = group((record for record in records if record["labels"] == labels), "method")
    order = {"labels-only": 0, "idm": 1}
    rows = []
    for (method,), found in sorted(groups.items(), key=lambda item: (order.get(item[0][0], 2), item[0])):
        rows.append(_row(found, [], {task: BASELINES[task].get(method) for task in TASKS}))
    return markdown(_heads(f"method ({labels} labels)"), _between(records, rows, []))


def vocabulary_table(folder: Path, size: str) -> str:
    """Table full_ksweep: how returns depend on the size of the vocabulary."""
    records, rows = control_records(folder, size), []
    labels = main_budget(records)  # one method has other sizes at other budgets too, for the study of supervision
    groups = group((record for record in sized(records) if record["labels"] == labels), "method", "codes")
    for method, codes in sorted((key for key in groups if key[0] in SWEPT), key=lambda key: (SWEPT.index(key[0]), key)):
        paper = {task: VOCABULARY[task][method].get(codes) for task in TASKS}
        rows.append(_row(groups[method, codes], [str(codes)], paper))
    return markdown(_heads(f"method ({labels} labels)", "K"), _between(records, rows, ["–"]))


def supervision_table(folder: Path, size: str) -> str:
    """Table supervision: how returns grow with labelled episodes; the paper's budgets are of longer episodes."""
    records, rows = control_records(folder, size), []
    groups = group((r for r in sized(records) if r["method"] in SUPERVISED), "method", "codes", "labels")
    for method, codes, labels in sorted(groups, key=lambda key: (SUPERVISED.index(key[0]), key)):
        known = method != "labels-only"
        paper = {task: SUPERVISION[task].get(codes, {}).get(labels) if known else None for task in TASKS}
        rows.append(_row(groups[method, codes, labels], [str(codes or "–"), str(labels)], paper))
    return markdown(_heads("method", "K", "labelled episodes"), _between(records, rows, ["–", "–"]))


def _row(records: Records, names: list[str], paper: Published) -> list[str]:
    """A method and further names; then, for each task, mean, deviation and the paper's of both."""
    cells = [named(records[0] | {"codes": 0}), *names]
    for task in TASKS:
        found = [record for record in records if record["base"] == task]
        spread = f"{rms_deviation([record['metrics']['returns'] for record in found]):.1f}" if found else "–"
        published = paper.get(task)
        told = "–" if published is None else f"{published[0]:.2f} / {published[1]:.2f}"
        cells += [over_seeds(found, "return_mean", digits=1), spread, told]
    return cells


def _between(records: Records, rows: list[list[str]], names: list[str]) -> list[list[str]]:
    """Rows between those of floor and ceiling."""
    groups = group(records, "method")
    low, high = (
        [_row(groups[method,], names, {}) for method in bounds if (method,) in groups] for bounds in (FLOOR, CEILING)
    )
    return low + rows + high


def _heads(*names: str) -> list[str]:
    return [*names, *(f"{task}: {what}" for task in TASKS for what in ("return", "RMS deviation", "paper"))]
