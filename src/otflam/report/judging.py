"""What all verdicts share: their form, and the rule by which intervals decide."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from otflam.evaluate import Estimate

Status = Literal["holds", "fails", "open", "unmeasured"]
TINY = 1e-9
"""Differences that are rounding."""


@dataclass(frozen=True)
class Verdict:
    """What the records say of one claim."""

    claim: str
    ours: str
    """What we measured, with intervals."""
    paper: str
    """What the paper prints, or a dash."""
    status: Status
    """`open`: measured, but the intervals do not decide; `unmeasured`: records are missing."""
    how: str
    """The rule that decided."""


def side(gap: Estimate) -> int:
    """1 if an interval lies above 0, -1 if below, 0 if it holds 0 or there is but one value."""
    if abs(gap.mean) <= gap.half + TINY:
        return 0
    return 1 if gap.mean > 0 else -1


def judged(sides: Iterable[int]) -> Status:
    """A claim that differences lie above 0: all of them must, and one below refutes it."""
    found = list(sides)
    if not found:
        return "unmeasured"
    return "holds" if min(found) > 0 else "fails" if min(found) < 0 else "open"


def signed(gap: Estimate) -> str:
    """A difference with its sign, and half its interval if it has one; with more digits where three hide its side."""
    if not math.isfinite(gap.half):
        return f"{rounded(gap.mean):+.3f}"
    digits = 3 if round(abs(gap.mean), 3) != round(gap.half, 3) else 5
    return f"{round(gap.mean, digits) + 0.0:+.{digits}f} ± {gap.half:.{digits}f}"


def rounded(value: float) -> float:
    """Three digits, and no negative zero."""
    return round(value, 3) + 0.0


def negative(gap: Estimate) -> Estimate:
    """The difference the other way round, for claims that something is lower."""
    return Estimate(-gap.mean, gap.half, gap.count)


def unmeasured(claim: str, paper: str, how: str, missing: str) -> Verdict:
    return Verdict(claim, f"not recorded yet: {missing}", paper, "unmeasured", how)
