"""How to train: light, so that the command line can show it without loading torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


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


@dataclass(frozen=True)
class Hardware:
    devices: int = 1
    """Processes (CPU) or GPUs per machine."""
    nodes: int = 1
    """Machines."""
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    """What to train on."""
