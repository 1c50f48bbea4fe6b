"""The first screen of the page: one sentence of result and one chart, both made from records.

The sentence compares latent actions with cloning the labelled episodes alone, in the same episodes; where records do
not suffice for that it counts verdicts, and at the sizes of tests and of the demo it says what they show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from otflam.evaluate import (
    ALL_ACTIONS,
    IDM,
    LABELS_ONLY,
    VANILLA,
    Estimate,
    Records,
    chosen,
    complete,
    difference,
    estimate,
    group,
    main_budget,
    named,
    read_records,
    starts_of,
    task_of,
    usual,
)
from otflam.lam import METHODS
from otflam.report.claims import Verdict, count_sides, side
from otflam.report.style import colour_of, rank_of

SMALL = {"tiny": "seconds", "demo": "minutes"}
"""Presets whose numbers mean little, and how long they take."""
MIN_SEEDS = 3
"""Fewer of any row say nothing in the sentence."""
COUNTED = (("ahead", "behind"), "comparisons")
LIMITS = (0.0, 100.0)
"""Of the chart: doing nothing and the expert."""


@dataclass(frozen=True)
class Headline:
    sentence: str
    """The result."""
    detail: str
    """What it rests on; may be empty."""


@dataclass(frozen=True)
class Bar:
    """A value of the chart in percent, with its text."""

    text: str
    end: float
    """Where the bar ends."""
    low: float
    high: float
    """Its interval within the chart; both are `end` where there is none."""


@dataclass(frozen=True)
class Chart:
    """A bar for each method and world; drawn by the page itself, so that it fits every width."""

    title: str
    caption: str
    worlds: list[str]
    rows: list[tuple[str, str, list[Bar | None]]]
    """A name, its colour, and a bar for each world."""


def make_headline(records: Path, preset: str, verdicts: Sequence[Verdict]) -> Headline:
    """The result in one sentence, as far as the records go."""
    if preset in SMALL:
        return describe_run(records, preset)
    return compare_with_labels(distracted_starts(records, preset)) or count_verdicts(verdicts)


def describe_run(records: Path, preset: str) -> Headline:
    """What a small run shows: that everything runs."""
    found = [record for record in read_records(records) if record["preset"] == preset]
    learned = {record["method"] for record in found if record["method"] in METHODS}
    counts = f"{len(learned)} latent action method{'s'[: len(learned) != 1]} and {len(found)} measured results"
    detail = (
        f"Made at {preset} size in {SMALL[preset]}: it shows that everything runs, and its numbers mean little. "
        "Recorded numbers: docs/results.md of the project, or the page of otflam report runs/laptop in a checkout."
    )
    return Headline(f"Everything runs, from video to agents: {counts}.", detail)


def distracted_starts(records: Path, preset: str) -> Records:
    """What agents with distractors earned from recorded states, with the preset's vocabulary."""
    known = complete(usual(chosen(records, "control", preset)), "start_returns", "start_zero", "start_expert")
    return [record for record in known if not record["task"].endswith(VANILLA)]


def compare_with_labels(records: Records) -> Headline | None:
    """How often each kind of row is ahead of the labels alone: in the same episodes, at one level for all together."""
    groups = group(records, "task", "labels", "method")
    sure = {key: found for key, found in groups.items() if len(found) >= MIN_SEEDS}
    pairs = [(key, (*key[:2], LABELS_ONLY)) for key in sure if key[2] == IDM or key[2].partition("+")[0] in METHODS]
    pairs = [pair for pair in pairs if pair[1] in sure]
    gaps: dict[bool, list[Estimate]] = {True: [], False: []}
    for ours, alone in pairs:
        if (gap := difference(sure[ours], sure[alone], starts_of, len(pairs))) is not None:
            gaps[ours[2] == IDM].append(gap)
    latents, others = gaps[False], gaps[True]
    if not latents:
        return None
    sides, rival = [side(gap) for gap in latents], "cloning a few labelled episodes alone"
    sentence = f"With distractors, latent actions {said_of(sides, rival)}"
    detail = f"Latent actions are {count_sides(sides, *COUNTED)}"
    if others:
        guessed = [side(gap) for gap in others]
        sentence += f"; an inverse dynamics model {answered(sides, guessed)}"
        detail += "; an inverse dynamics model, which learns to name the actions of all videos, is "
        detail += count_sides(guessed, *COUNTED)
    detail += ". Compared are stretches from recorded states in the same episodes; 95 % intervals, their level divided "
    return Headline(f"{sentence}.", f"{detail}among all.")


