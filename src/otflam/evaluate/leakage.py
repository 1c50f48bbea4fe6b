"""How much of the distractors can be read from latent actions: the less, the better they know whose action it was.

Axes: t time steps, f numbers of a distractor's state.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float

from otflam.core import from_json
from otflam.data import Store
from otflam.envs import World, open_backgrounds
from otflam.evaluate.alignment import Table, r2_score, ridge_guess
from otflam.policy import Episodes

GRID = 4
"""Side of the grid on which the change of a background video is seen."""
NAMES = {"camera": "distractor_r2", "colour": "colour_r2", "background": "background_r2"}


def leakage_metrics(
    store: Store, known: list[Table], pool: Episodes, unseen: list[Table], probes: Episodes, stride: int
) -> dict[str, float]:
    """How much of the change of each group of distractors a linear probe reads from held-out latents.

    Numbers of a group count equally, whatever their units; nothing can be read where there are no distractors.
    """
    fields = store.meta.get("distractor_fields")
    if fields is None or store.config["world"]["difficulty"] == "vanilla":
        return dict.fromkeys(NAMES.values(), math.nan)
    found = {}
    for group, name in NAMES.items():
        known_changes, unseen_changes = (
            [change(store, int(index), group, stride) for index in episodes] for episodes in (pool, probes)
        )
        guess, truth = ridge_guess(known, known_changes, np.concatenate(unseen)), np.concatenate(unseen_changes)
        each = [r2_score(guess[:, [part]], truth[:, [part]]) for part in range(truth.shape[1])]
        moving = [score for score in each if not math.isnan(score)]
        found[name] = float(np.mean(moving)) if moving else math.nan
    return found


def change(store: Store, index: int, group: str, stride: int) -> Float[np.ndarray, "t f"]:
    """How a group of distractors changes over a transition."""
    first, last = store.meta["distractor_fields"][group]
    state = store.episode(index, "distractors")[:, first:last].astype(np.float64)
    if group == "background":
        state = seen_background(store, int(state[0, 0]), state[:, 1].astype(int))
    return state[stride:] - state[:-stride]


def seen_background(store: Store, video: int, frames: np.ndarray) -> Float[np.ndarray, "t f"]:
    """The video's frames on a coarse grid: which number a frame has says nothing that could be seen."""
    world = from_json(World, store.config["world"], "meta.json world")
    clip = torch.from_numpy(np.array(open_backgrounds(world.backgrounds, world.split).clip(video, 32)))
    grey = clip.to(torch.float64).mean(3)[:, None]
    return F.adaptive_avg_pool2d(grey, GRID).flatten(1).numpy()[frames]
