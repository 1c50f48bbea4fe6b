"""Verdicts on whose action latents name, from the records of two bodies in one picture."""

from __future__ import annotations

from pathlib import Path

from otflam.evaluate import (
    BASELINE,
    BODIES,
    OURS,
    Records,
    chosen,
    complete,
    estimate,
    group,
    redrawn_as,
    values,
    world_of,
)
from otflam.report.claims import Verdict, count_sides, judged, side, signed, unmeasured
from otflam.report.sides import SIDES, beside, side_gap

FAST = ("otf-lam-fast", "lapo-fast")
"""A factorised and a monolithic summary that predict the same, and know more after the same time than the faithful."""


CLEARLY = 0.55
"""Share of the moving pixels that makes a body the one that moves more."""


def judge_sides(folder: Path, preset: str) -> list[Verdict]:
    """Both halves of the paper's thesis, with the most labels, where only a second body distracts."""
    records = [r for r in complete(beside(folder, preset), "agent_r2", "rival_r2") if redrawn_as(r["task"]) in BODIES]
    most = max((record["labels"] for record in records), default=0)
    latest = [record for record in records if record["labels"] == most]
    pairs = [*((method, BASELINE) for method in reversed(OURS)), FAST]
    models = chosen(folder, "lam", preset)
    return [*(judge_serving(latest, *pair) for pair in pairs), judge_naming(latest, models), judge_reading(latest)]


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
    short = f"They are read {count_sides(map(side, found.values()), ('better', 'worse'), 'worlds and bodies')}"
    status = judged(map(side, found.values()))
    return Verdict(claim, ours, "predicted, not measured", status, how, short, "serving")


def judge_naming(records: Records, models: Records) -> Verdict:
    claim = f"Beside a rival, the monolithic latents of {BASELINE} tell most of whichever body moves more pixels"
    how = (
        "One body is held still, then the other: whose motion changes the latent more (audit_rival, by the mean over "
        "seeds), and who has more moving pixels? Holds if that is the same body in every world of two bodies, fails if "
        f"in none, else open; worlds in which neither has {100 * CLEARLY:.0f} % of the moving pixels decide nothing."
    )
    facts, right = [], []
    counted = group(complete(records, *(f"{who}_moving" for who in SIDES)), "task")
    asked = complete((r for r in models if r["method"] == BASELINE and (r["task"],) in counted), "audit_rival")
    for (task,), found in sorted(group(asked, "task").items()):
        share = estimate(values(found, "audit_rival")).mean
        agent, rival = (counted[task,][0]["metrics"][f"{who}_moving"] for who in SIDES)
        part = rival / max(agent + rival, 1e-12)
        if max(part, 1 - part) >= CLEARLY:
            right.append((share > 0.5) == (part > 0.5))
        facts.append(f"{world_of(task)}: rival {100 * share:.0f} %, with {100 * part:.0f} % of the moving pixels")
    if not right:
        return unmeasured(claim, "predicted, not measured", how, f"audits of {BASELINE} beside a rival")
    status = "holds" if all(right) else "open" if any(right) else "fails"
    short = f"It is the same body in {sum(right)} of {len(right)} worlds in which one moves clearly more"
    return Verdict(claim, "; ".join(facts), "predicted, not measured", status, how, short, "naming")


def judge_reading(records: Records) -> Verdict:
    claim = "Beside a rival, latents of some method tell more of both bodies' actions than the present does"
    how = (
        "R² of a linear probe on latents minus that of the same probe on three frames without any model, by the mean "
        "over draws of labels. Holds if some method is above 0 for both bodies in every world of two bodies, fails if "
        "none is in any, else open. By means: no interval is recorded for the frames."
    )
    gains: dict[str, dict[str, float]] = {}
    for (method, task), found in group(
        complete(records, *(f"{who}_r2_state" for who in SIDES)), "method", "task"
    ).items():
        pairs = [(values(found, f"{who}_r2"), values(found, f"{who}_r2_state")) for who in SIDES]
        gains.setdefault(method, {})[task] = min(estimate(read).mean - estimate(known).mean for read, known in pairs)
    if not gains:
        return unmeasured(claim, "–", how, "any method beside a rival")
    every = {task for found in gains.values() for task in found}
    above = {method: {task for task, gain in found.items() if gain > 0} for method, found in gains.items()}
    gain, best, task = max((gain, method, task) for method, found in gains.items() for task, gain in found.items())
    ours = (
        f"{sum(map(bool, above.values()))} of {len(gains)} methods in any of {len(every)} worlds; best: {best}, "
        f"{world_of(task)}, {gain:+.3f} for the body that is told worse"
    )
    status = "holds" if every in above.values() else "open" if any(above.values()) else "fails"
    short = f"{sum(map(bool, above.values()))} of {len(gains)} methods do in any of {len(every)} worlds"
    return Verdict(claim, ours, "–", status, how, short, "reading")
