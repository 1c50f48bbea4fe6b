"""Verdicts: their form, the rule by which intervals decide, and those on motion codes and on latent actions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from otflam.evaluate import (
    BASELINE,
    BODY_TRANSFER,
    DIGIT_TRANSFER,
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
    models,
    named,
    network_gap,
    over_draws,
    paired_tokenizers,
    seed_gap,
    task_of,
    usual,
    values,
)
from otflam.report.consequences import Status, Verdict
from otflam.report.figures_models import MIN_GAIN_PERCENT
from otflam.report.published import TRANSFER

ROUNDING = 1e-9
"""Differences that are rounding."""
DECODED = {-1: "clearly lower", 0: "undecided", 1: "clearly higher"}
GAINED = {1: "clearly more", 0: "undecided", -1: "clearly less"}
"""What the sides of differences mean, what is claimed first."""
R2_MARGIN = 0.05
"""Differences of R² that mean something where there is no interval."""
CHANCE = 0.2
"""How often one of five digits is guessed."""
CHANCE_MARGIN = 0.05
"""How far above chance a probe may be and still know nothing that matters."""
CLAIMS: dict[str, str] = {
    BODY_TRANSFER: "Codes of OTF redraw the motion of another body with a smaller error than monolithic codes",
    DIGIT_TRANSFER: "Codes of OTF redraw the motion of other digits with a smaller error than monolithic codes",
}
DIFFERENCES = {2: "second differences", 1: "first differences"}


def side(gap: Estimate) -> int:
    """1 if an interval lies above 0, -1 if below, 0 if it holds 0 or there is but one value."""
    if abs(gap.mean) <= gap.half + ROUNDING:
        return 0
    return 1 if gap.mean > 0 else -1


def judged(sides: Iterable[int]) -> Status:
    """A claim that differences lie above 0: all of them must, and one below refutes it."""
    found = list(sides)
    if not found:
        return "unmeasured"
    return "holds" if min(found) > 0 else "fails" if min(found) < 0 else "open"


def count_sides(sides: Iterable[int], words: tuple[str, str], of: str) -> str:
    """How many comparisons were won and lost, each with its word."""
    found = list(sides)
    won, lost = found.count(1), found.count(-1)
    return f"clearly {words[0]} in {won} and clearly {words[1]} in {lost} of {len(found)} {of}"


def signed(gap: Estimate) -> str:
    """A difference with its sign, and half its interval if it has one; with more digits where three hide its side."""
    if not math.isfinite(gap.half):
        return f"{rounded(gap.mean):+.3f}"
    digits = 3 if round(abs(gap.mean), 3) != round(gap.half, 3) else 5
    return f"{round(gap.mean, digits) + 0.0:+.{digits}f} ± {gap.half:.{digits}f}"


def rounded(value: float) -> float:
    """Three digits, and no negative zero."""
    return round(value, 3) + 0.0


def unmeasured(claim: str, paper: str, how: str, missing: str) -> Verdict:
    return Verdict(claim, f"not recorded yet: {missing}", paper, "unmeasured", how)


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
        f"Held-out error with the right latent at least {MIN_GAIN_PERCENT:.0f} % below that with another transition's, "
        "and below that of predicting no change, for every method and data set; by the mean over seeds."
    )
    groups = group(complete(usual(models(folder, preset)), "gain_over_shuffled"), "task", "method")
    gains = {
        f"{named(found[0])} on {task}": 100 * estimate(values(found, "gain_over_shuffled")).mean
        for (task, _), found in groups.items()
    }
    if not gains:
        return unmeasured(claim, "–", how, "the health of any model")
    idle = sorted((gain, name) for name, gain in gains.items() if gain < MIN_GAIN_PERCENT)
    least = min(gains, key=lambda name: gains[name])
    ours = f"{len(gains) - len(idle)} of {len(gains)} models"
    ours += f"; not {', '.join(f'{name} ({gain:.1f} %)' for gain, name in idle)}" if idle else ""
    ours += "" if idle else f"; least {gains[least]:.1f} % ({least})"
    worse = sorted(
        f"{named(found[0])} on {task} ({-100 * gain:.1f} %)"
        for (task, _), found in groups.items()
        if (gain := estimate(values(found, "gain_over_copied") or [0.0]).mean) < 0
    )
    ours += f"; worse than copying: {', '.join(worse)}" if worse else ""
    short = f"{len(gains) - len(idle)} of {len(gains)} models use their latent"
    short += f"; copying the present predicts better than {', '.join(worse)}" if worse else ""
    return Verdict(claim, ours, "–", "fails" if idle or worse else "holds", how, short, "health")


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
    status, ours = judged(-side(gap) for gap in gaps.values()), describe_gaps(gaps, DECODED)
    doubted = [labels for (labels,), found in groups if labels in gaps and network_gap(found, method) >= 0]
    if doubted:
        ours += f"; a small network reads no better with {', '.join(map(str, doubted))}"
    sides = [-side(gap) for gap in gaps.values()]
    short = f"The error is {count_sides(sides, ('lower', 'higher'), 'budgets of labels')}"
    short += ", and a small network reads no better at some" if doubted else ""
    status = "open" if status == "holds" and doubted else status
    return Verdict(claim, ours, "–", status, how, short, "decoding")


def describe_gaps(gaps: dict[int, Estimate], words: dict[int, str]) -> str:
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
    ours = f"{named(record)}: {describe_gaps(gains[best], GAINED)}"
    sides = [side(gain) for gain in gains[best].values()]
    short = f"Those of {named(record)} tell {count_sides(sides, ('more', 'less'), 'budgets of labels')}"
    status = judged(sides)
    return Verdict(claim, ours, "–", status, how, short, "gain")


def judge_leakage(records: Records, task: str, method: str) -> Verdict:
    claim = f"Less of the camera leaks into {method} than into {BASELINE} on {task}"
    how = (
        "R² of a linear probe of the camera's change on held-out episodes, one model each, so that there is no "
        f"interval: holds if lower by at least {R2_MARGIN}, fails if higher by as much, else open."
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
    status: Status = "open" if abs(saved) < R2_MARGIN else "holds" if saved > 0 else "fails"
    read, rival = (f"{rounded(leaks[name]):.3f}" for name in (method, BASELINE))
    short = f"A probe reads an R² of {read} from {method} and of {rival} from {BASELINE}, where 1 is all of it"
    return Verdict(claim, ours, "–", status, how, short, "leakage")


def judge_codes(folder: Path, preset: str) -> list[Verdict]:
    """Both transfers at both orders, and what codes know of the digit."""
    return [
        *(judge_transfer(folder, preset, task, order) for task in CLAIMS for order in DIFFERENCES),
        judge_carrier(folder, preset),
    ]


def judge_transfer(folder: Path, preset: str, task: str, order: int) -> Verdict:
    claim = f"{CLAIMS[task]} ({DIFFERENCES[order]})"
    how = (
        "Normalised error on the target, monolithic minus OTF at the same seed; 95 % interval over seeds (Student's "
        "t): holds if it lies above 0, fails if below, else open. The rise of the plain error (the paper: "
        "drop), by which the paper judges, also depends on how much source and target move."
    )
    drops = {method: TRANSFER[method, order][2] for method in ("otf", "monolithic")}
    paper = (
        f"the plain error rises by {drops['otf']} % against {drops['monolithic']} %" if task == BODY_TRANSFER else "–"
    )
    records = complete(chosen(folder, "transfer", preset), "target_nmse", "drop")
    otf, other = paired_tokenizers([r for r in records if (r["task"], r["order"]) == (task, order)])
    if not otf:
        return unmeasured(claim, paper, how, "both tokenizers at one seed")
    gap = seed_gap(otf, other, "target_nmse")
    errors = [estimate(values(each, "target_nmse")).mean for each in (otf, other)]
    rises = [100 * estimate(values(each, "drop")).mean for each in (otf, other)]
    ours = (
        f"error {errors[0]:.3f} against {errors[1]:.3f}, monolithic minus OTF {signed(gap)} (seeds: {gap.count}); "
        f"the plain error rises by {rises[0]:.1f} % against {rises[1]:.1f} %"
    )
    short = (
        f"The error is {errors[0]:.3f} with OTF and {errors[1]:.3f} with monolithic codes, a difference of "
        f"{signed(gap)} over {gap.count} seed{'s'[: gap.count != 1]}"
    )
    return Verdict(claim, ours, paper, judged([side(gap)]), how, short, "transfer")


def judge_carrier(folder: Path, preset: str) -> Verdict:
    claim = "Codes of OTF know the motion and not the digit that moves"
    how = (
        "Linear probes of how often each code occurs; 95 % intervals over seeds (Student's t). The motion of unseen "
        "digits counts as known if it is read better than from raw motion. The digit counts as unknown only if its "
        f"interval ends below chance + {CHANCE_MARGIN}, and as known if it begins above chance. Holds if both are as "
        "claimed, fails if one is clearly not, else open."
    )
    names = [f"{name}_accuracy" for name in ("histogram_motion", "histogram_digit", "raw_motion", "raw_digit")]
    found = complete((r for r in chosen(folder, "carrier", preset) if r["method"] == "otf"), *names)
    if not found:
        return unmeasured(claim, "–", how, "the probes of OTF's codes")
    motion, digit, raw_motion, raw_digit = (values(found, name) for name in names)
    gap = estimate([ours - raw for ours, raw in zip(motion, raw_motion, strict=True)])
    leak = estimate([value - CHANCE for value in digit])
    # An interval that holds chance proves nothing by itself: few or noisy seeds make it wide enough for everything.
    innocent = -1 if side(leak) > 0 else 1 if leak.mean + leak.half < CHANCE_MARGIN else 0
    ours = (
        f"motion {estimate(motion)} (raw motion {estimate(raw_motion).mean:.3f}), digit {estimate(digit)} (chance "
        f"{CHANCE}, raw motion {estimate(raw_digit).mean:.3f}); seeds: {len(found)}"
    )
    short = (
        f"Probes read the motion right in {estimate(motion)} of all cases (from raw motion "
        f"{estimate(raw_motion).mean:.3f}), the digit in {estimate(digit)} (by chance {CHANCE})"
    )
    return Verdict(claim, ours, "–", judged([side(gap), innocent]), how, short, "carrier")
