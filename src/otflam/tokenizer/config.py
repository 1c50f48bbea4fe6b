"""What a tokenizer is; light, so that the command line can show it without loading torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from otflam.core import ADDED, UserError
from otflam.motion import MotionConfig

PACKAGED = ("motion-general-64", "motion-general-256", "walker-run")
"""Tokenizers that come with the package; the first is what is meant where none is named."""
MOST_CODES = 1 << 16
"""What two bytes can name."""


@dataclass(frozen=True)
class CodebookConfig:
    codes: int = 64
    """Size K of the vocabulary; a code is one byte up to 256, and two beyond."""
    dim: int = 32
    """Width D of a code."""
    decay: float = 0.99
    """Share of its past that a code keeps at every step."""
    patience: int = 1000
    """Steps without a token after which a code is moved to a random token of the batch."""
    repulsion: float = 0.0
    """Step of a gradient descent on the codes' overlap after each update; 0: the overlap is only logged (B.4)."""

    @property
    def dtype(self) -> str:
        """numpy's name of the smallest type that holds every code."""
        return "uint8" if self.codes <= 256 else "uint16"


@dataclass(frozen=True)
class DecoderConfig:
    shape: Literal["subpixel", "bilinear"] = "subpixel"
    """Convolutions on the patch grid with pixels as channels (fast), or upsampling to full resolution (the paper's)."""
    width: int = 128
    """Channels inside the decoder."""
    reference: int = 64
    """Channels of the map of the current frame; 0 leaves the reference branch out."""
    depth: int = field(default=0, metadata=ADDED)
    """Further convolutions on the patch grid."""


@dataclass(frozen=True)
class TokenizerConfig:
    method: Literal["otf", "monolithic"] = "otf"
    """A code for every patch, or the same number of codes for the motion as a whole."""
    motion: MotionConfig = field(default_factory=MotionConfig)
    codebook: CodebookConfig = field(default_factory=CodebookConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    channels: int = 3
    """Colour channels of a frame."""
    grid: int = 14
    """Patches along the shorter side of a frame."""
    patch: int = 7
    """Pixels along a side of a patch; frames are resized to grid × patch."""
    hidden: int = 128
    """Width of the patch encoder and of the descriptor network ρ."""
    descriptor: int = 64
    """Width of a factor's descriptor on the grid."""
    warmup: int = 200
    """Steps without quantisation before k-means starts the codebook."""
    whole: int = 512
    """Width of the monolithic tokenizer's layers, which see the whole motion."""
    still: float = field(default=0.0, metadata=ADDED)
    """A patch that moves less than this share of its frame's mean, or no more than a camera's noise, has the code 0,
    which draws nothing; 0: stillness has no code of its own."""
    even: bool = field(default=False, metadata=ADDED)
    """Whether every transition counts alike in training, however much of it moves."""

    def __post_init__(self) -> None:
        if not 2 <= self.codebook.codes <= MOST_CODES:
            raise UserError(f"a vocabulary of {self.codebook.codes} codes", f"choose 2 to {MOST_CODES:,}")
        if self.motion.stride < 1 or self.grid < 1 or self.patch < 1:
            raise UserError("stride, grid and patch", "each must be at least 1")
        if not 0 <= self.still < 1:
            raise UserError(f"still is {self.still:g}", "give a share from 0 to below 1, such as 0.25")
        if self.still and self.method == "monolithic":
            raise UserError("a monolithic tokenizer has no code for still patches", "leave still at 0")


@dataclass(frozen=True)
class FrameTokenizerConfig:
    """FLAM's tokenizer of frames; nothing else uses it."""

    levels: tuple[int, ...] = (4, 4, 4, 4, 4)
    """Levels of each number that finite scalar quantisation keeps of a place."""
    dim: int = 128
    """Width of the vector at a place."""
    scale: int = 4
    """Width of the convolutions: channels are 16, 32 and 32 times this."""
    blocks: int = 2
    """Residual blocks in each stage."""
    channels: int = 3
    """Colour channels of a frame."""

    def __post_init__(self) -> None:
        if not self.levels or min(self.levels) < 2 or math.prod(self.levels) > 32_768:
            raise UserError(f"levels {self.levels}", "give two or more for each number, at most 32,768 in all")
        if self.dim < 1 or self.scale < 1 or self.blocks < 0:
            raise UserError("dim, scale and blocks", "give at least 1, 1 and 0")
