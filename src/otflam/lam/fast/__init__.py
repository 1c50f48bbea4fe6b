"""Variants that learn most in a second of a small processor; the trials that chose them are in docs/shapes.md.

Both predict frozen random features of the future frame instead of its pixels: most of a faithful step draws pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from otflam.core import TrainConfig
from otflam.lam.lapo import SIZES, TRAININGS, LapoConfig
from otflam.lam.method import Method, Size, register_method
from otflam.lam.otf_lam import FORESEE, PAPER, READ, TINY, TINY_FORESEE, TINY_READ, OTFConfig

NEXT = {"next": 1.0}


@dataclass(frozen=True)
class FastLapoConfig(LapoConfig):
    latent: int = 1024
    """Width of a latent action."""
    targets: int = 64
    """Frozen random features of a place that are predicted instead of its pixels."""
    hidden: int = 96
    """Width of the layer before them."""
    shift: int = 4
    """Pixels by which a clip is shifted in training at most, all its frames alike; 0 leaves clips as they are."""


@dataclass(frozen=True)
class FastOTFConfig(OTFConfig):
    state: int = 64
    """Width of a state feature."""
    hidden: int = 128
    """Width of the layer between the pixels of a place and its state feature."""
    targets: int = 64
    """Frozen random features of a place that are predicted instead of its pixels."""


def lapo_size(preset: str, steps: int | None = None, **more: Any) -> Size:
    """As LAPO's in a preset, but for what is given."""
    training = replace(TRAININGS[preset], weights=NEXT)
    return Size(FastLapoConfig(**(SIZES[preset] | more)), replace(training, steps=steps or training.steps))


def otf_size(config: FastOTFConfig, training: TrainConfig) -> Size:
    return Size(config, replace(training, weights=NEXT))


LAPTOP_OTF = FastOTFConfig(replace(READ, depth=1), replace(FORESEE, depth=1), cell=2)
LAPTOP = TrainConfig(steps=2400, batch=32, lr=1e-3, schedule="cosine", ramp=50)

register_method(
    Method(
        name="otf-lam-fast",
        summary="OTF-LAM in its fastest shape: codes become latent actions that predict frozen random features.",
        config=FastOTFConfig,
        model="otflam.lam.fast.model:FastOTF",
        base="motion tokenizer",
        varies="otf-lam-pixel",
        colour="#c5ca7a",
        sizes={
            "tiny": otf_size(FastOTFConfig(TINY_READ, TINY_FORESEE, cell=7, state=8, hidden=8, targets=8), TINY),
            "demo": otf_size(LAPTOP_OTF, replace(LAPTOP, steps=500, ramp=20)),
            "laptop": otf_size(LAPTOP_OTF, LAPTOP),
            "paper": otf_size(FastOTFConfig(state=128), PAPER),
        },
    )
)
register_method(
    Method(
        name="lapo-fast",
        summary="LAPO in its fastest shape: a wide latent, shifted clips and frozen random features to predict.",
        config=FastLapoConfig,
        model="otflam.lam.fast.model:FastLapo",
        varies="lapo-256",
        colour="#0106e1",
        sizes={
            "tiny": lapo_size("tiny", latent=16, targets=8, hidden=8, shift=2),
            "demo": lapo_size("demo", scale=2),
            "laptop": lapo_size("laptop", steps=1600, scale=2),
            "paper": lapo_size("paper"),
        },
    )
)
