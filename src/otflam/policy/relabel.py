"""Actions for unlabelled episodes, guessed by something that was trained on the few labelled ones.

An inverse dynamics model guesses from frames (a reference row). A decoder guesses from latent actions (`+relabel`,
ours): first decode, then clone, so that the policy need not imitate what the latents know beside the action.

Axes: t time steps, d latent, a actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float32

from otflam.core import SILENT, Progress, place_of, stable_hash
from otflam.data import Clips, Store, derive
from otflam.policy.clone import ACTIONS, Clone, Target
from otflam.policy.decode import ActionDecoder, Pairs
from otflam.policy.spaces import LatentSpace

CHUNK = 256


def relabel(
    store: Store,
    guess: Callable[[Clips], Float32[np.ndarray, "n a"]],
    seen: Callable[[Sequence[int]], Clips],
    model_hash: str,
    labelled: Sequence[int] | np.ndarray,
    unlabelled: Sequence[int] | np.ndarray,
    progress: Progress = SILENT,
) -> Target:
    """Actions of all these episodes: the true ones where they are known, else guesses from what is `seen`."""
    known, inside = {int(index) for index in labelled}, seen([int(index) for index in unlabelled]).inside

    def compute(index: int) -> np.ndarray:
        actions = np.array(store.episode(index, ACTIONS))
        if index not in known:
            actions[:] = 0
        if index not in known and len(actions) > inside[-1]:
            clips = seen([index])
            actions[clips.anchors(np.arange(len(clips))) - store.starts[index]] = guess(clips)
        return actions

    everything = np.concatenate([np.asarray(unlabelled), np.asarray(labelled)])
    key = stable_hash([model_hash, sorted(known), "relabel"])
    column = store.columns[ACTIONS]
    return Target(ACTIONS, derive(store, ACTIONS, key, column, compute, progress, everything), inside)


def seen_frames(store: Store, offsets: tuple[int, ...], episodes: Sequence[int]) -> Clips:
    """What an inverse dynamics model sees of some episodes."""
    return Clips(store, offsets, (), episodes, pad=True)


@torch.inference_mode()
def guess_from_frames(model: Clone, clips: Clips) -> Float32[np.ndarray, "n a"]:
    actor, parts = model.actor.eval(), []
    for first in range(0, len(clips), CHUNK):
        batch = clips.gather(np.arange(first, min(first + CHUNK, len(clips)))).to(place_of(model))
        parts.append(model.space.value(actor(actor.stacked(batch))).cpu())
    return torch.cat(parts).numpy()


@torch.inference_mode()
def guess_from_latents(decoder: ActionDecoder, space: LatentSpace, clips: Clips) -> Float32[np.ndarray, "n a"]:
    return decoder.act(space.normal(torch.from_numpy(clips.column("latents")))).numpy()


def latent_pairs(space: LatentSpace, clips: Clips) -> Pairs:
    """Latents that a latent action model gave labelled transitions, and their actions."""
    latents = torch.from_numpy(clips.column("latents"))
    return Pairs(space.normal(latents), torch.from_numpy(clips.column(ACTIONS)))
