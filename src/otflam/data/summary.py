"""What is inside a store, in words."""

from __future__ import annotations

import numpy as np

from otflam.data.store import Store


def summarise(store: Store) -> dict[str, str]:
    """Facts about a data set, in the order a reader wants them."""
    world = store.config.get("world", {})
    size = sum(store.rows * column.row_bytes for column in store.columns.values())
    facts = {"data": str(store.path), "kind": str(store.meta.get("kind", "unknown"))}
    if world:
        moving, quality = "dynamic" if world.get("dynamic") else "static", world.get("quality")
        seen = f", {world.get('difficulty')} ({moving}), {quality} quality" if "distractor_fields" in store.meta else ""
        facts["world"] = f"{world.get('task')}{seen}"
        facts["backgrounds"] = str(store.config.get("background_set") or "none")
    frames = int(store.lengths.sum())
    facts["episodes"] = f"{len(store)} of {_range(store.lengths)} frames, {frames} in all, {size / 1e9:.3f} GB"
    facts["columns"] = ", ".join(f"{name} {c.dtype}{list(c.shape)}" for name, c in store.columns.items())
    if "actions" in store and "frames" in store:
        facts["actions"] = _actions(store, frames)
    for policy in sorted({episode["policy"] for episode in store.episodes if "policy" in episode}):
        returns = np.array(
            [episode.get("return") for episode in store.episodes if episode.get("policy") == policy], float
        )
        facts[policy] = f"{len(returns)} episodes, return {returns.mean():.1f} ± {returns.std():.1f}"
    facts["hash"] = store.hash
    return facts


def _actions(store: Store, frames: int) -> str:
    """What the actions are called and how many frames have one."""
    names = store.meta.get("action_names") or [f"{np.prod(store.columns['actions'].shape, dtype=int)} without names"]
    names = [f"one of {store.meta['action_choices']}"] if "action_choices" in store.meta else names
    labelled, episodes = frames, len(store)
    if "action_mask" in store:
        counts = [int(store.episode(index, "action_mask").sum()) for index in range(len(store))]
        labelled, episodes = sum(counts), sum(count > 0 for count in counts)
    return f"{', '.join(map(str, names))}; {labelled} of {frames} frames are labelled, in {episodes} episodes"


def _range(values: np.ndarray) -> str:
    return str(values.min()) if values.min() == values.max() else f"{values.min()} to {values.max()}"
