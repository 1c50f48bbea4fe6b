"""Latent actions from video when nobody says which moving thing is the agent.

`otflam.load(folder)` gives whatever was trained into a folder. Names are imported when they are first used, so that
`import otflam` costs nothing.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otflam.data.clips import Clips
    from otflam.data.store import Store
    from otflam.envs.suite import make
    from otflam.lam.api import LatentActionModel
    from otflam.lam.method import METHODS, Method, Size, register_method
    from otflam.policy.agent import Agent, load_agent
    from otflam.policy.load import load
    from otflam.presets import preset
    from otflam.tokenizer.api import Tokenizer

__all__ = [
    "METHODS",
    "Agent",
    "Clips",
    "LatentActionModel",
    "Method",
    "Size",
    "Store",
    "Tokenizer",
    "load",
    "load_agent",
    "make",
    "preset",
    "register_method",
]
_PLACES = {
    "METHODS": "lam.method",
    "Agent": "policy.agent",
    "Clips": "data.clips",
    "LatentActionModel": "lam.api",
    "Method": "lam.method",
    "Size": "lam.method",
    "Store": "data.store",
    "Tokenizer": "tokenizer.api",
    "load": "policy.load",
    "load_agent": "policy.agent",
    "make": "envs.suite",
    "preset": "presets",
    "register_method": "lam.method",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return metadata.version("otflam")
    if name not in _PLACES:
        raise AttributeError(f"module 'otflam' has no attribute {name!r}")
    return getattr(import_module(f"otflam.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
