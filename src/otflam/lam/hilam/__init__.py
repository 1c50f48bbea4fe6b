"""HiLAM (paper E.3): skills over the latent actions of a frozen low-level model."""

from __future__ import annotations

from dataclasses import dataclass

from otflam.core import TrainConfig
from otflam.lam.method import Method, Size, register_method


@dataclass(frozen=True)
class HilamConfig:
    width: int = 64
    """Width of the low-level latent actions."""
    skill: int = 64
    """Width of a skill; the latent action is both side by side."""
    dim: int = 256
    """Width of the sequence models."""
    blocks: int = 2
    """Layers of each: two encoders, a main network, two decoders."""
    heads: int = 8
    """Attention heads."""
    mlp: int = 1024
    """Width inside a layer."""
    window: int = 64
    """Low-level latent actions that are seen at once, the last of them being the named one."""
    chunks: tuple[int, int] = (4, 4)
    """Wanted mean lengths: of a chunk in latent actions, and of a skill in chunks."""


LOSSES = {"latent": 1.0, "rec": 1.0, "ratio": 0.03}
LAPTOP = HilamConfig(dim=128, blocks=1, heads=4, mlp=256, window=32, chunks=(4, 2))

register_method(
    Method(
        name="hilam",
        summary="HiLAM: skills over the latent actions of a low-level model.",
        config=HilamConfig,
        model="otflam.lam.hilam.model:Hilam",
        base="latent action model",
        low="lapo-64",
        shows="skills",
        costly=True,
        paper="E.3",
        colour="#bf698d",
        sizes={
            "tiny": Size(
                HilamConfig(width=8, skill=4, dim=8, blocks=1, heads=2, mlp=16, window=6, chunks=(2, 2)),
                TrainConfig(steps=8, batch=8, lr=1e-3, log_every=2, save_every=2, weights=LOSSES),
            ),
            "demo": Size(LAPTOP, TrainConfig(steps=300, batch=32, lr=4e-4, schedule="cosine", ramp=20, weights=LOSSES)),
            "laptop": Size(
                LAPTOP, TrainConfig(steps=1500, batch=32, lr=4e-4, schedule="cosine", ramp=50, weights=LOSSES)
            ),
            "paper": Size(HilamConfig(), TrainConfig(50_000, 32, lr=1e-4, weights=LOSSES)),
        },
    )
)
