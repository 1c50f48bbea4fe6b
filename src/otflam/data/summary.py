"""What is inside a store, in words."""

from __future__ import annotations

import numpy as np

from otflam.data.store import Store


def summarise(store: Store) -> dict[str, str]:
    """Facts about a data set, in the order a reader wants them."""
    world = store.config.get("world", {})
    size = sum(store.rows * column.row_bytes for column in store.columns.values())
    facts = {"data": str(store.path), "kind": store.meta.get("kind", "unknown")}
    if world:
        moving = "dynamic" if world["dynamic"] else "static"
        facts["world"] = f"{world['task']}, {world['difficulty']} ({moving}), {world['quality']} quality"
        facts["backgrounds"] = str(store.config.get("background_set") or "none")
    facts["episodes"] = f"{len(store)} of {_range(store.lengths)} frames, {store.rows} in all, {size / 1e9:.3f} GB"
    facts["columns"] = ", ".join(f"{name} {c.dtype}{list(c.shape)}" for name, c in store.columns.items())
    for policy in sorted({episode["policy"] for episode in store.episodes if "policy" in episode}):
        returns = np.array([episode["return"] for episode in store.episodes if episode["policy"] == policy])
        facts[f"{policy}"] = f"{len(returns)} episodes, return {returns.mean():.1f} ± {returns.std():.1f}"
    facts["hash"] = store.hash
    return facts


def _range(values: np.ndarray) -> str:
    return str(values.min()) if values.min() == values.max() else f"{values.min()} to {values.max()}"
