"""Games: tables of choices read and of who is named, returns, a figure of who is named, and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from otflam.evaluate import (
    ALL_LABELS,
    BASELINE,
    GAME_TRANSFERS,
    GAMES,
    LABELS_ONLY,
    MOVERS,
    OURS,
    Estimate,
    Records,
    chosen,
    complete,
    difference,
    estimate,
    group,
    named,
    paired_tokenizers,
    returns_of,
    seed_gap,
    usual,
    values,
    world_of,
)
from otflam.report.canvas import Sketch, legend_below
from otflam.report.claims import Verdict, count_sides, judged, side, signed, unmeasured
from otflam.report.style import INK, MUTED, SERIES, hexed, rank_of
from otflam.report.tables_models import NONE, Body, over_seeds, with_half
from otflam.report.tables_returns import returns_rows

CHOICES = {
    "choice_balanced": "balanced accuracy",
    "choice_changed": "accuracy where it changed",
    "choice_accuracy": "accuracy",
    "choice_entropy": "cross-entropy",
}
"""Measures of choices, by their names in records."""
CONTROLS = {"state": "three frames, no model", "motion": "raw motion"}
"""What motions are read from without any latent."""
CALLED = {LABELS_ONLY: "the labels alone", BASELINE: f"those of {BASELINE}"}
AGAINST = tuple(CALLED)
"""What agents are compared with, level by level."""
MARKS = dict(zip(MOVERS, ("o", "s", "^", "v", "D"), strict=True))


def read_records(folder: Path, preset: str) -> Records:
    """What was read from latents of games, in the order of the games."""
    return sorted(usual(chosen(folder, "games", preset)), key=lambda record: GAMES.index(record["task"]))


def choices_table(folder: Path, preset: str) -> Body:
    """How well choices are read from latents with few labels, and from three frames."""
    rows = []
    for (task, labels, _), found in group(read_records(folder, preset), "task", "labels", "method").items():
        read = [over_seeds(found, f"{measure}{end}") for measure in CHOICES for end in ("", "_state")]
        guessed = [over_seeds(found, f"choice_accuracy_{guess}") for guess in ("usual", "before")]
        rows.append([world_of(task), str(labels or "all"), named(found[0]), *read, *guessed])
    pairs = [f"{what}{end}" for what in CHOICES.values() for end in ("", ": three frames")]
    guesses = ["accuracy of the most usual choice", "of the choice before"]
    return ["game", "labels", "method", *pairs, *guesses], rows


def movers_table(folder: Path, preset: str) -> Body:
    """Whose motion is read from latents, from the controls, and from frames with all labels."""
    rows = []
    for (task,), found in group(told(folder, preset), "task").items():
        known = with_controls(found)
        rows += [[world_of(task), what, *motions(known, f"_{control}")] for control, what in CONTROLS.items()]
        rows += [[world_of(task), named(part[0]), *motions(part, "")] for part in group(found, "method").values()]
    return ["game", "read from", *MOVERS], rows


def with_controls(records: Records) -> Records:
    """One that has what is read without latents, if there is one."""
    return [record for record in records if "agent_motion_r2_state" in record["metrics"]][:1] or records[:1]


def told(folder: Path, preset: str) -> Records:
    """Records that tell of some motion."""
    moving = [f"{mover}_motion_r2" for mover in MOVERS]
    records = read_records(folder, preset)
    return [record for record in records if any(record["metrics"].get(name) is not None for name in moving)]


def motions(records: Records, end: str) -> list[str]:
    """R² of the motion of every kind; the labels of actions do not matter for it."""
    found = [records[0]["metrics"].get(f"{mover}_motion_r2{end}") for mover in MOVERS]
    return [NONE if value is None else f"{value:.2f}" for value in found]


def gameplay_table(folder: Path, preset: str) -> Body:
    """What agents earn in levels that nobody has seen, and what more than others in the same levels."""
    head, records = ["game", "labels", "method", "return", "% of expert"], chosen(folder, "gameplay", preset)
    groups, rows = group(records, "task", "method"), []
    for row in returns_rows(records):
        game, _, method = row[:3]
        gaps = [None if method == other else earned_over(groups, game, method, other) for other in AGAINST]
        rows.append([*row[: len(head)], *(with_half(gap, 1, sign=True) for gap in gaps)])
    return [*head, *(f"over {other}" for other in AGAINST)], rows


def words_table(folder: Path, preset: str) -> Body:
    """Vocabularies of motion of one game, and of a body, on another game; and both kinds of them compared."""
    pairs = {"-to-".join(pair): " → ".join(map(world_of, pair)) for pair in GAME_TRANSFERS}
    rows, records = [], [r for r in chosen(folder, "transfer", preset) if r["task"] in pairs]
    for task, title in pairs.items():
        there = [record for record in records if record["task"] == task]
        otf, other = paired_tokenizers(there)
        gap = str(seed_gap(otf, other, "target_nmse")) if otf else NONE
        for (method,), found in sorted(group(there, "method").items(), reverse=True):
            errors = [over_seeds(found, name) for name in ("source_nmse", "target_nmse")]
            rise = over_seeds(found, "drop_normalised", 100.0, 1)
            rows.append([title, method, *errors, rise, gap if method == "otf" else NONE])
    return ["source → target", "method", "source nMSE", "target nMSE", "rise of nMSE %", "monolithic minus OTF"], rows


def earned_over(
    groups: Mapping[tuple[str, ...], Records], game: str, method: str, other: str, comparisons: int = 1
) -> Estimate | None:
    """What a method earns more than another in the same levels."""
    ours, theirs = (groups.get((game, name), []) for name in (method, other))
    return difference(ours, theirs, returns_of, comparisons)


def sketch_named(folder: Path, preset: str) -> Sketch | None:
    """Who is named: the motion of every kind, read from latents, beside what frames tell without a model."""
    groups = group(told(folder, preset), "task", "method")
    if not groups:
        return None
    games = list(dict.fromkeys(task for task, _ in groups))
    methods = sorted({method for _, method in groups}, key=rank_of)
    bare = [*CONTROLS.values(), *(name for name in methods if name == ALL_LABELS)]
    lines = [*bare, *(name for name in methods if name != ALL_LABELS)]
    figure = Figure(figsize=(2.6 * len(games) + 1.6, 0.3 * len(lines) + 1.3), layout="constrained")
    axes = figure.subplots(1, len(games), sharey=True, sharex=True, squeeze=False)[0]
    for axis, game in zip(axes, games, strict=True):
        found = {method: part for (task, method), part in groups.items() if task == game}
        known = with_controls([record for part in found.values() for record in part])
        for place, control in enumerate(CONTROLS):
            draw_motions(axis, place, known, f"_{control}")
        for method, part in found.items():
            draw_motions(axis, lines.index(method), part, "")
        axis.axhline(len(bare) - 0.5, color=hexed(MUTED), linewidth=0.8)
        axis.axvline(0, color=hexed(INK), linewidth=0.8)
        axis.set_title(world_of(game))
        axis.set_xlabel("R² of motion")
    axes[0].set_yticks(range(len(lines)), lines)
    axes[0].set_ylim(len(lines) - 0.4, -0.6)
    axes[0].set_xlim(min(-0.05, axes[0].get_xlim()[0]), 1.0)
    legend_below(figure, axes, len(MOVERS))
    caption = (
        "Who is named in games? Share of the variance of every kind's motion over a transition that a linear probe "
        f"reads from latents, learned with all episodes of the pool, on held-out levels ({preset} preset, one model of "
        "each method). Above the line: what the same probe reads without any model, and what a network reads from "
        "frames with all labels. A kind that is hardly in sight, or does not move, is left out."
    )
    return Sketch(figure, caption)


def draw_motions(axis: Axes, place: int, records: Records, end: str) -> None:
    """A row: a mark for each kind, as far right as its motion is told."""
    known = {mover: records[0]["metrics"].get(f"{mover}_motion_r2{end}") for mover in MOVERS}
    there = {mover: max(value, -0.05) for mover, value in known.items() if value is not None}
    if there:
        axis.plot([*there.values()], [place] * len(there), color=hexed(MUTED), linewidth=1.0, zorder=1)
    for mover, value in there.items():
        colour = SERIES[MOVERS.index(mover) % len(SERIES)]
        axis.plot([value], [place], MARKS[mover], color=colour, markersize=5, label=mover, linestyle="")


def judge_games(folder: Path, preset: str) -> list[Verdict]:
    """Whether latents name the agent, tell more of choices than the present does, and earn more than others."""
    records = read_records(folder, preset)
    played = group(chosen(folder, "gameplay", preset), "task", "method")
    return [judge_mover(records), judge_choices(records), *(judge_earning(played, other) for other in AGAINST)]


def judge_earning(groups: Mapping[tuple[str, ...], Records], other: str) -> Verdict:
    claim = f"In games, agents on latents of {OURS[0]} earn more than {CALLED[other]}"
    how = (
        "Returns minus those of the other in the same levels that no training has seen; 95 % interval over seeds and "
        "levels, its level divided among the games (Bonferroni). Holds if above 0 in every game, fails if below in "
        "one, else open."
    )
    games = sorted({game for game, _ in groups if {(game, OURS[0]), (game, other)} <= groups.keys()})
    gaps = {game: earned_over(groups, game, OURS[0], other, len(games)) for game in games}
    known = {game: gap for game, gap in gaps.items() if gap is not None}
    if not known:
        return unmeasured(claim, "–", how, f"{OURS[0]} and {other} in games")
    ours = "; ".join(f"{world_of(game)} {signed(gap)}" for game, gap in known.items())
    short = f"They earn {count_sides(map(side, known.values()), ('more', 'less'), 'games')}"
    return Verdict(claim, ours, "–", judged(map(side, known.values())), how, short, "earning")


def judge_mover(records: Records) -> Verdict:
    claim = f"In games, latents of {BASELINE} tell more of the agent's own motion than of anything else's"
    how = (
        "R² of a linear probe of the motion of every kind that is in sight (the camera counts with the agent, which it "
        "follows); one model a game, so that there is no interval. Holds if the agent's is the largest in every game, "
        "fails if in none, else open."
    )
    groups = group([r for r in records if r["method"] == BASELINE], "task")
    facts, first = [], []
    for (task,), found in groups.items():
        told = {mover: found[0]["metrics"].get(f"{mover}_motion_r2") for mover in MOVERS if mover != "camera"}
        known = {mover: value for mover, value in told.items() if value is not None}
        if "agent" in known:
            first.append(max(known, key=lambda mover: known[mover]) == "agent")
            facts.append(f"{world_of(task)}: {', '.join(f'{mover} {value:.2f}' for mover, value in known.items())}")
    if not facts:
        return unmeasured(claim, "–", how, f"{BASELINE} in games")
    status = "holds" if all(first) else "open" if any(first) else "fails"
    short = f"The agent's motion is told best in {sum(first)} of {len(first)} games"
    return Verdict(claim, "; ".join(facts), "–", status, how, short, "mover")


def judge_choices(records: Records) -> Verdict:
    claim = "In games, latents of some method tell more of choices than three frames without any model do"
    how = (
        "Balanced accuracy of a linear probe on latents minus that on three frames, with the most labels; the method "
        "with the greatest mean over games; 95 % interval over draws of labels (Student's t), its level divided among "
        "the games. Holds if above 0 in every game, fails if below in one, else open."
    )
    there = complete(records, "choice_balanced", "choice_balanced_state")
    most = max((record["labels"] for record in there), default=0)
    gains: dict[str, dict[str, list[float]]] = {}
    for (method, task), found in group([r for r in there if r["labels"] == most], "method", "task").items():
        pairs = zip(values(found, "choice_balanced"), values(found, "choice_balanced_state"), strict=True)
        gains.setdefault(method, {})[task] = [told - known for told, known in pairs]
    games = max((len(found) for found in gains.values()), default=0)
    gains = {method: found for method, found in gains.items() if len(found) == games}
    if not gains:
        return unmeasured(claim, "–", how, "choices read from any latents")
    best = max(gains, key=lambda method: sum(estimate(each).mean for each in gains[method].values()))
    gaps = {task: estimate(each, len(gains[best])) for task, each in gains[best].items()}
    ours = f"{best}, {most} labelled episodes: " + "; ".join(f"{world_of(t)} {signed(gap)}" for t, gap in gaps.items())
    short = f"The best, {best}, tell {count_sides(map(side, gaps.values()), ('more', 'less'), 'games')}"
    return Verdict(claim, ours, "–", judged(map(side, gaps.values())), how, short, "choices")
