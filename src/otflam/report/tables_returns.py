"""Tables of what agents earn: the README's one table, all of them, the paper's beside its own values, and trials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from otflam.evaluate import (
    Records,
    best_by_return,
    bootstrap_interval,
    chosen,
    difference,
    distracted,
    group,
    interquartile_mean,
    main_budget,
    named,
    names,
    over,
    returns_of,
    rms_deviation,
    share_of_bound,
    sized,
    usual,
)
from otflam.report.published import BASELINES, SUPERVISION, VOCABULARY
from otflam.report.tables_models import CEILINGS, NONE, Body, over_seeds, with_half, with_interval

ROWS = (*names.REFERENCES, names.BASELINE, *names.OURS)
"""With every budget of labels, and after them the same with ways of ours."""
ORDER = {name: place for place, name in enumerate((*names.FLOOR, *reversed(names.CEILING)))}
"""References before all methods where tasks come one after the other."""
Published = Mapping[str, tuple[float, float] | None]
"""The paper's mean and deviation on each task."""


def summary_table(folder: Path, preset: str) -> Body:
    """Returns, their difference from the labels alone, returns from recorded starts, and innovation R²."""
    records = usual(distracted(folder, "control", preset))
    innovations = distracted(folder, "innovation", preset)
    found = {record["method"] for record in records}
    rows = [_summary_row(records, innovations, method, 0) for method in names.FLOOR if method in found]
    for labels in sorted({r["labels"] for r in records if r["labels"]}):
        methods = {r["method"] for r in records if r["labels"] == labels}
        rows += [_summary_row(records, innovations, method, labels) for method in sorted(methods, key=_place)]
    rows += [_summary_row(records, innovations, method, 0) for method in names.CEILING if method in found]
    rows += [_ceiling_row(innovations, metric, name) for metric, name in CEILINGS.items() if innovations]
    head = ["method", "labels"]
    for task in names.TASKS:  # short, so that the table fits a page of text
        body = task.partition("-")[0]
        head += [f"{body}: return", *(f"{body[0]}: {what}" for what in ("gain", "starts", "innov."))]
    return head, rows


def suite_table(folder: Path, preset: str) -> Body:
    """What imitating every true action earns in each world, between floor and ceiling."""
    every = [record for study in ("suite", "control", "rivalry") for record in chosen(folder, study, preset)]
    worlds = ("", names.VANILLA, names.UNLIKE)
    records = [r for r in every if names.NOISY in r["task"] and names.redrawn_as(r["task"]) in worlds]
    rows, rows_of = [], (*names.FLOOR, *names.CEILING)
    for (task,), found in sorted(group(records, "task").items()):
        by = {method: over([r for r in found if r["method"] == method], "return_mean") for method in rows_of}
        starts = with_half(over([r for r in found if r["method"] == names.ALL_ACTIONS], "start_return_share", 100.0), 0)
        imitated, best = by[names.ALL_ACTIONS], by["expert"]
        if imitated is not None and best is not None:
            share = f"{100 * imitated.mean / best.mean:.0f}"
            rows.append([names.world_of(task), *(with_half(earned, 1) for earned in by.values()), share, starts])
    return ["world", *rows_of, "% of expert", "from starts %"], rows


RETURNS = ["data", "labels", "method", "return", "% of expert", "from starts %"]


def returns_rows(records: Records) -> list[list[str]]:
    """What each method earns in each world, beside the expert there."""
    rows = []
    for (task,), found in sorted(group(records, "task").items()):
        top = over([record for record in found if record["method"] == "expert"], "return_mean")
        for (labels, _), each in sorted(group(found, "labels", "method").items()):
            earned = over(each, "return_mean")
            share = NONE if top is None or earned is None else f"{100 * earned.mean / top.mean:.0f}"
            starts = with_half(over(each, "start_return_share", 100.0), 0)
            rows.append([task, str(labels or NONE), named(each[0]), with_half(earned, 1), share, starts])
    return rows


