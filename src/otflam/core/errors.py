"""Errors that a user can act on: one line that names the culprit and the cure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user gave us cannot be used. The command line prints it as one line, without a traceback."""

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(f"{problem}: {cure}")
        self.problem, self.cure = problem, cure

    def __reduce__(self) -> tuple:
        return type(self), (self.problem, self.cure)  # so that a worker process can hand it to its parent


class BusyError(UserError):
    """Another process holds what this one wants to write."""


def first_line(error: Exception) -> str:
    """What an error says, or its kind if it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not in a registry, with the nearest names that are."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    cure = f"did you mean {' or '.join(map(repr, near))}?" if near else f"choose one of {', '.join(names)}"
    return UserError(f"unknown {kind} {name!r}", cure)


def require_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return `name` if it is known, else raise the error that suggests the nearest ones."""
    names = list(known)
    if name not in names:
        raise unknown_name(kind, name, names)
    return name