def said_of(sides: Sequence[int], rival: str) -> str:
    """What comparisons with a rival say together."""
    ahead, behind, count = sides.count(1), sides.count(-1), len(sides)
    if ahead == count:
        return f"beat {rival}"
    if not ahead:
        return f"do not beat {rival}"
    return f"beat {rival} in {ahead} of {count} comparisons" + (f" and lose to it in {behind}" if behind else "")


def answered(before: Sequence[int], sides: Sequence[int]) -> str:
    """What another row does in the same comparisons, after what was said of the first."""
    ahead, count = sides.count(1), len(sides)
    if not ahead:
        return "does not" if 1 in before else "does not either"
    return "does" + ("" if ahead == count else f" in {ahead} of {count} comparisons")


def count_verdicts(verdicts: Sequence[Verdict]) -> Headline:
    """How many claims hold; of those that were measured."""
    statuses = [verdict.status for verdict in verdicts if verdict.status != "unmeasured"]
    if not statuses:
        return Headline("No claim has been measured yet.", "")
    holds, fails, undecided = (statuses.count(name) for name in ("holds", "fails", "open"))
    claims = f"claim{'s'[: len(statuses) != 1]}"
    return Headline(
        f"Of {len(statuses)} {claims} that were measured, {holds} hold, {fails} fail and {undecided} are undecided.", ""
    )


def make_chart(records: Path, preset: str) -> Chart | None:
    """How far each way to an agent comes from doing nothing to the expert, with the budget that most rows have."""
    known = distracted_starts(records, preset)
    labels = main_budget(known)
    here = [record for record in known if record["labels"] == labels or record["method"] == ALL_ACTIONS]
    here = [r for r in here if r["method"] in (LABELS_ONLY, IDM, ALL_ACTIONS, *METHODS) and reaches(r)]
    groups = group(here, "method", "task")
    worlds, methods = sorted({task for _, task in groups}), sorted({name for name, _ in groups}, key=rank_of)
    if len(methods) < 2:
        return None
    names = {record["method"]: named(record) for record in here}
    rows = [(names[each], colour_of(each), [bar_of(groups.get((each, world))) for world in worlds]) for each in methods]
    seeds = max(map(len, groups.values()))
    caption = (
        f"With distractors and {labels} labelled episode{'s'[: labels != 1]}, % of the way from doing nothing (0) to "
        f"the expert (100), in stretches from recorded states of held-out episodes; {ALL_ACTIONS} knows every action. "
        + (f"Lines: 95 % intervals over {seeds} seeds." if seeds > 1 else "One seed, no interval.")
    )
    return Chart("What agents earn", caption, [task_of(world) for world in worlds], rows)


def reaches(record: dict) -> bool:
    """Whether the expert earns more than doing nothing, without which there is no way to speak of."""
    return sum(record["metrics"]["start_expert"]) > sum(record["metrics"]["start_zero"])


def bar_of(records: Records | None) -> Bar | None:
    if not records:
        return None
    value = estimate([100 * sum(found) / len(found) for found in map(starts_of, records)])
    low, high = (value.mean - value.half, value.mean + value.half) if value.count > 1 else (value.mean, value.mean)
    end, low, high = (round(min(max(each, LIMITS[0]), LIMITS[1]), 1) for each in (value.mean, low, high))
    return Bar(value.text(0), end, low, high)
