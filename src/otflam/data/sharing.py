"""Data sets on the Hugging Face Hub, and the card that says what is in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from otflam.core import UserError, card_table, front_matter, push_files, use_command

LICENCES = {"simulation": "apache-2.0", "moving-mnist": "apache-2.0"}
"""Of data that the package draws itself; whose others are is not known."""


def push_store(store: Any, facts: dict[str, str], name: str, private: bool, licence: str | None) -> str:
    """Put a data set on the hub: meta.json, and the columns of all shards where they lie in its folder."""
    files: dict[str, Path | bytes] = {"meta.json": store.path / "meta.json"}
    for shard in store.shards:
        if shard.folder != store.path and shard.folder.parent != store.path:
            raise UserError(f"{store.path} has its shard {shard.folder.name} beside it", "put that on the hub instead")
        place = "" if shard.folder == store.path else f"{shard.folder.name}/"
        files |= {f"{place}{column}.npy": shard.folder / f"{column}.npy" for column in store.columns}
    own = store.path / "README.md"
    chosen = licence or LICENCES.get(str(store.meta.get("kind")), "unknown")
    card = own if own.exists() else store_card(name, facts, store.config, chosen).encode()
    return push_files(files | {"README.md": card}, name, "dataset", private=private)


def store_card(name: str, facts: dict[str, str], config: dict[str, Any], licence: str) -> str:
    """What is inside, how it was made, how to use it."""
    tags = ["otflam", "latent-actions", *([config["world"]["task"]] if config.get("world") else [])]
    told = [(key, value) for key, value in facts.items() if key != "data"]
    use = f'import otflam\n\nstore = otflam.Store.from_pretrained("{name}")\nprint(store.episode(0, "frames").shape)'
    parts = [
        front_matter({"license": licence, "tags": tags}),
        f"# {name}",
        "Episodes for learning latent actions from video: frames and what was recorded with them, as .npy files.",
        "## What is inside",
        card_table(("fact", "value"), told),
        "`meta.json` has how it was made in full, where each episode lies, and checksums of every episode's columns.",
        "## How to use it",
        f"With `otflam[hub]` installed:\n\n```python\n{use}\n```\n\n{use_command(name)}",
    ]
    return "\n\n".join(parts) + "\n"
