"""How work gets on, told to whoever wants to hear it."""

from __future__ import annotations

from typing import Any


class Progress:
    """Hears how far some work is, part after part; this one does nothing with it."""

    def part(self, label: str, unit: str = "episodes") -> Progress:
        """What is told from now on is of the part of this name (of the whole, without one), counted in units."""
        return self

    def start(self, done: int, total: int) -> None:
        """So much of all was done before, in an earlier run."""

    def advance(self, count: int = 1) -> None:
        """So much more is done."""

    def reach(self, done: int, total: int) -> None:
        """So much of all is done, for work that counts by itself."""

    def log(self, row: dict[str, Any]) -> None:
        """A row of training metrics."""

    def note(self, text: str) -> None:
        """A line beside the progress: a warning, a skipped file."""


SILENT = Progress()
