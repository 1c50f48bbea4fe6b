"""OTF-LAM (paper §4): codes of local motion become a latent action, in pixel space or in the features of a DINOv2."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from otflam.core import TrainConfig
from otflam.lam.method import Method, Size, register_method
from otflam.motion import MotionConfig


@dataclass(frozen=True)
class AbstractionConfig:
    latent: int = 256
    """Width of a latent action."""
    queries: int = 4
    """Learned queries L that read the transition tokens."""
    dim: int = 256
    """Width of the tokens and queries."""
    heads: int = 4
    """Attention heads."""
    depth: int = 2
    """Layers that mix what the queries have read."""
    mlp: int = 1024
    """Width inside such a layer."""
    dropout: float = 0.1
    """Share of activations dropped in training."""


@dataclass(frozen=True)
class PredictorConfig:
    dim: int = 384
    """Width of the forward model."""
    depth: int = 2
    """Its layers."""
    heads: int = 6
    """Its attention heads."""
    mlp: int = 1536
    """Width inside its layers."""
    dropout: float = 0.1
    """Share of activations dropped in training."""
    placed: bool = False
    """Project the latent to every token by itself before adding it, instead of adding the same to all."""


@dataclass(frozen=True)
class OTFConfig:
    """What both OTF-LAMs share. The tokenizer must have been trained with the same grid and motion."""

    abstraction: AbstractionConfig = field(default_factory=AbstractionConfig)
    predictor: PredictorConfig = field(default_factory=PredictorConfig)
    motion: MotionConfig = field(default_factory=MotionConfig)
    grid: int = 14
    """Patches along a side of the tokenizer's frames."""
    cell: int = 1
    """Patches along a side of one token: 2 gives a quarter of the tokens, each with the codes of four patches."""

    @property
    def side(self) -> int:
        """Tokens along a side."""
        return self.grid // self.cell


@dataclass(frozen=True)
class PixelConfig(OTFConfig):
    channels: tuple[int, ...] = (32, 64, 128)
    """Channels of the stages of the state encoder; the last is the width of a state feature."""
    blocks: int = 1
    """Residual blocks in each stage."""
    usage: int = 32
    """Width of the projected code usage that modulates every stage; 0 leaves the modulation out."""
    head: int = 128
    """Channels at the start of the RGB head; each upsampling halves them."""
    drawn: int = 1
    """Pixels along a side that each place of the last layer draws at once: 2 saves most of the head's time."""
    residual: bool = True
    """Predict the change of the frame; otherwise the frame itself."""


@dataclass(frozen=True)
class DinoConfig(OTFConfig):
    size: int = 196
    """Pixels that frames are resized to before the backbone; it must give as many patches as there are tokens."""


def pixel_training(training: TrainConfig, weight: float = 1000.0) -> TrainConfig:
    # The paper writes sums of squares, ours are means. A mean over pixels in [0, 1] has gradients so small that Adam's
    # epsilon of 1e-8 holds back the layers far from the output, so it is weighed; the clip at 1 is then active.
    # Features of DINO vary by about 1 and need no weight.
    return replace(training, weights={"next": weight})


NEXT = {"next": 1.0}
TINY = TrainConfig(steps=8, batch=8, lr=1e-3, log_every=2, save_every=2)
DEMO = TrainConfig(steps=500, batch=32, lr=4e-4, schedule="cosine", ramp=20)
LAPTOP = TrainConfig(steps=2800, batch=32, lr=4e-4, schedule="cosine", ramp=50)
# Smaller steps than Pixel's: larger ones unlearn its latents before they are of use (docs/log.md).
LAPTOP_DINO = TrainConfig(steps=3400, batch=32, lr=2e-4, schedule="cosine", ramp=50)
PAPER = TrainConfig(steps=20_000, batch=512, lr=1e-4)

TINY_READ, TINY_FORESEE = AbstractionConfig(8, dim=8, heads=2, mlp=16), PredictorConfig(8, 1, 2, 16)
# At laptop size: a quarter of the tokens, each told its own part of the latent; no modulation by code usage, which
# would tell the forward model about the future past the latent; the same stride for all methods (docs/decisions.md).
READ = AbstractionConfig(dim=128, mlp=512, dropout=0.0)
FORESEE = PredictorConfig(128, 2, 4, 512, dropout=0.0, placed=True)
LAPTOP_PIXEL = PixelConfig(READ, FORESEE, cell=2, channels=(16, 32, 64), blocks=0, usage=0, head=64, drawn=2)
LAPTOP_FEATURES = DinoConfig(replace(READ, mlp=256), replace(FORESEE, mlp=256), cell=2, size=98)

register_method(
    Method(
        name="otf-lam-pixel",
        summary="OTF-LAM-Pixel: codes become latent actions that redraw the next frame.",
        config=PixelConfig,
        model="otflam.lam.otf_lam.model:PixelLAM",
        base="motion tokenizer",
        draws=True,
        paper="§4.2, C.2",
        colour="#f6ae22",
        sizes={
            "tiny": Size(
                PixelConfig(TINY_READ, TINY_FORESEE, cell=7, channels=(4, 4, 8), head=8), pixel_training(TINY)
            ),
            "demo": Size(LAPTOP_PIXEL, pixel_training(DEMO)),
            "laptop": Size(LAPTOP_PIXEL, pixel_training(LAPTOP)),
            "paper": Size(PixelConfig(), pixel_training(PAPER, 1.0)),
        },
    )
)
register_method(
    Method(
        name="otf-lam-dino",
        summary="OTF-LAM-DINO: codes become latent actions that predict features of a frozen DINOv2.",
        config=DinoConfig,
        model="otflam.lam.otf_lam.model:DinoLAM",
        base="motion tokenizer",
        features=True,
        paper="§4.3, C.3",
        colour="#e0380a",
        sizes={
            "tiny": Size(DinoConfig(TINY_READ, TINY_FORESEE, cell=7, size=28), replace(TINY, weights=NEXT)),
            "demo": Size(LAPTOP_FEATURES, replace(DEMO, weights=NEXT)),
            "laptop": Size(LAPTOP_FEATURES, replace(LAPTOP_DINO, weights=NEXT)),
            "paper": Size(DinoConfig(), replace(PAPER, weights=NEXT)),
        },
    )
)
