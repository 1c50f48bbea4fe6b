"""A whole campaign, and what it says at its end."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from otflam.core import UserError, write_text
from otflam.experiments.campaign.judging import FAILED, PASSED, Verdict
from otflam.experiments.campaign.prepare import prepare
from otflam.experiments.campaign.process import preload
from otflam.experiments.campaign.run import Kind, Plan, count_rows, run_campaign
from otflam.report import Table, as_markdown

GROUPED = re.compile(r"\d+(\.\d+)?|0x[0-9a-f]+|'[^']*'|[0-9a-f]{12,}")
"""What differs between messages of one cause."""
PLACE = re.compile(r"(<!-- campaign -->\n).*?(<!-- end of campaign -->)", re.DOTALL)


def judge_cases(
    kept: Path | None, cases: list[str], seed: int, workers: int, on_part: Callable[..., Callable[[int, int], None]]
) -> list[Verdict]:
    """Prepare what the cases need and run them."""
    preload()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (kept or Path(temporary) / "samples").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        plan = Plan(folder, Path(temporary) / "cases", seed)
        wanted = {name for case in cases for needs, _ in plan.readers(case) for name in needs}
        prepare(folder, wanted, on_part("prepare", "samples"))
        return run_campaign(plan, cases, workers, lambda name: on_part(name, "cases"))


def list_failures(verdicts: list[Verdict], seed: int, most: int = 3) -> Iterator[str]:
    """What went wrong, the same kinds together, with the cases to run again."""
    groups: dict[tuple[str, str, str], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.failed:
            key = verdict.outcome, verdict.group, GROUPED.sub("…", verdict.message)
            groups.setdefault(key, []).append(verdict)
    for (outcome, group, _), found in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield f"{len(found)} × {outcome} ({group}): {found[0].message or '–'}"
        yield from (f"    --seed {seed} --case {each.case}  {each.about}" for each in found[:most])


def count_tables(verdicts: list[Verdict], seed: int, minutes: float) -> str:
    """The counts as Markdown, kills and mutations apart."""
    heads: dict[Kind, str] = {"kill": "killed command", "mutation": "damaged file"}
    rows = {kind: list(count_rows(verdicts, kind)) for kind in heads}
    tables = [
        as_markdown(Table(name, "", "otflam campaign", [name, "cases", *PASSED, *FAILED], rows[kind]))
        for kind, name in heads.items()
        if len(rows[kind]) > 1
    ]
    failed = sum(verdict.failed for verdict in verdicts)
    return "\n".join([*tables, f"{len(verdicts):,} cases, {failed} failures, {minutes:.1f} minutes (seed {seed})"])


def fill_page(page: Path, counts: str) -> None:
    """Put the counts where a page wants them."""
    text = page.read_text(encoding="utf-8")
    if not PLACE.search(text):
        raise UserError(f"{page} has no place for the counts", "see docs/reliability.md for its marks")
    write_text(page, PLACE.sub(lambda place: f"{place[1]}{counts}\n{place[2]}", text))
