"""An agent: a clone, and for a clone of latents the decoder that turns them into actions. `play_episode` takes it.

An agent is one folder: `config.json` and `model.safetensors`. It needs neither the latent action model nor DINO.

Axes: h w c pixels, a actions.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Float64, UInt8
from torch import nn

from otflam.core import (
    Batch,
    Pretrained,
    UserError,
    find_folder,
    from_json,
    load_weights,
    place_of,
    read_json,
    read_release,
    save_weights,
    to_json,
    write_json,
)
from otflam.data import SIMULATION, Store
from otflam.envs import Observation, World
from otflam.lam import LatentActionModel
from otflam.policy.clone import ACTIONS, Clone
from otflam.policy.config import ActionDecoderConfig, ActorConfig
from otflam.policy.decode import ActionDecoder, said_by
from otflam.policy.spaces import ActionSpace, LatentSpace
from otflam.tokenizer import Tokenizer

AGENT_KIND, AGENT_VERSION = "agent", 1


class Agent(Pretrained, nn.Module):
    """Chooses actions from the latest frames."""

    def __init__(self, clone: Clone, decoder: ActionDecoder | None, about: dict[str, Any]) -> None:
        super().__init__()
        if clone.actor.config.ahead:
            raise UserError(f"--actor.ahead {clone.actor.config.ahead}", "an agent cannot see the future: give 0")
        self.clone, self.decoder, self.about = clone, decoder, about
        self._recent: deque[np.ndarray] = deque(maxlen=clone.actor.config.frames)

    @classmethod
    def from_pretrained(cls, folder: str | Path, revision: str | None = None) -> Agent:
        """A saved agent, from its folder or as USER/NAME from the Hugging Face Hub, ready to play."""
        return load_agent(find_folder(folder, revision=revision))

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors`, the layout of model hubs."""
        write_json(Path(folder) / "config.json", self.about)
        save_weights(self, Path(folder))

    @property
    def seen(self) -> int:
        """How many frames it looks at."""
        return self.clone.actor.config.frames

    @property
    def choices(self) -> int:
        """How many actions it chooses from; 0: they are continuous."""
        return (self.clone if self.decoder is None else self.decoder).space.discrete

    def act(self, observation: Observation, rng: np.random.Generator) -> Float32[np.ndarray, " a"]:
        """The action for the latest frame; before there are enough frames the first one is repeated."""
        frame = observation.frame
        if frame is None:
            raise UserError("an agent that sees was given no frame", "let it play in a world that is drawn")
        if observation.step == 0:
            self._recent.extend([frame] * self.seen)
        else:
            self._recent.append(frame)
        return self.decide(np.stack(self._recent)[None], np.array([rng.random()]))[0]

    @torch.inference_mode()
    def decide(
        self, stacks: UInt8[np.ndarray, "n k h w c"], chances: Float64[np.ndarray, " n"]
    ) -> Float32[np.ndarray, "n a"]:
        """Actions for stacks of frames, oldest first; by `chances`, from 0 to 1, one of several choices is drawn."""
        if stacks.shape[2:] != self.clone.frames:
            raise UserError(
                f"frames of {'×'.join(map(str, stacks.shape[2:]))} for an agent trained on "
                f"{'×'.join(map(str, self.clone.frames))}",
                "make the world with its --size",
            )
        actor = self.clone.actor
        stack = actor.stacked(Batch(torch.tensor(stacks, device=place_of(self)), actor.offsets, {}))
        drawn = torch.tensor(chances, dtype=torch.float32, device=place_of(self))
        if self.decoder is None:
            return self.clone.space.drawn(actor(stack), drawn).cpu().numpy()
        return self.decoder.act(said_by(actor, stack), drawn).cpu().numpy()


def describe_agent(clone: Clone, decoder: ActionDecoderConfig | None, store: Store, **more: Any) -> dict[str, Any]:
    """What must be known to use an agent, and where it comes from."""
    world = store.config["world"] if store.meta.get("kind") == SIMULATION else None
    actions = list(store.columns["actions"].shape)
    facts = {
        "kind": AGENT_KIND,
        "version": AGENT_VERSION,
        "actor": to_json(clone.actor.config),
        "frames": list(clone.frames),
    }
    facts |= {"decoder": None if decoder is None else to_json(decoder), "latent": clone.space.outputs}
    if clone.space.discrete:
        facts["discrete"] = clone.space.discrete
    return facts | {"world": world, "actions": actions[0], **more}


def load_agent(folder: str | Path) -> Agent:
    """A saved agent, ready to play."""
    folder = Path(folder)
    about = read_release(folder, AGENT_KIND)
    where = f"{folder / 'config.json'}"
    actor = from_json(ActorConfig, about["actor"], f"{where}: actor")
    if about["world"] is not None:
        from_json(World, about["world"], f"{where}: world")
    height, width, colours = about["frames"]
    if about["decoder"] is None:
        clone = Clone(actor, (height, width, colours), ActionSpace(about["actions"], about.get("discrete", 0)), ACTIONS)
        decoder = None
    else:
        clone = Clone(actor, (height, width, colours), LatentSpace(about["latent"]), "latents")
        config = from_json(ActionDecoderConfig, about["decoder"], f"{where}: decoder")
        space = ActionSpace(about["actions"], config.discrete)
        decoder = ActionDecoder(config, clone.actor.width + about["latent"], space)
    agent = Agent(clone, decoder, about)
    load_weights(agent, folder)
    agent.source = folder
    return agent.eval()


LOADERS = {"tokenizer": Tokenizer.from_pretrained, "lam": LatentActionModel.from_pretrained, "agent": load_agent}
"""By the kind that a release says it is."""


def load(folder: str | Path, revision: str | None = None) -> Tokenizer | LatentActionModel | Agent:
    """Load what was trained into a folder, or copied there, or is on the Hugging Face Hub as USER/NAME."""
    folder = find_folder(folder, revision=revision)
    config = read_json(folder / "config.json", "give the folder of a trained tokenizer, model or agent")
    kind = config.get("kind") if isinstance(config, dict) else None
    if kind not in LOADERS:
        raise UserError(f"{folder} holds {kind or 'nothing that otflam has made'}", f"give one of {', '.join(LOADERS)}")
    return LOADERS[kind](folder)
