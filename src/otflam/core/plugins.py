"""What is named by a string until it is needed, and what installed packages add."""

from __future__ import annotations

import warnings
from importlib import import_module, metadata
from typing import Any


def import_name(place: str) -> Any:
    """What `module:name` names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def load_plugins(group: str, kind: str) -> None:
    """Import what installed packages have in a group of entry points."""
    for entry in metadata.entry_points(group=group):
        try:
            entry.load()
        except Exception as error:  # whatever is wrong with it, the others are worth having
            warnings.warn(f"{kind} package {entry.value} is left out: {error}", stacklevel=2)
