"""MaskLAM (2602.02259): LAPO that is told where the agent is, and whose errors count only there."""

from __future__ import annotations

from dataclasses import dataclass

from otflam.lam.lapo import NEXT, SIZES, LapoConfig, sizes
from otflam.lam.method import Method, register_method


@dataclass(frozen=True)
class MaskLapoConfig(LapoConfig):
    latent: int = 256
    """Width of a latent action."""
    outside: float = 0.0
    """What an error outside of the agent counts, for each of 1 inside."""


register_method(
    Method(
        name="mask-lapo",
        summary="LAPO that is told where the agent is, and whose errors count only there (MaskLAM).",
        config=MaskLapoConfig,
        model="otflam.lam.mask_lapo.model:MaskLapo",
        draws=True,
        colour="#3c0004",
        sizes=sizes(MaskLapoConfig, NEXT, **{name: {"reach": 1} for name in SIZES}),
    )
)
