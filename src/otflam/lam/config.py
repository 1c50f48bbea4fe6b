"""What each latent action model is; light, so that the command line can show it without loading torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from otflam.motion.config import MotionConfig, Transform
from otflam.tokenizer.config import CodebookConfig


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


LamConfig = PixelConfig | DinoConfig | LapoConfig | MLapoConfig | FLapoConfig | FlamConfig | HilamConfig
