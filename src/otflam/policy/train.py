"""Agents, from latent actions or from actions, all by one path.

latent actions   clone the latents, then decode few labels (the paper); or go on with the labelled actions (+finetune);
                 or decode first and clone the actions (+relabel)
references       clone the labels alone; clone what an inverse dynamics model guesses from the labels; clone all actions
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Int64

from otflam.core import (
    SILENT,
    Hardware,
    Progress,
    TrainConfig,
    UserError,
    device_of,
    read_release,
    release_hash,
    stable_hash,
    to_json,
    versions,
)
from otflam.data import SHARES, Clips, Store, labelled_episodes, split_episodes
from otflam.lam import LABEL_VERSION, LAM_KIND, LATENTS, Backbone, label_store, load_lam
from otflam.policy.agent import Agent, describe_agent, load_agent
from otflam.policy.clone import ACTIONS, CLONE_VERSION, Clone, Target, stack_offsets, train_clone
from otflam.policy.config import ActionDecoderConfig, PolicyConfig
from otflam.policy.decode import (
    DECODER_VERSION,
    ActionDecoder,
    Pairs,
    guess_from_frames,
    guess_from_latents,
    held_out_error,
    labelled_pairs,
    latent_pairs,
    relabel,
    seen_frames,
    train_decoder,
)
from otflam.policy.spaces import ActionSpace, LatentSpace, choices_of

Grounding = Literal["decode", "finetune", "relabel"]
Reference = Literal["labels-only", "idm", "all-actions"]
SEEN_AHEAD = 2
"""Frames after the action that an inverse dynamics model sees: as far ahead as latent actions look."""
WATCHED = 8
"""Episodes on which a decoder's error is watched."""
Episodes = Int64[np.ndarray, " _"]


@dataclasses.dataclass(frozen=True)
class AgentPlan:
    """What an agent is made from and where it goes."""

    store: Store
    labels: int
    """Labelled episodes."""
    config: PolicyConfig
    hardware: Hardware
    out: Path
    most: int = 0
    """Imitate at most this many episodes, where labelling them is costly; 0: all of the first half."""
    progress: Progress = SILENT

    @property
    def splits(self) -> Splits:
        return Splits.of(self.store)

    @property
    def unlabelled(self) -> Episodes:
        return self.splits.unlabelled[: self.most or None]

    @property
    def labelled(self) -> Episodes:
        return self.splits.labelled(self.labels, self.config.clone.seed)

    @property
    def watched(self) -> Episodes:
        """Where a decoder's error is watched: not on held-out episodes, since one chooses by what one watches."""
        return np.setdiff1d(self.splits.pool, self.labelled)[:WATCHED]

    @property
    def decoder(self) -> ActionDecoderConfig:
        """The decoder, for actions as the data have them."""
        decoder = self.config.decoder
        return dataclasses.replace(decoder, discrete=choices_of(self.store, decoder.discrete))

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
        target = dataclasses.replace(target, discrete=self.decoder.discrete)
        progress = self.progress.part(folder.name, "steps")
        return train_clone(self.store, episodes, target, shape, train, self.hardware, folder, start, progress)

    def decode(self, pairs: Pairs, held: Pairs | None, about: dict[str, Any]) -> ActionDecoder:
        """Learn actions from what the labels belong to; without anything held out no error is watched."""
        space, train = ActionSpace.of(self.store, self.decoder.discrete), self.config.decode
        check, progress = None if held is None else held_out_error(held, space), self.progress.part("decoder", "steps")
        folder = self.out / "decoder"
        return train_decoder(pairs, self.decoder, space, train, self.hardware, folder, about, check, progress)

    def made_from(self, **about: Any) -> dict[str, Any]:
        """Everything that decides the agent."""
        facts = {"data": self.store.hash, "labelled": self.labelled.tolist(), "unlabelled": self.unlabelled.tolist()}
        config = to_json(self.config)
        if about.get("grounding") != "finetune":
            del config["finetune"]  # decides nothing else
        facts |= {"config": config, "versions": versions("torch", "numpy"), **about}
        return facts | {"stages": [CLONE_VERSION, DECODER_VERSION, LABEL_VERSION]}

    def finished(self, made_from: dict[str, Any]) -> Agent | None:
        """The agent, if it is there and just this one."""
        if not (self.out / "model.safetensors").exists():
            return None
        agent, wanted = load_agent(self.out), to_json(made_from)
        found = agent.about["made_from"]
        changed = sorted(name for name in {**found, **wanted} if found.get(name) != wanted.get(name))
        if changed:
            raise UserError(
                f"{self.out} holds another agent ({', '.join(changed)} differ)", "use its settings or another folder"
            )
        return agent

    def finish(self, clone: Clone, decoder: ActionDecoder | None, made_from: dict[str, Any], **about: Any) -> Agent:
        config = self.decoder if decoder is not None else None
        facts = describe_agent(clone, config, self.store, made_from=to_json(made_from), **about)
        agent = Agent(clone, decoder, facts)
        agent.save_pretrained(self.out)
        return agent.eval()

    def check_actions(self, what: str) -> None:
        """Refuse what only a decoder understands."""
        if "action_mask" in self.store:
            raise UserError(f"{self.store.path} has labels for some frames only", f"{what} needs whole episodes")