def headline_table(folder: Path, preset: str) -> Body:
    """The same in a row for each method: returns and starts at every budget, innovation R² at the largest."""
    records, innovations = usual(distracted(folder, "control", preset)), distracted(folder, "innovation", preset)
    budgets, found = sorted({r["labels"] for r in records if r["labels"]}), {r["method"] for r in records}
    methods = sorted(found - {*names.FLOOR, *names.CEILING}, key=_place)
    head, rows = ["method"], []
    for task in names.TASKS:
        body = task.partition("-")[0]
        head += [f"{body}: return ({labels} labels)" for labels in budgets]
        head += [f"{body[0]}: starts ({labels} labels)" for labels in budgets] + [f"{body[0]}: innov."]
    for method in (*names.FLOOR, *methods, *names.CEILING):
        every = [_summary_row(records, innovations, method, labels if method in methods else 0) for labels in budgets]
        if method in found:
            name = next((row[0] for row in every if row[0] != method), method)
            rows.append([name])
            for first in range(2, len(every[0]), 4):
                returns, _, starts, known = zip(*(row[first : first + 4] for row in every), strict=True)
                rows[-1] += [*returns, *starts, known[-1]]
    return head, rows


def _place(method: str) -> tuple[bool, int, str]:
    name, _, way = method.partition("+")
    return bool(way), ROWS.index(name) if name in ROWS else len(ROWS), method


def _summary_row(records: Records, innovations: Records, method: str, labels: int) -> list[str]:
    entries: list[str] = []
    name = method
    for task in names.TASKS:
        here = [r for r in records if (r["base"], r["labels"]) == (task, labels)]
        found, alone = ([r for r in here if r["method"] == each] for each in (method, names.LABELS_ONLY))
        read = [r for r in innovations if (r["base"], r["method"], r["labels"]) == (task, method, labels)]
        name = names.named(found[0]) if found else name
        gap = difference(found, alone, returns_of) if labels and method != names.LABELS_ONLY else None
        entries += [
            with_half(over(found, "return_mean"), 1),
            with_half(gap, 1, sign=True),
            with_half(over(found, "start_return_share", 100.0), 1),
            with_half(over(read, "innovation_r2"), 3),
        ]
    return [name, str(labels or NONE), *entries]


def _ceiling_row(innovations: Records, metric: str, name: str) -> list[str]:
    """What could be read at best, the same for all methods; its interval is over held-out episodes."""
    entries: list[str] = []
    for task in names.TASKS:
        found = [r["metrics"] for r in innovations if r["base"] == task and r["metrics"].get(metric) is not None]
        entries += [NONE, NONE, NONE, with_interval(found[0], metric) if found else NONE]
    return [f"ceiling: {name}", NONE, *entries]


def tuning_table(folder: Path, preset: str) -> Body:
    """Every trial: what so many steps on labelled episodes earned on validation seeds; the best is marked."""
    records, rows = distracted(folder, "tuning", preset), []
    steps = sorted({r["steps"] for r in records})
    groups = group(records, "method", "labels", "base")
    for method, labels, task in sorted(groups, key=lambda key: (_place(key[0]), key[1:])):
        returns = {r["steps"]: r["metrics"]["return_mean"] for r in groups[method, labels, task]}
        best = max(returns.values())
        entries = [
            f"{returns[each]:.1f}" + " *" * (returns[each] == best) if each in returns else NONE for each in steps
        ]
        rows.append([names.named(groups[method, labels, task][0]), str(labels), task, *entries])
    return ["method", "labels", "task", *(f"{each:,} steps" for each in steps)], rows


def control_table(folder: Path, preset: str) -> Body:
    """Returns, each task with its floor and its ceiling."""
    records, rows = chosen(folder, "control", preset), []
    records += best_by_return(records)
    bounds = group(records, "task", "method")
    groups = group([{"codes": 0} | record for record in records], "task", "labels", "method", "codes")
    for task, labels, method, codes in sorted(groups, key=lambda key: (*key[:2], ORDER.get(key[2], 9), *key[2:])):
        found = groups[task, labels, method, codes]
        shares = [share_of_bound(found, bounds.get((task, top), [])) for top in ("expert", names.ALL_ACTIONS)]
        percent = [NONE if share is None else f"{share:.0f}" for share in shares]
        first = [task, str(labels or NONE), names.named(found[0])]
        rows.append([*first, *_earned(found), *percent, imitated(found), str(len(found))])
    head = ["data", "labels", "method", "return", "bootstrap interval", "RMS deviation", "middle half"]
    return [*head, "new backgrounds", "% of expert", "% of all actions", "imitated", "seeds"], rows


