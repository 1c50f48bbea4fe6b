"""LAPO with the bottlenecks of others: a few codes (LAPA, Genie), or a noisy vector (AdaWorld)."""

from __future__ import annotations

from dataclasses import dataclass, field

from otflam.lam.lapo import NEXT, LapoConfig, sizes
from otflam.lam.method import Method, register_method
from otflam.tokenizer import CodebookConfig


@dataclass(frozen=True)
class VQLapoConfig(LapoConfig):
    codebook: CodebookConfig = field(default_factory=lambda: CodebookConfig(codes=8, patience=100))
    words: int = 4
    """Codes that name a transition, one after the other; a latent action is their vectors side by side."""


@dataclass(frozen=True)
class VAELapoConfig(LapoConfig):
    latent: int = 32
    """Width of a latent action."""


register_method(
    Method(
        name="lapo-vq",
        summary="LAPO whose latent action is a few codes, as in LAPA and Genie.",
        config=VQLapoConfig,
        model="otflam.lam.bottlenecks.model:VQLapo",
        draws=True,
        colour="#791b01",
        sizes=sizes(VQLapoConfig, NEXT | {"commit": 0.25}),
    )
)
register_method(
    Method(
        name="lapo-vae",
        summary="LAPO whose latent action is noisy in training, as in AdaWorld: what it tells has a price.",
        config=VAELapoConfig,
        model="otflam.lam.bottlenecks.model:VAELapo",
        draws=True,
        colour="#b0775c",
        # AdaWorld's price of a nat, for errors of pixels in [-1, 1].
        sizes=sizes(VAELapoConfig, NEXT | {"price": 2e-4}),
    )
)
