"""The claims of the paper and our own, each judged by a stated rule from the records alone."""

from __future__ import annotations

from pathlib import Path

from otflam.report.claims_codes import judge_codes
from otflam.report.claims_control import judge_control
from otflam.report.claims_latents import judge_latents
from otflam.report.judging import Status, Verdict

__all__ = ["Status", "Verdict", "verdicts", "verdicts_by_topic"]

JUDGES = {"Motion codes": judge_codes, "Latent actions": judge_latents, "Control": judge_control}
"""Who judges what, in the order in which it is told."""


def verdicts_by_topic(records: Path, preset: str) -> dict[str, list[Verdict]]:
    """What the records of a preset say of every claim; those without records are there too, as `unmeasured`."""
    return {topic: judge(records, preset) for topic, judge in JUDGES.items()}


def verdicts(records: Path, preset: str) -> list[Verdict]:
    """The same in one list."""
    return [verdict for found in verdicts_by_topic(records, preset).values() for verdict in found]