def _earned(records: Records) -> list[str]:
    """Return, its bootstrap interval, the deviation of episodes, their middle half, and new backgrounds."""
    returns = [record["metrics"]["returns"] for record in records]
    low, high = bootstrap_interval(returns)
    new = over(records, "return_new_backgrounds")
    return [
        over_seeds(records, "return_mean", digits=1),
        f"{low:.1f} to {high:.1f}",
        f"{rms_deviation(returns):.1f}",
        f"{interquartile_mean([value for group in returns for value in group]):.1f}",
        NONE if new is None else f"{new.mean:.1f}",
    ]


def imitated(records: Records) -> str:
    """An entry: episodes that a policy imitates, with or without labels."""
    count = records[0]["metrics"].get("imitated_episodes")
    return NONE if count is None else f"{count:.0f}"


def baselines_table(folder: Path, preset: str) -> Body:
    """Table full_baseline: every method at the budget with most of them."""
    records = usual(distracted(folder, "control", preset))
    labels = main_budget(records)
    groups = group((record for record in records if record["labels"] == labels), "method")
    rows = []
    for (method,) in sorted(groups, key=lambda key: (key[0] != names.LABELS_ONLY, key[0] != names.IDM, key)):
        rows.append(_row(groups[method,], [], {task: BASELINES[task].get(method) for task in names.TASKS}))
    return _heads(f"method ({labels} labels)"), _between(records, rows, [])


def vocabulary_table(folder: Path, preset: str) -> Body:
    """Table full_ksweep: how returns depend on the size of the vocabulary."""
    records, rows = distracted(folder, "control", preset), []
    labels = main_budget(records)  # one method has other sizes at other budgets too, for the study of supervision
    groups = group((record for record in sized(records) if record["labels"] == labels), "method", "codes")
    for method, codes in (key for ours in names.OURS for key in sorted(groups) if key[0] == ours):
        paper = {task: VOCABULARY[task][method].get(codes) for task in names.TASKS}
        rows.append(_row(groups[method, codes], [str(codes)], paper))
    return _heads(f"method ({labels} labels)", "K"), _between(records, rows, [NONE])


def supervision_table(folder: Path, preset: str) -> Body:
    """Table supervision: how returns grow with labelled episodes; the paper's budgets are of longer episodes."""
    records, rows = distracted(folder, "control", preset), []
    groups = group((r for r in sized(records) if r["method"] in names.SUPERVISED), "method", "codes", "labels")
    for method, codes, labels in sorted(groups, key=lambda key: (names.SUPERVISED.index(key[0]), key)):
        swept = method != names.LABELS_ONLY
        paper = {task: SUPERVISION[task].get(codes, {}).get(labels) if swept else None for task in names.TASKS}
        rows.append(_row(groups[method, codes, labels], [str(codes or NONE), str(labels)], paper))
    return _heads("method", "K", "labelled episodes"), _between(records, rows, [NONE, NONE])


def _row(records: Records, facts: list[str], paper: Published) -> list[str]:
    """A method and further facts; then, for each task, mean, deviation and the paper's of both."""
    entries = [names.named(records[0] | {"codes": 0}), *facts]
    for task in names.TASKS:
        found = [record for record in records if record["base"] == task]
        spread = f"{rms_deviation([record['metrics']['returns'] for record in found]):.1f}" if found else NONE
        published = paper.get(task)
        printed = NONE if published is None else f"{published[0]:.2f} / {published[1]:.2f}"
        entries += [over_seeds(found, "return_mean", digits=1), spread, printed]
    return entries


def _between(records: Records, rows: list[list[str]], facts: list[str]) -> list[list[str]]:
    """Rows between those of floor and ceiling."""
    groups = group(records, "method")
    low, high = (
        [_row(groups[method,], facts, {}) for method in bounds if (method,) in groups]
        for bounds in (names.FLOOR, names.CEILING)
    )
    return low + rows + high


def _heads(*first: str) -> list[str]:
    return [*first, *(f"{task}: {what}" for task in names.TASKS for what in ("return", "RMS deviation", "paper"))]
