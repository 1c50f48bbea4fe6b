"""What a policy is; light, so that the command line can show it without loading torch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from otflam.core import ADDED, TrainConfig

PARTS = {
    "decode": "decode",
    "relabel": "decode",
    "finetune": "finetune",
    "labels-only": "clone",
    "idm": "inverse",
}
"""Which training of a policy sees the labelled actions, by the way in which they are used."""


@dataclass(frozen=True)
class ActorConfig:
    scale: int = 32
    """Width of the convolutions: channels are 16, 32 and 32 times this."""
    blocks: int = 2
    """Residual blocks in each stage."""
    frames: int = 3
    """Frames stacked into one observation."""
    ahead: int = 0
    """How many of them lie ahead: none for a policy; an inverse dynamics model sees what the action did."""
    state: int = 0
    """Width of the state representation, read from all places of the picture; 0: the mean over all places."""
    changes: float = 0.0
    """Show the changes from frame to frame, times this, in place of the older frames; 0: show the frames."""


@dataclass(frozen=True)
class ActionDecoderConfig:
    hidden: int = 256
    """Width of the hidden layers."""
    layers: int = 2
    """Hidden layers."""
    discrete: int = 0
    """Number of actions where they are discrete, given as one number each; 0: actions are continuous."""


@dataclass(frozen=True)
class PolicyConfig:
    """A policy and how both of its parts are learned."""

    actor: ActorConfig = field(default_factory=ActorConfig)
    decoder: ActionDecoderConfig = field(default_factory=ActionDecoderConfig)
    clone: TrainConfig = field(default_factory=TrainConfig)
    """How the policy imitates."""
    decode: TrainConfig = field(default_factory=TrainConfig)
    """How the decoder is trained."""
    finetune: TrainConfig = field(default_factory=TrainConfig)
    """How a policy that has imitated latents goes on with labelled actions."""
    inverse: TrainConfig | None = field(default=None, metadata=ADDED)
    """How the inverse dynamics model of a reference is trained; None: as the policy is."""

    def seeded(self, seed: int) -> PolicyConfig:
        """The same with another seed."""
        parts = {name: replace(getattr(self, name), seed=seed) for name in ("clone", "decode", "finetune")}
        inverse = self.inverse and replace(self.inverse, seed=seed)
        return replace(self, **parts, inverse=inverse)

    def with_steps(self, way: str, steps: int | None) -> PolicyConfig:
        """The same with so many steps of the training that sees the labelled actions; None: as many as before."""
        if steps is None or way not in PARTS:
            return self
        part = PARTS[way]
        return replace(self, **{part: replace(getattr(self, part) or self.clone, steps=steps)})


def way_of(method: str) -> str:
    """How a row of the tables uses labels: a reference by its name, a method by what follows the plus."""
    name, _, way = method.partition("+")
    return next((known for known in (name, way) if known in PARTS), "decode")
