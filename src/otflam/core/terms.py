"""What a training objective returns."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Terms(NamedTuple):
    """Named tuples, not dataclasses, pass between model and loop: Fabric refuses frozen dataclasses."""

    losses: dict[str, Tensor]
    """Unweighted; the training configuration has one weight for each."""
    metrics: dict[str, Tensor]
    """Only to be logged."""
