"""The claims of the paper and our own, each judged by a stated rule from the records alone."""

from __future__ import annotations

from pathlib import Path

from otflam.report.claims_codes import judge_codes
from otflam.report.claims_control import judge_control
from otflam.report.claims_latents import judge_latents
from otflam.report.judging import Status, Verdict

__all__ = ["Status", "Verdict", "verdicts"]


def verdicts(records: Path, size: str) -> list[Verdict]:
    """What the records of a preset say of every claim; those without records are there too, as `unmeasured`."""
    return [*judge_codes(records, size), *judge_latents(records, size), *judge_control(records, size)]
