"""Whose every pixel is: the background's, the agent's or the rival's, by the simulator, beside the data on request."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import numpy as np

from otflam.core import SILENT, Column, Launcher, Progress, UserError, stable_hash
from otflam.data.collect import recorded_collection
from otflam.data.derived import derive, derive_shards
from otflam.data.store import Store
from otflam.envs import AGENT, RIVAL, masked, open_world

MASKS, MASKS_VERSION = "masks", 1


def mask_column(store: Store, progress: Progress = SILENT, episodes: Sequence[int] | np.ndarray | None = None) -> Store:
    """A byte for each pixel: 0 the background's, 1 the agent's, 2 the rival's.

    Episodes are drawn again for it, and their frames must be those that were recorded.
    """
    world = recorded_collection(store).world
    with closing(masked(open_world(world))) as env:
        snapshot = env.facts.snapshot_column()
        if snapshot not in store:
            raise UserError(f"{store.path} has no {snapshot}", "masks are drawn from it: collect the data set again")

        def compute(index: int) -> np.ndarray:
            frames, masks = store.episode(index, "frames"), []
            drawn = env.redraw(store.episodes[index]["seed"], store.episode(index, snapshot))
            for step, (frame, _) in enumerate(drawn):
                if not np.array_equal(frame, frames[step]):
                    raise UserError(
                        f"{store.path}: frame {step} of episode {index} is drawn otherwise here",
                        "another version or graphics driver made it; collect the data set again",
                    )
                masks.append(env.mask())
            return np.stack(masks)

        key = stable_hash([MASKS, MASKS_VERSION])
        return derive(store, MASKS, key, Column("uint8", env.facts.frame[:2]), compute, progress, episodes)


def make_masks(store: Store, workers: int, first: int | None, progress: Progress = SILENT) -> Store:
    """The same with several processes, of all episodes or the first."""
    chosen = list(range(min(first or len(store), len(store))))
    shards = min(workers, len(chosen))
    if shards > 1:
        derive_shards(mask_column, store, (), chosen, shards, Launcher(workers), progress)
    return mask_column(store, progress if shards == 1 else SILENT, chosen)


def moving_pixels(
    store: Store, masks: Store, episodes: Sequence[int] | np.ndarray, stride: int, least: int = 8
) -> dict[str, float]:
    """The share of a frame's pixels that change over a transition and are of each body, before or after it.

    A pixel changes if a colour of it does by more than `least` of 255.
    """
    found: dict[str, list[float]] = {"agent": [], "rival": [], "background": []}
    for index in map(int, episodes):
        frames = store.episode(index, "frames").astype(np.int16)
        owners = masks.episode(masks.places[index], MASKS)
        changed = (np.abs(frames[stride:] - frames[:-stride]) > least).any(-1)
        touched = {name: (owners[stride:] == body) | (owners[:-stride] == body) for name, body in BODIES.items()}
        for name, pixels in touched.items():
            found[name].append(float((changed & pixels).mean()))
        found["background"].append(float((changed & ~np.logical_or(*touched.values())).mean()))
    return {name: float(np.mean(shares)) for name, shares in found.items()}


BODIES = {"agent": AGENT, "rival": RIVAL}
