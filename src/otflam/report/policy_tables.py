"""Tables of what latent actions know and of what agents earn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from otflam.evaluate.stats import Estimate, bootstrap_interval, estimate, interquartile_mean, rms_deviation
from otflam.report.markdown import chosen, group, markdown, over_seeds

BRIEF = 8
"""The budget of labels in short tables."""
WITHOUT_LABELS = ("zero", "random", "expert", "all-actions")
BASELINE = "lapo-256"


def named(record: dict[str, Any]) -> str:
    """A method's name, with its backbone if that is not the official one and its vocabulary if that is unusual."""
    facts = [record["backbone"]] if "backbone" in record else []
    facts += [f"K = {record['codes']}"] if record.get("codes") else []
    return record["method"] + (f" ({', '.join(facts)})" if facts else "")


def alignment_table(folder: Path, size: str, only: int | None = None) -> str:
    """How well actions and distractors are read from latents, with the controls."""
    names = ("action_r2", "action_r2_gain", "state_r2", "present_r2", "still_r2", "motion_r2", "both_r2")
    names += ("mlp_r2", "mlp_state_r2", "action_mse")
    leaks = ("distractor_r2", "background_r2", "colour_r2")  # no labels are drawn for them, so that seeds agree
    records = [record for record in chosen(folder, "alignment", size) if only in (None, record["labels"])]
    rows = [
        [task, str(labels), named(found[0]), *(over_seeds(found, name) for name in names)]
        + [over_seeds(found[:1], name) for name in leaks]
        for (task, labels, _), found in sorted(group(records, "task", "labels", "method").items())
    ]
    head = ["data", "labels", "method", "action R²", "gain over state", "state alone", "own present", "no future"]
    head += ["raw motion", "latent + state", "MLP R²", "MLP, state alone", "action MSE"]
    head += ["camera R²", "background R²", "colour R²"]
    return markdown(head, rows)


def brief_alignment_table(folder: Path, size: str) -> str:
    return alignment_table(folder, size, BRIEF)


def paired_alignment_table(folder: Path, size: str) -> str:
    """The paper's claim: a method's decoding error minus LAPO's on the same held-out episodes with the same labels.

    Intervals are over episodes, each averaged over the draws of labels: one model of each method was trained.
    """
    rows = []
    for (task, labels), found in sorted(group(chosen(folder, "alignment", size), "task", "labels").items()):
        for (method,), ours in group(found, "method").items():
            gap = decoding_gap(found, method) if method != BASELINE else None
            if gap:
                rows.append([task, str(labels), named(ours[0]), str(gap.error), str(gap.error.count), str(gap.draws)])
    return markdown(["data", "labels", "method", "action MSE minus LAPO-256's", "episodes", "draws of labels"], rows)


@dataclass(frozen=True)
class Gap:
    """A method's decoding error minus the baseline's."""

    error: Estimate
    """Over held-out episodes."""
    draws: int
    """Draws of labels that each episode is averaged over."""


def decoding_gap(records: list[dict[str, Any]], method: str, comparisons: int = 1) -> Gap | None:
    """Both errors on each held-out episode, paired by draw of labels; records are of one data set and one budget."""
    by = {(r["method"], r["seed"]): np.array(r["metrics"]["episode_mse"]) for r in records}
    gaps = [by[method, s] - by[BASELINE, s] for name, s in by if name == method and (BASELINE, s) in by]
    return Gap(estimate(np.mean(gaps, 0).tolist(), comparisons), len(gaps)) if gaps else None


def control_table(folder: Path, size: str) -> str:
    """Returns, each task with its floor and its ceiling."""
    records, rows = chosen(folder, "control", size), []
    records += best_by_return(records)
    by_method = group(records, "task", "method")
    best = {task: _mean(found) for (task, method), found in by_method.items() if method == "expert"}
    ceiling = {task: _mean(found) for (task, method), found in by_method.items() if method == "all-actions"}
    order = {name: place for place, name in enumerate(WITHOUT_LABELS)}
    groups = group([{"codes": 0} | record for record in records], "task", "labels", "method", "codes")
    for task, labels, method, codes in sorted(groups, key=lambda key: (*key[:2], order.get(key[2], 9), *key[2:])):
        found = groups[task, labels, method, codes]
        returns = [record["metrics"]["returns"] for record in found]
        low, high = bootstrap_interval(returns)
        over = estimate([record["metrics"]["return_mean"] for record in found])
        new = [r["metrics"]["return_new_backgrounds"] for r in found if "return_new_backgrounds" in r["metrics"]]
        rows.append(
            [
                task,
                str(labels) if labels else "–",
                named(found[0]),
                f"{over.mean:.1f}" + (f" ± {over.half:.1f}" if over.count > 1 else ""),
                f"{low:.1f} to {high:.1f}",
                f"{rms_deviation(returns):.1f}",
                f"{interquartile_mean([value for group in returns for value in group]):.1f}",
                f"{sum(new) / len(new):.1f}" if new else "–",
                *(f"{100 * over.mean / top[task]:.0f}" if task in top else "–" for top in (best, ceiling)),
                imitated(found[0]),
                str(len(found)),
            ]
        )
    head = ["data", "labels", "method", "return", "bootstrap interval", "RMS deviation", "middle half"]
    head += ["new backgrounds", "% of expert", "% of all actions", "imitated", "seeds"]
    return markdown(head, rows)


def best_by_return(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The paper's rule, marked: of several sizes of the vocabulary the one that earned most in these very episodes."""
    marked = []
    for found in group(records, "task", "labels", "method").values():
        sizes = group([{"codes": 0} | record for record in found], "codes")
        if len(sizes) > 1:
            best = max(sizes.values(), key=_mean)
            marked += [record | {"method": f"{record['method']}, best K by return *"} for record in best]
    return marked


def imitated(record: dict[str, Any]) -> str:
    """Episodes that a policy imitates, with or without labels."""
    count = record["metrics"].get("imitated_episodes")
    return "–" if count is None else f"{count:.0f}"


def _mean(records: list[dict[str, Any]]) -> float:
    return sum(record["metrics"]["return_mean"] for record in records) / len(records)
