"""What a stage offers to others: the names in the `__init__.pyi` of its package, imported when they are first used.

Other stages and users import from the package, so that files inside it can be split, joined and renamed at will. Names
are lazy, so that help needs no torch; the stub tells them to type checkers too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def surface(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package, from the stub beside its `__init__.py`."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    places = {alias.name: str(node.module) for node in imports for alias in node.names}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(places[name]), name)

    return get, lambda: sorted(places), sorted(places)
