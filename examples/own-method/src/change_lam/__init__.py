"""The declaration: light, so that help is instant."""

from dataclasses import dataclass

from otflam import Method, Size, register_method
from otflam.core import TrainConfig


@dataclass(frozen=True)
class ChangeConfig:
    latent: int = 16
    """Width of a latent action."""
    side: int = 8
    """Pixels along a side of the small picture whose change is named."""
    stride: int = 2
    """Steps from the current frame to the future one."""


TRAIN = TrainConfig(steps=200, batch=32, lr=1e-3, weights={"next": 1.0})
SIZES = {"tiny": TrainConfig(steps=8, batch=8, log_every=2, save_every=2, weights={"next": 1.0}), "laptop": TRAIN}

register_method(
    Method(
        name="change-lam",
        summary="Change-LAM: the change of a small picture, squeezed into a latent action.",
        config=ChangeConfig,
        model="change_lam.model:ChangeLAM",
        draws=True,
        sizes={name: Size(ChangeConfig(), train) for name, train in SIZES.items()},
    )
)
