"""LAPO (paper E.1) and its relatives: one latent action for the whole scene, from stacked frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from otflam.core import TrainConfig
from otflam.lam.method import Method, Size, register_method
from otflam.motion import Transform
from otflam.tokenizer import CodebookConfig


@dataclass(frozen=True)
class LapoConfig:
    latent: int = 128
    """Width of a latent action."""
    scale: int = 6
    """Width of the convolutions: channels are 16, 32 and 32 times this."""
    blocks: int = 2
    """Residual blocks in each stage."""
    frames: int = 3
    """Frames stacked into one observation."""
    stride: int = 1
    """Steps from the current observation to the predicted one."""
    reach: int = 10
    """In training the inverse model sees an observation up to this many strides ahead; at use always one."""


@dataclass(frozen=True)
class MLapoConfig(LapoConfig):
    transform: Transform = "gradient"
    """What each frame becomes before the difference that the inverse model is told."""


@dataclass(frozen=True)
class FLapoConfig(LapoConfig):
    codebook: CodebookConfig = field(default_factory=CodebookConfig)
    grid: int = 14
    """Patches along a side of a frame."""
    patch: int = 7
    """Pixels along a side of a patch; frames are resized to grid × patch."""
    hidden: int = 128
    """Width of the patch encoder."""


SIZES: dict[str, dict[str, int]] = {
    "tiny": {"scale": 1, "blocks": 1, "reach": 2},
    "demo": {"scale": 1, "blocks": 0, "stride": 2, "reach": 1},
    "laptop": {"scale": 1, "blocks": 0, "stride": 2, "reach": 1},
    "paper": {},
}
TRAININGS = {
    "tiny": TrainConfig(steps=8, batch=8, optimiser="adam", lr=1e-3, log_every=2, save_every=2),
    "demo": TrainConfig(steps=500, batch=32, optimiser="adam", lr=1e-3, schedule="linear", ramp=20),
    "laptop": TrainConfig(steps=1500, batch=32, optimiser="adam", lr=1e-3, schedule="linear", ramp=50),
    # LAOM's: Adam, no clipping, warm-up over three of ten epochs, then linearly to zero.
    "paper": TrainConfig(20_000, 512, "adam", 1e-4, schedule="linear", ramp=6000, clip=0.0),
}
PATCHES = {"tiny": 2, "demo": 5, "laptop": 5, "paper": 7}
"""Pixels along a side of F-LAPO's patches."""


def sizes(config: Callable[..., Any], weights: dict[str, float], **more: dict[str, Any]) -> dict[str, Size]:
    """The family's own sizes of one method; `more` has what else it is given, by preset."""
    return {
        name: Size(config(**{**size, **more.get(name, {})}), replace(TRAININGS[name], weights=weights))
        for name, size in SIZES.items()
    }


NEXT = {"next": 1.0}
LAPO = "otflam.lam.lapo.model:Lapo"
COLOURS = {64: "#a8caf0", 128: "#5d95d5", 256: "#215283"}


def register_lapo(latent: int, what: str, **widths: int) -> None:
    """LAPO with latent actions of a width, which may be another in some presets."""
    more = {name: {"latent": widths.get(name, latent)} for name in SIZES}
    summary = f"LAPO with latent actions of {latent} numbers{what}."
    made = sizes(LapoConfig, NEXT, **more)
    costly, colour = latent == 64, COLOURS[latent]
    register_method(
        Method(f"lapo-{latent}", summary, LapoConfig, LAPO, made, draws=True, costly=costly, paper="E.1", colour=colour)
    )


register_lapo(64, ", the low level of HiLAM", tiny=8)
register_lapo(128, "")
register_lapo(256, "")
register_method(
    Method(
        name="m-lapo",
        summary="M-LAPO: LAPO whose inverse model is told what moved.",
        config=MLapoConfig,
        model="otflam.lam.lapo.model:MotionLapo",
        draws=True,
        sizes=sizes(MLapoConfig, NEXT),
        paper="E.4",
        colour="#155248",
    )
)
register_method(
    Method(
        name="f-lapo",
        summary="F-LAPO: LAPO whose inverse model is a patch encoder with a code for every patch.",
        config=FLapoConfig,
        model="otflam.lam.lapo.model:FactorisedLapo",
        draws=True,
        sizes=sizes(
            FLapoConfig, NEXT | {"commit": 0.25}, **{name: {"patch": patch} for name, patch in PATCHES.items()}
        ),
        paper="E.5",
        colour="#7fdac4",
    )
)
