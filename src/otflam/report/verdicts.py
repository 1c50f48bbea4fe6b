"""The claims of the paper and our own, each judged by a stated rule from the records alone; here those on returns."""

from __future__ import annotations

from pathlib import Path

from otflam.evaluate import (
    ALL_ACTIONS,
    BASELINE,
    LABELS_ONLY,
    OURS,
    TASKS,
    VANILLA,
    Earned,
    Estimate,
    Records,
    chosen,
    difference,
    earned,
    group,
    named,
    returns_of,
    starts_of,
    task_of,
    usual,
)
from otflam.report.claims import Status, Verdict, count_sides, judge_codes, judge_latents, side, signed, unmeasured
from otflam.report.claims_labels import judge_hearing
from otflam.report.claims_sides import judge_sides
from otflam.report.games import judge_games
from otflam.report.general import judge_general
from otflam.report.published import BASELINES

RIVALS = (BASELINE, LABELS_ONLY)
MIN_CLONED, MIN_GROUNDED = 0.7, 0.3
"""Shares of the expert and of cloning all actions that a sound pipeline reaches without distractors."""
CHECKED_LABELS = 32
"""Labelled episodes with which the pipeline is checked."""
MIN_SEEDS = 3
"""Fewer of any method do not decide anything."""
MEASURES = {"whole episodes": returns_of, "stretches from recorded states": starts_of}


def judge_control(folder: Path, preset: str) -> list[Verdict]:
    """Returns with distractors on each task, and the check without them."""
    records = usual(chosen(folder, "control", preset))
    distracted = [r for r in records if not r["task"].endswith(VANILLA)]
    plain = [r for r in records if r["task"].endswith(VANILLA)]
    return [
        *(judge_returns(distracted, task, measure) for measure in MEASURES for task in TASKS),
        *(judge_pipeline([r for r in plain if task_of(r["task"]) == task], task) for task in TASKS),
    ]


def judge_returns(records: Records, task: str, measure: str) -> Verdict:
    claim = f"With distractors one of ours earns more than {BASELINE} and the labels alone on {task} in {measure}"
    how = (
        "Differences in the same episodes, seed by seed, latents decoded as in the paper; 95 % intervals, their level "
        "divided among all comparisons of this verdict (Bonferroni). Holds if at one budget one of ours lies above "
        "both others, fails if at every budget each of ours lies below one of them, else open, as with fewer than "
        f"{MIN_SEEDS} seeds."
    )
    printed = BASELINES[task]
    best = max(value for (value, _) in (printed[name] for name in printed if name.startswith("otf-lam")))
    paper = f"{best} against {printed[BASELINE][0]} of {BASELINE} (32 labelled trajectories)"
    here = [r for r in records if task_of(r["task"]) == task and r["labels"]]
    here = [r for r in here if measure == "whole episodes" or "start_returns" in r["metrics"]]
    groups = {key: found for key, found in group(here, "labels", "method").items() if len(found) >= MIN_SEEDS}
    pairs = [
        (labels, ours, rival)
        for labels in sorted({key[0] for key in groups})
        for ours in OURS
        for rival in RIVALS
        if {(labels, ours), (labels, rival)} <= groups.keys()
    ]
    gaps: dict[tuple[int, str], list[Estimate]] = {}
    for labels, ours, rival in pairs:
        gap = difference(groups[labels, ours], groups[labels, rival], MEASURES[measure], len(pairs))
        if gap is not None:
            gaps.setdefault((labels, ours), []).append(gap)
    if not gaps:
        return unmeasured(claim, paper, how, f"one of ours, {BASELINE} and {LABELS_ONLY} with {MIN_SEEDS} seeds")
    gaps_text = "; ".join(
        f"{labels} labels, {named(groups[labels, ours][0])}: {', '.join(map(signed, found))}"
        for (labels, ours), found in gaps.items()
    )
    each = [gap for found in gaps.values() for gap in found]
    short = f"Ours earn {count_sides(map(side, each), ('more', 'less'), 'comparisons')}"
    ours_text = f"minus {' and minus '.join(RIVALS)}: {gaps_text}"
    return Verdict(claim, ours_text, paper, decided(list(gaps.values())), how, short, "returns")


def decided(gaps: list[list[Estimate]]) -> Status:
    """What the differences of each of ours from its rivals say together."""
    sides = [[side(gap) for gap in found] for found in gaps]
    if any(len(found) == len(RIVALS) and min(found) > 0 for found in sides):
        return "holds"
    return "fails" if all(min(found) < 0 for found in sides) else "open"


def judge_pipeline(records: Records, task: str) -> Verdict:
    claim = f"The pipeline is sound: without distractors it learns {task}"
    how = (
        f"Cloning all true actions earns at least {100 * MIN_CLONED:.0f} % of the expert, and {BASELINE} with "
        f"{CHECKED_LABELS} labelled episodes at least {100 * MIN_GROUNDED:.0f} % of that; open with fewer than "
        f"{MIN_SEEDS} seeds of one. By means on purpose: it checks the machinery and compares no methods. ±: half of "
        "the 95 % interval over seeds (Student's t); that of a share leaves out that of what is divided by."
    )
    wanted = [record for record in records if record["labels"] in (0, CHECKED_LABELS)]
    groups = {method: found for (method,), found in group(wanted, "method").items()}
    names = ("expert", ALL_ACTIONS, BASELINE)
    if any(name not in groups for name in names):
        return unmeasured(claim, "–", how, ", ".join(name for name in names if name not in groups))
    expert, cloned, grounded = (earned(groups[name]) for name in names)
    # Who earns nothing at all has no share in it either.
    shares = [cloned.times(1 / (expert.mean or 1)), grounded.times(1 / (cloned.mean or 1))]
    ours = (
        f"expert {expert}; all actions {cloned}, {percent(shares[0])} of the expert; {BASELINE} {grounded}, "
        f"{percent(shares[1])} of all actions"
    )
    sound = shares[0].mean >= MIN_CLONED and shares[1].mean >= MIN_GROUNDED
    enough = min(len(groups[name]) for name in names) >= MIN_SEEDS
    status = "open" if not enough else "holds" if sound else "fails"
    short = f"Cloning earns {percent(shares[0])} of the expert, {BASELINE} {percent(shares[1])} of that"
    return Verdict(claim, ours, "–", status, how, short, "pipeline")


def percent(share: Earned) -> str:
    return f"{share.times(100.0).text(0)} %"


JUDGES = {
    "Motion codes": lambda folder, preset: [*judge_codes(folder, preset), *judge_general(folder, preset)],
    "Latent actions": judge_latents,
    "Whose action?": judge_sides,
    "Labels inside the training": judge_hearing,
    "Games": judge_games,
    "Control": judge_control,
}
"""Who judges what, in the order of the report."""


def verdicts_by_topic(records: Path, preset: str) -> dict[str, list[Verdict]]:
    """What the records of a preset say of every claim; those without records are there too, as `unmeasured`."""
    return {topic: judge(records, preset) for topic, judge in JUDGES.items()}
