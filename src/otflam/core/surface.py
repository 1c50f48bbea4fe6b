"""What is named by a string until it is first used: the names of a stage, models and worlds, and installed packages.

What a stage offers is in the `__init__.pyi` of its package. Other stages and users import from the package, so that
files inside it can be split, joined and renamed at will. Names are lazy, so that help needs no torch; the stub tells
them to type checkers too.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, TypeVar

from otflam.core.errors import UserError
from otflam.core.extras import missing_extra

T = TypeVar("T")


def surface(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package, from the stub beside its `__init__.py`."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    places = {alias.name: str(node.module) for node in imports for alias in node.names}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_name(f"{places[name]}:{name}")

    return get, lambda: sorted(places), sorted(places)


def import_name(place: str) -> Any:
    """What `module:name` names."""
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None


def register(registry: dict[str, T], name: str, item: T, kind: str) -> T:
    """Make something known by its name; the same may be registered again."""
    if registry.setdefault(name, item) != item:
        raise UserError(f"there is a {kind} {name} already", "give it another name")
    return item


def load_plugins(group: str, kind: str) -> None:
    """Import what installed packages have in a group of entry points."""
    for entry in metadata.entry_points(group=group):
        try:
            entry.load()
        except Exception as error:  # whatever is wrong with it, the others are worth having
            warnings.warn(f"{kind} package {entry.value} is left out: {error}", stacklevel=2)
