"""Verdicts on whose action latents name, from the records of two bodies in one picture."""

from __future__ import annotations

from pathlib import Path

from otflam.evaluate import BASELINE, BODIES, OURS, Records, complete, estimate, group, redrawn_as, values, world_of
from otflam.report.claims import Verdict, judged, side, signed, unmeasured
from otflam.report.sides import SIDES, beside, side_gap

FAST = ("otf-lam-fast", "lapo-fast")
"""A factorised and a monolithic summary that predict the same, and know more after the same time than the faithful."""


def judge_sides(folder: Path, preset: str) -> list[Verdict]:
    """Both halves of the paper's thesis, with the most labels, where only a second body distracts."""
    records = [r for r in complete(beside(folder, preset), "agent_r2", "rival_r2") if redrawn_as(r["task"]) in BODIES]
    most = max((record["labels"] for record in records), default=0)
    latest = [record for record in records if record["labels"] == most]
    pairs = [*((method, BASELINE) for method in reversed(OURS)), FAST]
    return [*(judge_serving(latest, *pair) for pair in pairs), judge_naming(latest)]


def judge_serving(records: Records, method: str, other: str) -> Verdict:
    claim = f"Beside a rival, latents of {method} serve both: either's actions are read better than from {other}"
    how = (
        f"Error of a linear probe from {other}'s latents minus that from ours in the same held-out episodes, "
        "averaged over draws of labels, for the agent's labels and for the rival's, in every world of two bodies; 95 % "
        "intervals over episodes, their level divided among all (Bonferroni). Holds if all lie above 0, fails if one "
        "lies below, else open."
    )
    worlds = {task: found for (task,), found in group(records, "task").items()}
    methods = {task: {record["method"] for record in found} for task, found in worlds.items()}
    known = [task for task in sorted(worlds) if {method, other} <= methods[task]]
    if not known:
        return unmeasured(claim, "predicted, not measured", how, f"{method} and {other} beside a rival")
    gaps = {
        f"{world_of(task)}, {who}": side_gap(worlds[task], other, f"{who}_r2_errors", method, len(known) * len(SIDES))
        for task in known
        for who in SIDES
    }
    found = {name: gap for name, gap in gaps.items() if gap is not None}
    ours = "; ".join(f"{name}: {signed(gap)}" for name, gap in found.items())
    return Verdict(claim, ours, "predicted, not measured", judged(map(side, found.values())), how)


def judge_naming(records: Records) -> Verdict:
    claim = f"Beside a rival, the monolithic latents of {BASELINE} name whichever body moves more pixels"
    how = (
        "R² of each side's actions as a share of what a network reads from frames with all labels, by the mean over "
        "draws of labels. Holds if in every world of two bodies the side with more moving pixels has the larger share, "
        "fails if in none, else open."
    )
    shares, right = [], []
    for (task,), found in sorted(group([r for r in records if r["method"] == BASELINE], "task").items()):
        metrics = found[0]["metrics"]
        tops = {who: metrics[f"{who}_r2_frames"] for who in SIDES}
        if min(tops.values()) <= 0:
            continue  # nobody could name that side
        named = {who: estimate(values(found, f"{who}_r2")).mean / tops[who] for who in SIDES}
        moving = {who: metrics[f"{who}_moving"] for who in SIDES}
        right.append(max(named, key=named.__getitem__) == max(moving, key=moving.__getitem__))
        parts = [f"{who} {100 * named[who]:.0f} % with {100 * moving[who]:.1f} % of the pixels" for who in SIDES]
        shares.append(f"{world_of(task)}: {', '.join(parts)}")
    if not right:
        return unmeasured(claim, "predicted, not measured", how, f"{BASELINE} beside a rival")
    status = "holds" if all(right) else "open" if any(right) else "fails"
    return Verdict(claim, "; ".join(shares), "predicted, not measured", status, how)
