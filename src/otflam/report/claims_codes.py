"""Verdicts on motion codes: do they transfer, and do they know the motion but not what moves?"""

from __future__ import annotations

from pathlib import Path

from otflam.evaluate import (
    BODY_TRANSFER,
    DIGIT_TRANSFER,
    chosen,
    complete,
    estimate,
    paired_tokenizers,
    seed_gap,
    values,
)
from otflam.report.judging import Verdict, judged, side, signed, unmeasured
from otflam.report.published import TRANSFER

CHANCE = 0.2
"""How often one of five digits is guessed."""
MARGIN = 0.05
"""How far above chance a probe may be and still know nothing that matters."""
CLAIMS: dict[str, str] = {
    BODY_TRANSFER: "Codes of OTF redraw the motion of another body with a smaller error than monolithic codes",
    DIGIT_TRANSFER: "Codes of OTF redraw the motion of other digits with a smaller error than monolithic codes",
}
DIFFERENCES = {2: "second differences", 1: "first differences"}


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
    return Verdict(claim, ours, paper, judged([side(gap)]), how)


def judge_carrier(folder: Path, preset: str) -> Verdict:
    claim = "Codes of OTF know the motion and not the digit that moves"
    how = (
        "Linear probes of how often each code occurs; 95 % intervals over seeds (Student's t). The motion of unseen "
        "digits counts as known if it is read better than from raw motion. The digit counts as unknown only if its "
        f"interval ends below chance + {MARGIN}, and as known if it begins above chance. Holds if both are as claimed, "
        "fails if one is clearly not, else open."
    )
    names = [f"{name}_accuracy" for name in ("histogram_motion", "histogram_digit", "raw_motion", "raw_digit")]
    found = complete((r for r in chosen(folder, "carrier", preset) if r["method"] == "otf"), *names)
    if not found:
        return unmeasured(claim, "–", how, "the probes of OTF's codes")
    motion, digit, raw_motion, raw_digit = (values(found, name) for name in names)
    gap = estimate([ours - raw for ours, raw in zip(motion, raw_motion, strict=True)])
    leak = estimate([value - CHANCE for value in digit])
    # An interval that holds chance proves nothing by itself: few or noisy seeds make it wide enough for everything.
    innocent = -1 if side(leak) > 0 else 1 if leak.mean + leak.half < MARGIN else 0
    ours = (
        f"motion {estimate(motion)} (raw motion {estimate(raw_motion).mean:.3f}), digit {estimate(digit)} (chance "
        f"{CHANCE}, raw motion {estimate(raw_digit).mean:.3f}); seeds: {len(found)}"
    )
    return Verdict(claim, ours, "–", judged([side(gap), innocent]), how)
