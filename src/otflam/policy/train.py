"""Agents, from latent actions or from actions, all by one path.

latent actions   clone the latents, then decode few labels (the paper); or go on with the labelled actions (+finetune);
                 or decode first and clone the actions (+relabel)
references       clone the labels alone; clone what an inverse dynamics model guesses from the labels; clone all actions
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from otflam.core.config import stable_hash
from otflam.core.release import release_hash
from otflam.core.training import Hardware, TrainConfig
from otflam.data.clips import Clips
from otflam.data.store import Store
from otflam.lam.features import Backbone
from otflam.lam.label import LATENTS, label_store
from otflam.lam.methods import load_lam
from otflam.policy.actor import stack_offsets
from otflam.policy.agent import Agent, describe_agent, load_agent, save_agent
from otflam.policy.clone import ACTIONS, Clone, Target, train_clone
from otflam.policy.config import PolicyConfig
from otflam.policy.decode import ActionDecoder, Pairs, labelled_pairs, train_decoder
from otflam.policy.relabel import guess_from_frames, guess_from_latents, latent_pairs, relabel
from otflam.policy.spaces import ActionSpace, LatentSpace
from otflam.policy.splits import Episodes, Splits

Grounding = Literal["decode", "finetune", "relabel"]
Reference = Literal["labels-only", "idm", "all-actions"]
SEEN_AHEAD = 2
"""Frames after the action that an inverse dynamics model sees: as far ahead as latent actions look."""
Parts = Callable[..., Callable[[int, int], None]]


def no_part(name: str, unit: str = "") -> Callable[[int, int], None]:
    return lambda done, total: None


@dataclasses.dataclass(frozen=True)
class Task:
    """What an agent is made from and where it goes."""

    store: Store
    labels: int
    """Labelled episodes."""
    config: PolicyConfig
    hardware: Hardware
    out: Path
    most: int = 0
    """Imitate at most this many episodes, where labelling them is dear; 0: all of the first half."""
    on_part: Parts = no_part
    """Told the name of every part of the work."""

    @property
    def splits(self) -> Splits:
        return Splits.of(self.store)

    @property
    def unlabelled(self) -> Episodes:
        return self.splits.unlabelled[: self.most or None]

    @property
    def labelled(self) -> Episodes:
        return self.splits.labelled(self.labels, self.config.clone.seed)

    def clone(
        self,
        folder: Path,
        episodes: Episodes,
        target: Target,
        train: TrainConfig | None = None,
        start: Path | None = None,
        **actor: int,
    ) -> Clone:
        """Imitate a target, by default for as long as a clone does."""
        train, shape = train or self.config.clone, dataclasses.replace(self.config.actor, **actor)
        reach, done = self.on_part(folder.name, "steps"), 0

        def begin(first: int, total: int) -> None:
            nonlocal done
            done = first

        def step(count: int) -> None:
            nonlocal done
            done += count
            reach(done, train.steps)

        return train_clone(self.store, episodes, target, shape, train, self.hardware, folder, start, begin, step)

    def finish(self, clone: Clone, decoder: ActionDecoder | None, **about: Any) -> Agent:
        config = self.config.decoder if decoder is not None else None
        facts = describe_agent(clone, config, self.store, labels=self.labels, seed=self.config.clone.seed, **about)
        agent = Agent(clone, decoder, facts)
        save_agent(agent, self.out)
        return agent.eval()


def train_agent(
    task: Task, lam: Path, backbone: Backbone | None, grounding: Grounding, clones: Path | None = None
) -> Agent:
    """An agent from a trained latent action model; `clones` is a folder for the part that no label changes."""
    if (task.out / "model.safetensors").exists():
        return load_agent(task.out)
    model, _ = load_lam(lam, backbone)
    inside, labelled = (model.offsets[-1],), task.labelled
    about = {"lam": release_hash(lam), "stride": model.stride, "grounding": grounding}
    latents = label_store(task.store, lam, backbone, task.unlabelled, task.on_part)
    if grounding == "relabel":
        known = label_store(task.store, lam, backbone, task.splits.pool, task.on_part)
        return _relabelled(task, latents, known, inside, about)
    folder = clones or task.out / "clone"
    clone = task.clone(folder, task.unlabelled, Target(LATENTS, latents, inside))
    if grounding == "finetune":
        tuned = task.clone(task.out / "finetune", labelled, Target(ACTIONS), task.config.finetune, folder)
        return task.finish(tuned, None, **about)
    pairs = labelled_pairs(clone.actor, task.store, labelled)
    probes = task.splits.probes
    held = labelled_pairs(clone.actor, task.store, probes) if len(probes) else pairs
    facts = about | {"labelled": labelled.tolist(), "data": task.store.hash}
    decoder = _decode(task, pairs, held, task.out / "decoder", facts)
    return task.finish(clone, decoder, **about)


def _decode(task: Task, pairs: Pairs, held: Pairs, out: Path, about: dict[str, Any]) -> ActionDecoder:
    space = ActionSpace.of(task.store, task.config.decoder.discrete)

    @torch.no_grad()
    def check(decoder: ActionDecoder) -> dict[str, float]:
        return {"held_out": float(space.loss(decoder.layers(held.inputs), held.actions))}

    return train_decoder(pairs, task.config.decoder, space, task.config.decode, task.hardware, out, about, check)


def _relabelled(task: Task, latents: Store, known: Store, inside: tuple[int, ...], about: dict[str, Any]) -> Agent:
    """Learn to decode the latents of labelled transitions, guess all other actions, and imitate them."""
    labelled = task.labelled

    def seen(episodes: Any, column: Store = latents) -> Clips:
        return Clips(task.store, (0,), (ACTIONS,), episodes, {LATENTS: column}, inside)

    space = LatentSpace.of(seen(task.unlabelled).column(LATENTS))
    facts = about | {"labelled": labelled.tolist(), "data": task.store.hash}
    others = np.setdiff1d(task.splits.pool, labelled)
    pairs = latent_pairs(space, seen(labelled, known))
    held = latent_pairs(space, seen(others, known)) if len(others) else pairs
    decoder = _decode(task, pairs, held, task.out / "decoder", facts)
    key, guess = release_hash(task.out / "decoder"), partial(guess_from_latents, decoder, space)
    target = relabel(task.store, guess, seen, key, labelled, task.unlabelled, task.on_part("relabel"))
    episodes = np.concatenate([task.unlabelled, labelled])
    return task.finish(task.clone(task.out / "clone", episodes, target), None, **about)


def train_reference(task: Task, kind: Reference) -> Agent:
    """An agent without latent actions, to compare with."""
    if (task.out / "model.safetensors").exists():
        return load_agent(task.out)
    splits, labelled, target = task.splits, task.labelled, Target(ACTIONS)
    episodes = {"labels-only": labelled, "all-actions": np.concatenate([splits.unlabelled, splits.pool])}.get(kind)
    if episodes is None:
        episodes = np.concatenate([splits.unlabelled, labelled])
        frames = task.config.actor.frames + SEEN_AHEAD
        inverse = task.clone(task.out / "inverse", labelled, target, frames=frames, ahead=SEEN_AHEAD)
        offsets = stack_offsets(inverse.actor.config)
        seen = partial(_seen_frames, task.store, offsets)
        key, guess = release_hash(task.out / "inverse"), partial(guess_from_frames, inverse)
        target = relabel(task.store, guess, seen, key, labelled, splits.unlabelled, task.on_part("relabel"))
    return task.finish(task.clone(task.out / "clone", episodes, target), None, reference=kind)


def _seen_frames(store: Store, offsets: tuple[int, ...], episodes: Any) -> Clips:
    return Clips(store, offsets, (), episodes, pad=True)


def clone_key(task: Task, lam: Path) -> str:
    """Names the clone of a model's latents, which no label changes."""
    config = task.config
    return stable_hash([release_hash(lam), task.store.hash, config.actor, config.clone])
