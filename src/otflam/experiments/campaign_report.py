"""A whole campaign, and what it says at its end."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from otflam.experiments.campaign import KINDS, Plan, count_table, run_campaign
from otflam.experiments.campaign_judging import FAILED, MEANINGS, PASSED, Verdict
from otflam.experiments.campaign_prepare import prepare
from otflam.experiments.campaign_process import preload
from otflam.report.markdown import markdown

GROUPED = re.compile(r"\d+(\.\d+)?|0x[0-9a-f]+|'[^']*'|[0-9a-f]{12,}")
"""What differs between messages of one cause."""


def campaign(
    kept: Path | None, cases: list[str], seed: int, workers: int, on_part: Callable[..., Callable[[int, int], None]]
) -> tuple[list[str], int]:
    """Prepare, run the cases, and return what to print and how many failed."""
    began = time.monotonic()
    preload()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (kept or Path(temporary) / "samples").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        plan = Plan(folder, Path(temporary) / "cases", seed)
        wanted = {name for case in cases for needs, _ in plan.readers(case) for name in needs}
        prepare(folder, wanted, on_part("prepare", "samples"))
        verdicts = run_campaign(plan, cases, workers, lambda name: on_part(name, "cases"))
    minutes = (time.monotonic() - began) / 60
    return list(describe(verdicts, seed, minutes)), sum(verdict.failed for verdict in verdicts)


def describe(verdicts: list[Verdict], seed: int, minutes: float) -> Iterator[str]:
    """Failures, grouped by what went wrong, then the counts."""
    groups: dict[tuple[str, str, str], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.failed:
            key = verdict.outcome, verdict.group, GROUPED.sub("…", verdict.message)
            groups.setdefault(key, []).append(verdict)
    for (outcome, group, _), found in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield f"{len(found)} × {outcome} ({group}): {found[0].message or '–'}"
        yield from (f"    --seed {seed} --case {each.case}  {each.about}" for each in found[:3])
    for kind in KINDS:
        rows = list(count_table(verdicts, kind))
        if len(rows) > 1:
            head = ["killed command" if kind == "kill" else "damaged file", "cases", *PASSED, *FAILED]
            yield "\n" + markdown(head, rows)
    if len(verdicts) == 1:
        yield f"{verdicts[0].case}: {verdicts[0].outcome} ({MEANINGS[verdicts[0].outcome]}); {verdicts[0].about}"
        yield verdicts[0].message
    failed = sum(verdict.failed for verdict in verdicts)
    yield f"{len(verdicts):,} cases, {failed} failures, {minutes:.1f} minutes (seed {seed})"
