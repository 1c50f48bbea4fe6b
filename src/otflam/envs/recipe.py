"""How an expert is trained: every number of the recipe."""

from __future__ import annotations

from dataclasses import dataclass, field

from otflam.core import ADDED


@dataclass(frozen=True)
class Recipe:
    """Games are learned by PPO, which has no use for some of these and other defaults for most (presets.py)."""

    decisions: int = 640_000
    """Decisions to take in all, over every environment."""
    repeat: int = 2
    """Simulator steps per decision while training; the expert itself acts at every step."""
    environments: int = 8
    """Environments stepped side by side."""
    random_rounds: int = 1
    """SAC: rounds of uniformly random actions before learning starts."""
    imitated_rounds: int = field(default=0, metadata=ADDED)
    """PPO: rounds in which the game's rules play and are imitated, before it learns from what it does itself."""
    batch: int = 128
    """SAC: transitions per gradient step."""
    updates_per_decision: float = 0.5
    """SAC: critic updates for each decision taken."""
    width: int = 256
    """Units in each of the two hidden layers."""
    lr: float = 5e-4
    """Adam's step size, which falls to a tenth by the end of training."""
    discount: float = 0.99
    """Discount per decision."""
    target_rate: float = 0.01
    """SAC: share of the online critics mixed into the target critics after every update."""
    evaluate_every: int = 5
    """Rounds between evaluations at repeat 1."""
    evaluate_episodes: int = 4
    """Episodes per evaluation."""
