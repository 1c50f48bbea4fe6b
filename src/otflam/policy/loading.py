"""Whatever lies in a folder: a tokenizer, a latent action model or an agent."""

from __future__ import annotations

from pathlib import Path

from otflam.core import UserError, read_json
from otflam.lam import LatentActionModel
from otflam.policy.agent import Agent, load_agent
from otflam.tokenizer import Tokenizer

LOADERS = {"tokenizer": Tokenizer.from_pretrained, "lam": LatentActionModel.from_pretrained, "agent": load_agent}
"""By the kind that a release says it is."""


def load(folder: str | Path) -> Tokenizer | LatentActionModel | Agent:
    """Load what was trained into a folder, or copied there."""
    config = read_json(Path(folder) / "config.json", "give the folder of a trained tokenizer, model or agent")
    kind = config.get("kind") if isinstance(config, dict) else None
    if kind not in LOADERS:
        raise UserError(f"{folder} holds {kind or 'nothing that otflam has made'}", f"give one of {', '.join(LOADERS)}")
    return LOADERS[kind](Path(folder))
