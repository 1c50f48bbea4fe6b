"""Behaviour cloning (paper §5, F.2): a policy imitates latent actions, or actions, from frames.

Axes: b samples, k c stacked frames and their colours, h w pixels, s state, d outputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from einops import reduce
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import (
    IMPALA,
    SILENT,
    Batch,
    Hardware,
    Progress,
    Terms,
    TrainConfig,
    conv_encoder,
    from_json,
    interleave,
    launch,
    load_weights,
    read_release,
    release_hash,
    require_square,
    start_orthogonal,
    to_json,
    train_into,
)
from otflam.data import Clips, Store
from otflam.policy.config import ActorConfig
from otflam.policy.spaces import ActionSpace, LatentSpace

CLONE_KIND = "clone"
CLONE_VERSION = 1
"""Bump when training would give other weights."""
ACTIONS = "actions"


@dataclass(frozen=True)
class Target:
    """What to imitate: a column of the data, or one derived from them."""

    column: str
    """Its name."""
    store: Store | None = None
    """Where it lies, if not in the data themselves."""
    inside: tuple[int, ...] = ()
    """Offsets that must lie inside the episode for a row of it to mean something."""
    discrete: int = 0
    """Number of actions where they are discrete."""

    def clips(self, data: Store, offsets: Sequence[int], episodes: Sequence[int] | np.ndarray) -> Clips:
        if self.store is None:
            return Clips(data, offsets, (self.column,), episodes, inside=self.inside, pad=True)
        return Clips(data, offsets, (), episodes, {self.column: self.store}, self.inside, pad=True)

    @property
    def hash(self) -> str | None:
        return None if self.store is None else self.store.hash


class Actor(nn.Module):
    def __init__(self, config: ActorConfig, size: int, colours: int, outputs: int) -> None:
        super().__init__()
        self.config, self.offsets = config, stack_offsets(config)
        widths = [config.scale * channels for channels in IMPALA]
        flat = widths[-1] * (size // 2 ** len(IMPALA)) ** 2
        self.see = conv_encoder(config.frames * colours, widths, config.blocks)
        self.width = config.state or widths[-1]
        self.sum_up = nn.Sequential(nn.ReLU6(), nn.Flatten(), nn.Linear(flat, config.state)) if config.state else None
        self.leave = nn.Linear(self.width, outputs)
        start_orthogonal(self)

    def begin_with(self, other: Actor) -> None:
        """Take over another actor's state representation, but not what it puts out."""
        known = {name: tensor for name, tensor in other.state_dict().items() if not name.startswith("leave.")}
        self.load_state_dict(self.state_dict() | known)

    def state(self, stack: Float[Tensor, "b kc h w"]) -> Float[Tensor, "b s"]:
        seen = self.see(stack)
        summed = reduce(seen, "b c h w -> b c", "mean") if self.sum_up is None else self.sum_up(seen)
        return nn.functional.relu6(summed)

    def forward(self, stack: Float[Tensor, "b kc h w"]) -> Float[Tensor, "b d"]:
        return self.leave(self.state(stack))

    def stacked(self, batch: Batch) -> Float[Tensor, "b kc h w"]:
        """The observation of a batch: frames from -1 to 1, oldest first.

        Successive frames differ little, so that how fast things move shows better in their differences, which are taken
        before stacking, where the memory of a frame is in one piece: on stacks a training step took 1.2 times as long.
        """
        frames = [batch.bytes_at(offset).to(torch.float32).div_(255).mul_(2).sub_(1) for offset in self.offsets]
        if self.config.changes:
            steps = [(after - before).mul_(self.config.changes) for before, after in itertools.pairwise(frames)]
            frames = [*steps, frames[-1]]
        return interleave(frames)


def stack_offsets(config: ActorConfig) -> tuple[int, ...]:
    """Times of the frames of an observation relative to the action it is for."""
    return tuple(range(config.ahead + 1 - config.frames, config.ahead + 1))


class Clone(nn.Module):
    """Frames to latents or to actions, whichever space it was made for."""

    def __init__(
        self, config: ActorConfig, frames: tuple[int, int, int], space: LatentSpace | ActionSpace, column: str
    ) -> None:
        super().__init__()
        size = require_square(frames[:2], 2 ** len(IMPALA), "a policy")
        self.frames, self.column, self.space = frames, column, space
        self.actor = Actor(config, size, frames[2], space.outputs)

    def forward(self, batch: Batch) -> Terms:
        raw = self.actor(self.actor.stacked(batch))
        return Terms({"clone": self.space.loss(raw, batch.at(self.column, 0))}, {})


def train_clone(
    store: Store,
    episodes: Sequence[int] | np.ndarray,
    target: Target,
    config: ActorConfig,
    train: TrainConfig,
    hardware: Hardware,
    out: Path,
    start: Path | None = None,
    progress: Progress = SILENT,
) -> Clone:
    """Train a policy to imitate a target on some episodes; or continue, or find it done.

    `start` is the folder of a clone of something else, whose state representation this one begins with.
    """
    clips = target.clips(store, stack_offsets(config), episodes)
    height, width, colours = store.columns["frames"].shape
    fabric = launch(hardware)
    torch.manual_seed(train.seed)
    if target.column == ACTIONS:
        space: LatentSpace | ActionSpace = ActionSpace.of(store, target.discrete)
    else:
        space = LatentSpace.of(clips.column(target.column))
    model = Clone(config, (height, width, colours), space, target.column)
    about: dict[str, Any] = {"kind": CLONE_KIND, "version": CLONE_VERSION, "model": to_json(config)}
    about |= {"data": store.hash, "episodes": [int(index) for index in episodes], "frames": [height, width, colours]}
    about |= {"column": target.column, "target": target.hash, "inside": list(target.inside)}
    about["outputs"] = space.outputs
    if space.discrete:
        about["discrete"] = space.discrete
    if start is not None:
        about["start"] = release_hash(start)
        model.actor.begin_with(load_clone(start).actor)
    return train_into(out, about, model, lambda: clips, train, fabric, lambda: load_clone(out), progress)


def load_clone(folder: Path) -> Clone:
    """A trained clone, ready to use."""
    about = read_release(folder, CLONE_KIND)
    config = from_json(ActorConfig, about["model"], f"{folder / 'config.json'}: model")
    column, outputs, discrete = about["column"], about["outputs"], about.get("discrete", 0)
    space = ActionSpace(1 if discrete else outputs, discrete) if column == ACTIONS else LatentSpace(outputs)
    height, width, colours = about["frames"]
    model = Clone(config, (height, width, colours), space, column)
    load_weights(model, folder)
    return model.eval()
