"""Vocabularies that were learned on some domains and tested on all, and latent actions on the packaged one: tables and
verdicts."""

from __future__ import annotations

from pathlib import Path

from otflam.evaluate import GENERAL, OURS, Estimate, Record, Records, chosen, difference, group, usual
from otflam.report.claims import Verdict, signed, unmeasured
from otflam.report.consequences import Status
from otflam.report.tables_models import NONE, Body, over_seeds, with_half

ALL, BUT = "all", "all-but-"
"""What a vocabulary was trained on, beside single domains."""
ERROR, STILL = "nmse_", "still_nmse_"
NEAR = 1.25
"""How many times a domain's own error that without the domain may be."""
MOST = 2 / 3
"""Share of the domains for which it must be near."""
ALIKE_MSE = 0.01
"""Differences of an action's squared error that do not matter."""


def domains_of(records: list[Record]) -> list[str]:
    """The domains that something was tested on, in the order of names."""
    return sorted({name.removeprefix(ERROR) for each in records for name in each["metrics"] if name.startswith(ERROR)})


def order_of(record: Record) -> tuple:
    """All domains first, then all but one, then each alone; OTF before its counterpart."""
    task = record["task"]
    return record["method"] != "otf", task != ALL, not task.startswith(BUT), task, -record["codes"]


def rows_of(folder: Path, preset: str, prefix: str) -> Body:
    records = chosen(folder, "general", preset)
    domains = domains_of(records)
    rows = [
        [
            record["task"].replace("-", " "),
            record["method"],
            str(record["codes"]),
            *(f"{record['metrics'][prefix + domain]:.2f}" for domain in domains),
            *([f"{record['metrics']['nmse']:.3f}"] if prefix == ERROR else []),
        ]
        for record in sorted(records, key=order_of)
    ]
    return ["trained on", "method", "K", *domains, *(["mean"] if prefix == ERROR else [])], rows


def general_table(folder: Path, preset: str) -> Body:
    """nMSE on the held-out episodes of every domain."""
    return rows_of(folder, preset, ERROR)


def stillness_table(folder: Path, preset: str) -> Body:
    """The same of still patches alone, for what was trained on all."""
    head, rows = rows_of(folder, preset, STILL)
    return head, [row for row in rows if row[0] == ALL]


def left_out_table(folder: Path, preset: str) -> Body:
    """What it costs a vocabulary that it never saw a domain."""
    records, rows = chosen(folder, "general", preset), []
    for method in sorted({each["method"] for each in records}, reverse=True):
        for domain, (own, without) in left_out(records, method).items():
            rise = NONE if own is None or without is None else f"{100 * (without / own - 1):+.0f}"
            rows.append([domain, method, *(NONE if each is None else f"{each:.3f}" for each in (own, without)), rise])
    return ["domain", "method", "own vocabulary", "left out", "rise %"], rows


def left_out(records: Records, method: str) -> dict[str, tuple[float | None, float | None]]:
    """By domain the error of its own vocabulary, and of that which saw all others; domains that have either."""
    mine = [each for each in records if each["method"] == method]
    codes = min((each["codes"] for each in mine), default=0)
    by = {each["task"]: each["metrics"] for each in mine if each["codes"] == codes}
    found = {}
    for domain in domains_of(records):
        own, without = (by[task][ERROR + domain] if task in by else None for task in (domain, BUT + domain))
        if own is not None or without is not None:
            found[domain] = (own, without)
    return found


def latents_table(folder: Path, preset: str) -> Body:
    """What latent actions on the packaged vocabulary know, beside those on a vocabulary of the task's own."""
    rows = []
    for (task, labels), found in group(chosen(folder, "general-lam", preset), "task", "labels").items():
        aligned, innovation = (own_records(folder, preset, kind, task, labels) for kind in ("alignment", "innovation"))
        gap = difference(found, aligned, errors_of)
        error = [over_seeds(each, "action_mse") for each in (found, aligned)]
        told = [over_seeds(each, "action_r2") for each in (found, aligned)]
        new = [over_seeds(each, "innovation_r2") for each in (found, innovation)]
        rows.append([task, str(labels), *error, with_half(gap, 4, sign=True), *told, *new])
    pairs = [f"{what}{end}" for what in ("action R²", "innovation R²") for end in (" (general)", " (own)")]
    return ["data", "labels", "action MSE (general)", "action MSE (own)", "general minus own", *pairs], rows


