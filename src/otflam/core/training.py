"""How to train: light, so that the command line can show it without loading torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from otflam.core.errors import UserError

SMALLER_STEPS = "train with a smaller --lr into another --out (a checkpoint that is here is from before)"
"""A folder belongs to its settings, and nothing that is not finite is ever written to it."""
COUNT_LIMIT = 2**63
"""More than any count; what random generators take as a seed is below."""


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class TrainConfig:
    steps: int = 2000
    """Gradient steps."""
    batch: int = 128
    """Samples per step, over all processes."""
    optimiser: Literal["adamw", "adam"] = "adamw"
    """Which form of Adam."""
    lr: float = 3e-4
    """Step size."""
    weight_decay: float = 0.0
    """Decay of the weights."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the step size falls to zero, if it does."""
    ramp: int = 0
    """Steps over which the step size first rises from zero."""
    clip: float = 1.0
    """Largest norm of a gradient; 0 leaves it alone."""
    seed: int = 0
    """Decides weights, batches and dropout."""
    log_every: int = 25
    """Steps between two lines of metrics."""
    save_every: int = 250
    """Steps between two checkpoints."""
    weights: dict[str, float] = field(default_factory=dict)
    """Weight of each of the model's losses; the names must be exactly the model's."""

    def __post_init__(self) -> None:
        """Refuse what no training can be made with."""
        for name, least in {"steps": 1, "batch": 1, "ramp": 0, "seed": 0, "log_every": 1, "save_every": 1}.items():
            if not least <= getattr(self, name) < COUNT_LIMIT:
                raise UserError(f"{_option(name)} {getattr(self, name)}", f"give a whole number from {least} on")
        if not 0 < self.lr < math.inf:
            raise UserError(f"{_option('lr')} {self.lr}", "give a number above 0, such as 1e-3")
        for name in ("weight_decay", "clip"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"{_option(name)} {getattr(self, name)}", "give 0 or a number above it")
        for name, weight in self.weights.items():
            if not math.isfinite(weight):
                raise UserError(f"--weights.{name} {weight}", "give a finite number")


@dataclass(frozen=True)
class Hardware:
    devices: int = 1
    """Processes (CPU) or GPUs per machine."""
    nodes: int = 1
    """Machines."""
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    """What to train on."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Numbers to compute in: by default bfloat16 on a GPU and float32 on a CPU, where bfloat16 is slower."""

    def __post_init__(self) -> None:
        for name in ("devices", "nodes"):
            if getattr(self, name) < 1:
                raise UserError(f"{_option(name)} {getattr(self, name)}", "give at least 1")
