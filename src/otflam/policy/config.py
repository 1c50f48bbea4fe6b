"""What a policy is; light, so that the command line can show it without loading torch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from otflam.core.training import TrainConfig


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

    def seeded(self, seed: int, steps: int | None = None) -> PolicyConfig:
        """The same with another seed, and with as many steps of the decoder as its labels allow."""
        decode = replace(self.decode, seed=seed, steps=steps or self.decode.steps)
        clone, finetune = replace(self.clone, seed=seed), replace(self.finetune, seed=seed)
        return replace(self, clone=clone, decode=decode, finetune=finetune)