def own_records(folder: Path, preset: str, kind: str, task: str, labels: int) -> Records:
    """The records of the same method on a vocabulary of the task's own."""
    facts = (OURS[0], task, labels)
    return [r for r in usual(chosen(folder, kind, preset)) if (r["method"], r["task"], r["labels"]) == facts]


def errors_of(record: Record) -> list[float]:
    return record["metrics"]["episode_mse"]


def judge_general(folder: Path, preset: str) -> list[Verdict]:
    """Whether a vocabulary serves domains that it never saw, and whether the packaged one serves latent actions."""
    return [judge_left_out(folder, preset), judge_latents_on_it(folder, preset)]


def judge_left_out(folder: Path, preset: str) -> Verdict:
    claim = "A vocabulary of motion serves domains that it never saw nearly as well as their own"
    how = (
        f"nMSE on a domain's held-out episodes of OTF that was trained on all others, over that of OTF trained on it "
        f"alone, at equal training; one seed, so that there is no interval. Near: at most {NEAR} times. Holds if near "
        f"for two thirds of the domains, fails if not, open until all are recorded."
    )
    found = left_out(chosen(folder, "general", preset), "otf")
    rises = {domain: without / own for domain, (own, without) in found.items() if own and without is not None}
    if not rises:
        return unmeasured(claim, "–", how, "a domain's own vocabulary and that of all others")
    near = sum(rise <= NEAR for rise in rises.values())
    whole = len(rises) == len(domains_of(chosen(folder, "general", preset)))
    status: Status = "open" if not whole else "holds" if near >= MOST * len(rises) else "fails"
    ours = "; ".join(f"{domain} {100 * (rise - 1):+.0f} %" for domain, rise in rises.items())
    short = f"Without a domain the error is at most {100 * (NEAR - 1):.0f} % above its own in {near} of {len(rises)}"
    return Verdict(claim, ours, "–", status, how, short, "left out")


def judge_latents_on_it(folder: Path, preset: str) -> Verdict:
    claim = "Latent actions on the packaged vocabulary tell as much of actions as those on one of the task's own"
    how = (
        f"Linear probe with few labels, {OURS[0]}: the squared error on the packaged vocabulary minus that on the "
        "task's own, in the same held-out episodes; 95 % intervals over episodes, their level divided among all "
        f"(Bonferroni). Holds if all end below {ALIKE_MSE}, fails if one begins above, else open."
    )
    records = [r for r in chosen(folder, "general-lam", preset) if r["method"] == OURS[0] + GENERAL]
    groups = group(records, "task", "labels")
    pairs = {key: (found, own_records(folder, preset, "alignment", *key)) for key, found in groups.items()}
    known = {key: pair for key, pair in pairs.items() if difference(*pair, errors_of) is not None}
    gaps: dict[tuple, Estimate] = {}
    for key, pair in known.items():
        if (gap := difference(*pair, errors_of, len(known))) is not None:
            gaps[key] = gap
    if not gaps:
        return unmeasured(claim, "–", how, "latent actions on the packaged vocabulary")
    lows, highs = zip(*((gap.mean - gap.half, gap.mean + gap.half) for gap in gaps.values()), strict=True)
    status: Status = "holds" if max(highs) < ALIKE_MSE else "fails" if max(lows) > ALIKE_MSE else "open"
    ours = "; ".join(f"{task}, {labels} labels {signed(gap)}" for (task, labels), gap in gaps.items())
    worst = max(gaps.values(), key=lambda gap: gap.mean)
    short = f"The error is at worst {signed(worst)} above that on the task's own"
    return Verdict(claim, ours, "–", status, how, short, "vocabulary")
