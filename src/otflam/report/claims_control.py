"""Verdicts on returns: does the pipeline work at all, and do latent actions pay with distractors?"""

from __future__ import annotations

from pathlib import Path

from otflam.report.canvas import VANILLA, Earned, Records, earned, task_of, usual
from otflam.report.judging import Status, Verdict, unmeasured
from otflam.report.markdown import chosen, group, main_budget
from otflam.report.policy_tables import BASELINE, named
from otflam.report.published import BASELINES
from otflam.report.reproduced import TASKS

CLONED, GROUNDED = 0.7, 0.3
"""Shares of the expert and of cloning all actions that a sound pipeline reaches without distractors."""
PLAIN, LABELS = "cheetah-run", 32
"""Where the pipeline is checked, and with how many labelled episodes."""
SEEDS = 3
"""Fewer of any method do not decide anything."""


def judge_control(folder: Path, size: str) -> list[Verdict]:
    """Returns with distractors on each task, and the check without them."""
    records = usual(chosen(folder, "control", size))
    distracted = [r for r in records if not r["task"].endswith(VANILLA)]
    plain = [r for r in records if r["task"].endswith(VANILLA) and task_of(r["task"]) == PLAIN]
    return [*(judge_returns(distracted, task) for task in TASKS), judge_pipeline(plain)]


def judge_returns(records: Records, task: str) -> Verdict:
    claim = f"With distractors the best of ours earns more than {BASELINE}, the labels alone and random play on {task}"
    how = (
        "95 % intervals over seeds (Student's t) at the budget with most methods, usual vocabulary: holds if ours lies "
        f"above all three others, fails if below one, else open, as with fewer than {SEEDS} seeds of one. Of ours and "
        f"of {BASELINE} the best way of grounding counts, chosen by these very returns."
    )
    printed = BASELINES[task]
    best = max(value for (value, _) in (printed[name] for name in printed if name.startswith("otf-lam")))
    paper = f"{best} against {printed[BASELINE][0]} of {BASELINE} (32 labelled trajectories)"
    labels = main_budget(records)
    here = [r for r in records if task_of(r["task"]) == task and r["labels"] in (0, labels)]
    groups = {method: found for (method,), found in group(here, "method").items()}
    ours = best_of(groups, "otf-lam")
    rivals = [best_of(groups, BASELINE), best_of(groups, "labels-only"), best_of(groups, "random")]
    if not ours or not all(rivals):
        return unmeasured(claim, paper, how, f"one of ours, {BASELINE}, labels-only and random at one budget")
    value, others = earned(ours), [earned(rival) for rival in rivals]
    status: Status = "open"
    if min(len(found) for found in (ours, *rivals)) >= SEEDS:
        status = compared(value, others)
    told = "; ".join(f"{named(found[0])} {each}" for found, each in zip([ours, *rivals], [value, *others], strict=True))
    return Verdict(claim, f"{labels} labelled episodes: {told}", paper, status, how)


def best_of(groups: dict[str, Records], family: str) -> Records:
    """The records of the method of a family that earned most, of those with seeds enough if there are such."""
    found = [records for method, records in groups.items() if method.startswith(family)]
    found = [records for records in found if len(records) >= SEEDS] or found
    return max(found, key=lambda records: earned(records).mean, default=[])


def compared(value: Earned, others: list[Earned]) -> Status:
    """Whether an interval lies above all others, below one of them, or neither."""
    if any(value.high < other.low for other in others):
        return "fails"
    return "holds" if all(value.low > other.high for other in others) else "open"


def judge_pipeline(records: Records) -> Verdict:
    claim = f"The pipeline is sound: without distractors it learns {PLAIN}"
    how = (
        f"Cloning all true actions earns at least {100 * CLONED:.0f} % of the expert, and {BASELINE} with {LABELS} "
        f"labelled episodes at least {100 * GROUNDED:.0f} % of that; open with fewer than {SEEDS} seeds of one. By "
        "means on purpose: it checks the machinery and compares no methods. ±: half of the 95 % interval over "
        "seeds (Student's t); that of a share leaves out that of what is divided by."
    )
    wanted = [record for record in records if record["labels"] in (0, LABELS)]
    groups = {method: found for (method,), found in group(wanted, "method").items()}
    names = ("expert", "all-actions", BASELINE)
    if any(name not in groups for name in names):
        return unmeasured(claim, "–", how, ", ".join(name for name in names if name not in groups))
    expert, cloned, grounded = (earned(groups[name]) for name in names)
    # Who earns nothing at all has no share in it either.
    shares = [cloned.times(1 / (expert.mean or 1)), grounded.times(1 / (cloned.mean or 1))]
    ours = (
        f"expert {expert}; all actions {cloned}, {percent(shares[0])} of the expert; {BASELINE} {grounded}, "
        f"{percent(shares[1])} of all actions"
    )
    sound = shares[0].mean >= CLONED and shares[1].mean >= GROUNDED
    enough = min(len(groups[name]) for name in names) >= SEEDS
    return Verdict(claim, ours, "–", "open" if not enough else "holds" if sound else "fails", how)


def percent(share: Earned) -> str:
    return f"{share.times(100.0).told(0)} %"
