"""Verdicts on labels inside the training: do latents that hear them tell more of actions?"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from otflam.evaluate import (
    HEARD,
    HEARING,
    Record,
    Records,
    chosen,
    estimate,
    group,
    usual,
    world_of,
)
from otflam.report.claims import Verdict, count_sides, side, signed, unmeasured

WORLDS_NEEDED = 0.75
"""Share of the worlds in which a method must be better with labels."""
BUDGETS = 2
"""So many of the largest budgets are judged."""


def judge_hearing(folder: Path, preset: str) -> list[Verdict]:
    """One for each method that is recorded with labels and without."""
    records = [*usual(chosen(folder, "alignment", preset)), *usual(chosen(folder, "ambiguity", preset))]
    return [judge_method(records, method) for method in HEARING]


def judge_method(records: Records, method: str) -> Verdict:
    claim = f"Latents of {method} tell more of actions if it hears labels in training"
    how = (
        "Linear probe with the labels that were heard: the squared error without hearing minus that with, in the same "
        "held-out episodes; 95 % intervals over episodes, their level divided among all (Bonferroni). Holds if above 0 "
        f"in three of four worlds at each of the {BUDGETS} largest budgets, fails if above 0 nowhere and below 0 "
        "somewhere, else open."
    )
    mine = [record for record in records if record["method"] in (method, method + HEARD) and errors_of(record)]
    pairs = {key: savings(found, method) for key, found in sorted(group(mine, "task", "labels").items())}
    budgets = sorted({labels for (_, labels), saved in pairs.items() if saved})[-BUDGETS:]
    known = {key: saved for key, saved in pairs.items() if saved and key[1] in budgets}
    if not known:
        return unmeasured(claim, "–", how, f"{method} with labels and without")
    gaps = {key: estimate(np.mean(saved, 0).tolist(), len(known)) for key, saved in known.items()}
    sides = {budget: [side(gap) for (_, labels), gap in gaps.items() if labels == budget] for budget in budgets}
    every = [one for found in sides.values() for one in found]
    enough = all(found.count(1) >= WORLDS_NEEDED * len(found) for found in sides.values())
    status = "holds" if enough else "fails" if 1 not in every and -1 in every else "open"
    ours = "; ".join(f"{world_of(task)}, {labels} labels {signed(gap)}" for (task, labels), gap in gaps.items())
    short = f"Latents that hear are {count_sides(map(side, gaps.values()), ('better', 'worse'), 'worlds and budgets')}"
    return Verdict(claim, ours, "–", status, how, short, "hearing")


def errors_of(record: Record) -> list[float] | None:
    """The error of the agent's actions in each held-out episode, as either study has it."""
    return record["metrics"].get("episode_mse") or record["metrics"].get("agent_r2_errors")


def savings(records: Records, method: str) -> list[np.ndarray]:
    """What hearing saves of the error in each held-out episode, for every draw that both have."""
    by = {(record["method"], record["seed"]): np.array(errors_of(record)) for record in records}
    return [by[method, draw] - by[name, draw] for name, draw in by if name != method and (method, draw) in by]
