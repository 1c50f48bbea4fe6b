"""FLAM (paper E.2): a scene is a few slots, each with its own latent action."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from otflam.core import TrainConfig
from otflam.lam.method import Method, Size, register_method


@dataclass(frozen=True)
class FlamConfig:
    # The paper names slots, dim, blocks, frames, ahead and the seed 42. Heads are its sources', mlp and rounds usual
    # values, and the seed is 0 as for all our models (docs/decisions.md).
    slots: int = 4
    """Factors of a scene."""
    latent: int = 256
    """Width of a latent action: those of all slots side by side, so a multiple of their number."""
    dim: int = 256
    """Width of a slot."""
    blocks: int = 2
    """Layers of every part."""
    heads: int = 8
    """Attention heads."""
    mlp: int = 1024
    """Width inside a layer."""
    rounds: int = 3
    """Rounds in which slots compete for places."""
    frames: int = 10
    """Frames of a sub-trajectory; a latent action may depend on all before it."""
    ahead: int = 5
    """Steps that are predicted from predictions in training."""
    stride: int = 1
    """Steps from one frame to the next."""
    bottleneck: Literal["gaussian", "vq16"] = "gaussian"
    """What an action passes: a Gaussian with a prior, or one of 16 codes."""
    annealed: int = 10_000
    """Training steps over which the weight of the prior grows from 0."""


LOSSES = {"next": 1.0, "kl": 2e-4, "commit": 0.25}
"""The last one counts for the discrete bottleneck only, the one before for the Gaussian."""
LAPTOP = FlamConfig(dim=96, blocks=1, heads=4, mlp=192, rounds=2, frames=3, ahead=2, stride=2, annealed=3000)
SIZES = {
    "tiny": Size(
        FlamConfig(latent=16, dim=8, blocks=1, heads=2, mlp=16, frames=4, ahead=2, annealed=4),
        TrainConfig(steps=8, batch=8, lr=1e-3, log_every=2, save_every=2, weights=LOSSES),
    ),
    "demo": Size(
        replace(LAPTOP, annealed=250),
        TrainConfig(steps=300, batch=32, lr=1e-3, schedule="cosine", ramp=20, weights=LOSSES),
    ),
    "laptop": Size(LAPTOP, TrainConfig(steps=3200, batch=32, lr=1e-3, schedule="cosine", ramp=50, weights=LOSSES)),
    # 10 epochs of 30,969 batches of sub-trajectories.
    "paper": Size(FlamConfig(), TrainConfig(309_690, 32, lr=1e-4, schedule="cosine", ramp=1000, weights=LOSSES)),
}

for slots, word, colour in ((4, "four", "#421889"), (8, "eight", "#8050d3")):
    register_method(
        Method(
            name=f"flam-{slots}",
            summary=f"FLAM with {word} slots, each with a latent action of its own.",
            config=FlamConfig,
            model="otflam.lam.flam.model:Flam",
            base="frame tokenizer",
            shows="slots",
            costly=True,
            sizes={name: replace(size, model=replace(size.model, slots=slots)) for name, size in SIZES.items()},
            paper="E.2",
            colour=colour,
        )
    )
