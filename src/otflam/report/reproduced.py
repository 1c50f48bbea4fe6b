"""The paper's tables of returns, ours beside its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from otflam.evaluate.stats import rms_deviation
from otflam.report.markdown import chosen, group, main_budget, markdown, over_seeds
from otflam.report.policy_tables import named
from otflam.report.published import BASELINES, SUPERVISION, VOCABULARY

TASKS = ("cheetah-run", "walker-run")
USUAL = 64
"""Size of the vocabulary where a record names none."""
Records = list[dict[str, Any]]


def control_records(folder: Path, size: str) -> Records:
    """Records of returns with distractors, with the task they are of."""
    records = [record for record in chosen(folder, "control", size) if not record["task"].endswith("-vanilla")]
    return [
        record | {"base": record["task"].removesuffix("-noisy"), "codes": record.get("codes", 0)} for record in records
    ]


def cells(records: Records, paper: tuple[float, float] | None) -> list[str]:
    """Mean, deviation and the paper's of both."""
    if not records:
        ours = ["–", "–"]
    else:
        spread = rms_deviation([record["metrics"]["returns"] for record in records])
        ours = [over_seeds(records, "return_mean", digits=1), f"{spread:.1f}"]
    return [*ours, "–" if paper is None else f"{paper[0]:.2f} / {paper[1]:.2f}"]


def heads(tasks: Iterable[str]) -> list[str]:
    return [f"{task}: {what}" for task in tasks for what in ("return", "RMS deviation", "paper")]


def baselines_table(folder: Path, size: str) -> str:
    """Table full_baseline: every method at the budget with most of them, between floor and ceiling."""
    records = [record for record in control_records(folder, size) if not record["codes"]]
    labels = main_budget(records)
    rows, groups = [], group(records, "method", "labels", "base")
    methods = {record["method"]: named(record) for record in records if record["labels"] in (0, labels)}
    order = {"zero": 0, "random": 1, "labels-only": 2, "idm": 3, "all-actions": 98, "expert": 99}
    for method in sorted(methods, key=lambda name: (order.get(name, 50), name)):
        row = [methods[method]]
        for task in TASKS:
            found = groups.get((method, labels, task)) or groups.get((method, 0, task), [])
            row += cells(found, BASELINES[task].get(method))
        rows.append(row)
    return markdown([f"method ({labels} labels)", *heads(TASKS)], rows)


def vocabulary_table(folder: Path, size: str) -> str:
    """Table full_ksweep: how returns depend on the size of the vocabulary."""
    records, rows = control_records(folder, size), []
    groups = group([r | {"codes": r["codes"] or USUAL} for r in records], "base", "codes", "method", "labels")
    budgets = sorted({key[3] for key in groups if key[2] in VOCABULARY[TASKS[0]] and key[1] != USUAL})
    for task in TASKS:
        for codes in (16, 32, 64, 128):
            found = {
                method: groups.get((task, codes, method, budgets[0] if budgets else 0), [])
                for method in VOCABULARY[task]
            }
            if any(found.values()):
                ours = [cells(found[method], paper[codes]) for method, paper in VOCABULARY[task].items()]
                rows.append([task, str(codes), *itertools.chain(*ours)])
    return markdown(["task", "K", *heads(VOCABULARY[TASKS[0]])], rows)


def supervision_table(folder: Path, size: str) -> str:
    """Table supervision: how returns grow with labelled episodes; the paper's budgets are of longer episodes."""
    records, rows = control_records(folder, size), []
    groups = group([r | {"codes": r["codes"] or USUAL} for r in records], "method", "codes", "labels", "base")
    wanted = [("otf-lam-dino", codes) for codes in (16, 32, 64, 128)] + [("lapo-256", 0), ("labels-only", 0)]
    for method, codes in wanted:
        budgets = {key[2] for key in groups if key[:2] == (method, codes or USUAL)}
        for labels in sorted(budgets):
            row = [method, str(codes or "–"), str(labels)]
            for task in TASKS:
                paper = SUPERVISION[task].get(codes, {}).get(labels) if method != "labels-only" else None
                row += cells(groups.get((method, codes or USUAL, labels, task), []), paper)
            rows.append(row)
    return markdown(["method", "K", "labelled episodes", *heads(TASKS)], rows)
