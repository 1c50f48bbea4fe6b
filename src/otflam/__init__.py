"""Latent actions from video when nobody says which moving thing is the agent.

`otflam.load(folder)` gives whatever was trained into a folder. Names are imported when they are first used, so that
`import otflam` costs nothing.
"""

from importlib import metadata
from typing import Any

from otflam.core.surface import surface

_get, _list, __all__ = surface(__name__, __file__)


def __getattr__(name: str) -> Any:
    return metadata.version("otflam") if name == "__version__" else _get(name)


def __dir__() -> list[str]:
    return [*_list(), "__version__"]