def train_agent(
    plan: AgentPlan, lam: Path, backbone: Backbone | None, grounding: Grounding, clones: Path | None = None
) -> Agent:
    """An agent from a trained latent action model; `clones` is a folder for the part that no label changes."""
    if grounding != "decode":
        plan.check_actions(f"--grounding {grounding}")
    check_splits(plan, lam)
    made_from = plan.made_from(lam=release_hash(lam), grounding=grounding)
    if (agent := plan.finished(made_from)) is not None:
        return agent
    model, _ = load_lam(lam, backbone)
    inside, labelled = (model.offsets[-1],), plan.labelled
    device = device_of(plan.hardware)
    latents = label_store(plan.store, lam, backbone, plan.unlabelled, plan.progress, device=device)
    if grounding == "relabel":
        known = label_store(plan.store, lam, backbone, plan.splits.pool, plan.progress, device=device)
        return plan.finish(_relabelled(plan, latents, known, inside), None, made_from, stride=model.stride)
    folder = clones or plan.out / "clone"
    clone = plan.clone(folder, plan.unlabelled, Target(LATENTS, latents, inside))
    if grounding == "finetune":
        tuned = plan.clone(plan.out / "finetune", labelled, Target(ACTIONS), plan.config.finetune, folder)
        return plan.finish(tuned, None, made_from, stride=model.stride)
    clone.to(device)
    pairs, others = labelled_pairs(clone.actor, plan.store, labelled), plan.watched
    held = labelled_pairs(clone.actor, plan.store, others) if len(others) and "action_mask" not in plan.store else None
    decoder = plan.decode(pairs, held, {"clone": release_hash(folder), "labelled": labelled.tolist()})
    return plan.finish(clone.cpu(), decoder, made_from, stride=model.stride)


def check_splits(plan: AgentPlan, lam: Path) -> None:
    """Refuse a latent action model that was trained on episodes which labels or probes come from."""
    about = read_release(lam, LAM_KIND)
    seen = set(about["episodes"][0]) if about["data"] == plan.store.hash else set()
    if seen & {*plan.splits.pool.tolist(), *plan.splits.probes.tolist()}:
        raise UserError(
            f"{lam} was trained on episodes that are to be labelled or held out", "train it with --share 0.5 or less"
        )


def _relabelled(plan: AgentPlan, latents: Store, known: Store, inside: tuple[int, ...]) -> Clone:
    """Learn to decode the latents of labelled transitions, guess all other actions, and imitate them."""
    labelled = plan.labelled

    def seen(episodes: Any, column: Store = latents) -> Clips:
        return Clips(plan.store, (0,), (ACTIONS,), episodes, {LATENTS: column}, inside)

    space = LatentSpace.of(seen(plan.unlabelled).column(LATENTS))
    others, pairs = plan.watched, latent_pairs(space, seen(labelled, known))
    held = latent_pairs(space, seen(others, known)) if len(others) else None
    decoder = plan.decode(pairs, held, {"latents": [latents.hash, known.hash], "labelled": labelled.tolist()})
    key, guess = release_hash(plan.out / "decoder"), partial(guess_from_latents, decoder, space)
    target = relabel(plan.store, guess, seen, key, labelled, plan.unlabelled, plan.progress.part("relabel"))
    return plan.clone(plan.out / "clone", np.concatenate([plan.unlabelled, labelled]), target)


def train_reference(plan: AgentPlan, kind: Reference) -> Agent:
    """An agent without latent actions, to compare with."""
    plan.check_actions(kind)
    if kind == "all-actions":  # it knows every label, so that no budget decides it
        plan = dataclasses.replace(plan, labels=len(plan.splits.pool))
    splits, labelled, target = plan.splits, plan.labelled, Target(ACTIONS)
    made_from = plan.made_from(reference=kind)
    if (agent := plan.finished(made_from)) is not None:
        return agent
    episodes = labelled if kind == "labels-only" else np.concatenate([splits.unlabelled, labelled])
    if kind == "idm":
        frames = plan.config.actor.frames + SEEN_AHEAD
        train = plan.config.inverse
        inverse = plan.clone(plan.out / "inverse", labelled, target, train, frames=frames, ahead=SEEN_AHEAD)
        seen = partial(seen_frames, plan.store, stack_offsets(inverse.actor.config))
        key = release_hash(plan.out / "inverse")
        guess = partial(guess_from_frames, inverse.to(device_of(plan.hardware)))
        target = relabel(plan.store, guess, seen, key, labelled, splits.unlabelled, plan.progress.part("relabel"))
    return plan.finish(plan.clone(plan.out / "clone", episodes, target), None, made_from)


def clone_key(plan: AgentPlan, lam: Path) -> str:
    """Names the clone of a model's latents, which no label changes."""
    facts = [release_hash(lam), plan.store.hash, plan.unlabelled.tolist(), plan.config.actor, plan.config.clone]
    return stable_hash([*facts, CLONE_VERSION, LABEL_VERSION])


@dataclass(frozen=True)
class Splits:
    """Who sees which episodes, stated once; returns are measured on simulator seeds that no data set has.

    Quarters are by the order of the episodes; where only some of them have labels, these are put into the pool first.
    """

    unlabelled: Episodes
    """The first half, for latent action models and clones: frames only."""
    pool: Episodes
    """The third quarter, from which labelled episodes are drawn."""
    probes: Episodes
    """The last quarter, held out from everything."""

    @classmethod
    def of(cls, store: Store) -> Splits:
        unlabelled, pool, probes = split_episodes(store, *SHARES)
        if "action_mask" in store:
            pool = pool[labelled_episodes(store)[pool]]
        return cls(unlabelled, pool, probes)

    def labelled(self, count: int, seed: int) -> Episodes:
        """Some episodes of the pool; another seed draws others, and a larger budget holds a smaller one."""
        if not 1 <= count <= len(self.pool):
            raise UserError(
                f"{count} labelled episodes of a pool of {len(self.pool)}",
                f"ask for 1 to {len(self.pool)}, or get more: a quarter of the episodes may be labelled",
            )
        return np.random.default_rng([seed, 3]).permutation(self.pool)[:count]
