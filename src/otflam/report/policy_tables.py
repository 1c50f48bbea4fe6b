"""Tables of what latent actions know and of what agents earn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from otflam.evaluate.stats import bootstrap_interval, estimate, interquartile_mean, rms_deviation
from otflam.report.markdown import chosen, group, markdown, over_seeds

BRIEF = 8
"""The budget of labels in short tables."""
WITHOUT_LABELS = ("zero", "random", "expert", "all-actions")
BASELINE = "lapo-256"


def named(record: dict[str, Any]) -> str:
    """A method's name, with its backbone where it is not the official one."""
    return f"{record['method']} ({record['backbone']})" if "backbone" in record else record["method"]


def alignment_table(folder: Path, size: str, only: int | None = None) -> str:
    """How well actions and distractors are read from latents, with the controls."""
    names = ("action_r2", "action_r2_gain", "present_r2", "still_r2", "motion_r2", "both_r2", "mlp_r2", "action_mse")
    names += ("distractor_r2", "background_r2", "colour_r2")
    records = [record for record in chosen(folder, "alignment", size) if only in (None, record["labels"])]
    rows = [
        [task, str(labels), named(found[0]), *(over_seeds(found, name) for name in names)]
        for (task, labels, _), found in sorted(group(records, "task", "labels", "method").items())
    ]
    head = ["data", "labels", "method", "action R²", "gain over state", "state alone", "no future", "raw motion"]
    head += ["latent + state", "MLP R²", "action MSE", "camera R²", "background R²", "colour R²"]
    return markdown(head, rows)


def brief_alignment_table(folder: Path, size: str) -> str:
    return alignment_table(folder, size, BRIEF)


def paired_alignment_table(folder: Path, size: str) -> str:
    """The paper's claim: a method's decoding error against LAPO's with the same labels."""
    rows = []
    for (task, labels), found in sorted(group(chosen(folder, "alignment", size), "task", "labels").items()):
        by = {(record["method"], record["seed"]): record for record in found}
        for method in dict.fromkeys(record["method"] for record in found if record["method"] != BASELINE):
            pairs = [(by[method, s], by[BASELINE, s]) for m, s in by if m == method and (BASELINE, s) in by]
            if pairs:
                gaps = [
                    estimate([ours["metrics"][name] - theirs["metrics"][name] for ours, theirs in pairs])
                    for name in ("action_r2", "action_mse", "mlp_r2", "mlp_mse")
                ]
                rows.append([task, str(labels), named(pairs[0][0]), str(len(pairs)), *map(str, gaps)])
    return markdown(["data", "labels", "method", "seeds", "action R²", "action MSE", "MLP R²", "MLP MSE"], rows)


def control_table(folder: Path, size: str) -> str:
    """Returns, each task with its floor and its ceiling."""
    records, rows = chosen(folder, "control", size), []
    best = {
        task: _mean(found) for (task, method), found in group(records, "task", "method").items() if method == "expert"
    }
    order = {name: place for place, name in enumerate(WITHOUT_LABELS)}
    groups = group(records, "task", "labels", "method")
    for task, labels, method in sorted(groups, key=lambda key: (key[0], key[1], order.get(key[2], 9), key[2])):
        found = groups[task, labels, method]
        returns = [record["metrics"]["returns"] for record in found]
        low, high = bootstrap_interval(returns)
        new = [r["metrics"]["return_new_backgrounds"] for r in found if "return_new_backgrounds" in r["metrics"]]
        rows.append(
            [
                task,
                str(labels) if labels else "–",
                named(found[0]),
                f"{_mean(found):.1f}",
                f"{low:.1f} to {high:.1f}",
                f"{rms_deviation(returns):.1f}",
                f"{interquartile_mean([value for group in returns for value in group]):.1f}",
                f"{sum(new) / len(new):.1f}" if new else "–",
                f"{100 * _mean(found) / best[task]:.0f}" if task in best else "–",
                str(len(found)),
            ]
        )
    head = ["data", "labels", "method", "return", "95 % interval", "RMS deviation", "middle half", "new backgrounds"]
    return markdown([*head, "% of expert", "seeds"], rows)


def _mean(records: list[dict[str, Any]]) -> float:
    return sum(record["metrics"]["return_mean"] for record in records) / len(records)
