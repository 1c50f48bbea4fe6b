"""LAOM (Nikulin et al. 2025): a wide latent action; the future is predicted as a slow copy of the encoder sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from otflam.core import TrainConfig
from otflam.lam.lapo import SIZES, TRAININGS, LapoConfig
from otflam.lam.method import Method, Size, register_method


@dataclass(frozen=True)
class LaomConfig(LapoConfig):
    latent: int = 8192
    """Width of a latent action."""
    hidden: int = 1024
    """Width of the inverse and of the forward model."""
    stages: int = 3
    """Stages of each; every one reads what the first one read again."""
    rate: float = 0.001
    """Share of the encoder that its slow copy, which sees the future, takes over after every step."""
    augment: bool = True
    """Shift, turn and tilt every observation by itself in training."""


def size_of(preset: str, train: TrainConfig, **more: Any) -> Size:
    """As LAPO's in a preset, but for what is given."""
    options: dict[str, Any] = {**SIZES[preset], **more}
    return Size(LaomConfig(**options), replace(train, weights={"next": 1.0}))


# Without other views, and one step ahead: in minutes they cost more than they teach (docs/shapes.md).
LAPTOP = {"latent": 256, "hidden": 256, "stages": 2, "rate": 0.01, "scale": 2, "reach": 1, "augment": False}
register_method(
    Method(
        name="laom",
        summary="LAOM: a wide latent action that predicts how a slow copy of the encoder sees the future.",
        config=LaomConfig,
        model="otflam.lam.laom.model:Laom",
        colour="#050828",
        sizes={
            "tiny": size_of("tiny", TRAININGS["tiny"], latent=16, hidden=8, stages=2),
            "demo": size_of("demo", TRAININGS["demo"], **LAPTOP),
            "laptop": size_of("laptop", replace(TRAININGS["laptop"], steps=1600), **LAPTOP),
            # 10 epochs of 5,000 trajectories, the first three of them to warm up.
            "paper": size_of("paper", replace(TRAININGS["paper"], steps=96_700, ramp=29_000)),
        },
    )
)
