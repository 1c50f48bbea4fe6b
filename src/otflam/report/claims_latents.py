"""Verdicts on latent actions: are they used, do they know the action, do they know the distractors?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from otflam.evaluate import (
    BASELINE,
    OURS,
    SAME,
    TASKS,
    VANILLA,
    Estimate,
    Records,
    chosen,
    complete,
    decoding_gap,
    estimate,
    group,
    named,
    network_gap,
    over_draws,
    task_of,
    usual,
    values,
)
from otflam.report.figures_latents import LEAST
from otflam.report.judging import Status, Verdict, judged, negative, rounded, side, signed, unmeasured

DECODED = {-1: "clearly lower", 0: "undecided", 1: "clearly higher"}
GAINED = {1: "clearly more", 0: "undecided", -1: "clearly less"}
"""What the sides of differences mean, what is claimed first."""
MARGIN = 0.05
"""Differences of R² that mean something where there is no interval."""


def judge_latents(folder: Path, preset: str) -> list[Verdict]:
    """Health of all models; alignment and leakage with distractors, task by task."""
    records = [r for r in usual(chosen(folder, "alignment", preset)) if not r["task"].endswith(VANILLA)]
    by_task = {task: [r for r in records if task_of(r["task"]) == task] for task in TASKS}
    return [
        judge_health(folder, preset),
        *(judge_decoding(by_task[task], task, method) for method in reversed(OURS) for task in TASKS),
        *(judge_gain(by_task[task], task) for task in TASKS),
        *(judge_leakage(by_task[task], task, method) for method in reversed(OURS) for task in TASKS),
    ]


def judge_health(folder: Path, preset: str) -> Verdict:
    claim = "Every latent action model uses its latent and predicts better than copying the present"
    how = (
        f"Held-out error with the right latent at least {LEAST:.0f} % below that with another transition's, and below "
        "that of predicting no change, for every method and data set; by the mean over seeds."
    )
    groups = group(complete(usual(chosen(folder, "lam", preset)), "gain_over_shuffled"), "task", "method")
    gains = {
        f"{named(found[0])} on {task}": 100 * estimate(values(found, "gain_over_shuffled")).mean
        for (task, _), found in groups.items()
    }
    if not gains:
        return unmeasured(claim, "–", how, "the health of any model")
    idle = sorted((gain, name) for name, gain in gains.items() if gain < LEAST)
    least = min(gains, key=lambda name: gains[name])
    told = f"{len(gains) - len(idle)} of {len(gains)} models"
    told += f"; not {', '.join(f'{name} ({gain:.1f} %)' for gain, name in idle)}" if idle else ""
    told += "" if idle else f"; least {gains[least]:.1f} % ({least})"
    worse = sorted(
        f"{named(found[0])} on {task} ({-100 * gain:.1f} %)"
        for (task, _), found in groups.items()
        if (gain := estimate(values(found, "gain_over_copied") or [0.0]).mean) < 0
    )
    told += f"; worse than copying: {', '.join(worse)}" if worse else ""
    return Verdict(claim, told, "–", "fails" if idle or worse else "holds", how)


def judge_decoding(records: Records, task: str, method: str) -> Verdict:
    claim = f"Actions are decoded from {method} with a lower error than from {BASELINE} on {task}"
    how = (
        f"Linear probe: its squared error minus {BASELINE}'s on the same held-out episodes with the same labels; 95 % "
        "interval over episodes (one model each), its level divided among the budgets (Bonferroni). Holds if below 0 "
        "at every budget of labels and a small network as probe says so too, by its mean error; fails if above at one; "
        "else open."
    )
    groups = sorted(group(records, "labels").items())
    gaps = {labels: gap.error for (labels,), found in groups if (gap := decoding_gap(found, method, len(groups)))}
    if not gaps:
        return unmeasured(claim, "–", how, f"{method} and {BASELINE} with the same labels")
    status, ours = judged(side(negative(gap)) for gap in gaps.values()), told(gaps, DECODED)
    doubted = [labels for (labels,), found in groups if labels in gaps and network_gap(found, method) >= 0]
    if doubted:
        ours += f"; a small network reads no better with {', '.join(map(str, doubted))}"
    return Verdict(claim, ours, "–", "open" if status == "holds" and doubted else status, how)


def told(gaps: dict[int, Estimate], words: dict[int, str]) -> str:
    """How many budgets lie on which side, and each with its interval."""
    sides = [side(gap) for gap in gaps.values()]
    counts = ", ".join(f"{word} at {sides.count(where)}" for where, word in words.items())
    each = ", ".join(f"with {labels} {signed(gap)}" for labels, gap in gaps.items())
    return f"{counts} of {len(sides)} budgets (labelled episodes: {each})"


def judge_gain(records: Records, task: str) -> Verdict:
    claim = f"The best latent actions tell more of the action than the state alone on {task}"
    how = (
        "R² of a linear probe of the latents minus that of the state; the method with the greatest mean over budgets; "
        "95 % interval over draws of labels (Student's t). Holds if above 0 at every budget, fails if below at one, "
        f"else open. Where two draws agree within {SAME} they were the same episodes, in another order only, as where "
        "the budget is the whole pool: such a budget has no interval and decides nothing."
    )
    groups = group(complete(records, "action_r2_gain"), "method", "labels")
    if not groups:
        return unmeasured(claim, "–", how, "probes of any latents")
    gains: dict[str, dict[int, Estimate]] = {}
    for method, labels in sorted(groups):
        gains.setdefault(method, {})[labels] = over_draws(values(groups[method, labels], "action_r2_gain"))
    best = max(gains, key=lambda method: float(np.mean([gain.mean for gain in gains[method].values()])))
    record: dict[str, Any] = next(record for record in records if record["method"] == best)
    ours = f"{named(record)}: {told(gains[best], GAINED)}"
    return Verdict(claim, ours, "–", judged(side(gain) for gain in gains[best].values()), how)


def judge_leakage(records: Records, task: str, method: str) -> Verdict:
    claim = f"Less of the camera leaks into {method} than into {BASELINE} on {task}"
    how = (
        "R² of a linear probe of the camera's change on held-out episodes, one model each, so that there is no "
        f"interval: holds if lower by at least {MARGIN}, fails if higher by as much, else open."
    )
    leaks = {
        name: estimate(found).mean
        for name in (method, BASELINE)
        if (found := values([r for r in records if r["method"] == name], "distractor_r2"))
    }
    if len(leaks) < 2:
        return unmeasured(claim, "–", how, f"leakage into {method} and {BASELINE}")
    saved = leaks[BASELINE] - leaks[method]
    ours = f"camera R² {rounded(leaks[method]):.3f} against {rounded(leaks[BASELINE]):.3f}, of 1"
    status: Status = "open" if abs(saved) < MARGIN else "holds" if saved > 0 else "fails"
    return Verdict(claim, ours, "–", status, how)
