"""Progress on the terminal: a bar with speed and time left, or plain lines where there is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Any

LINE_SECONDS = 10.0
"""Seconds between two plain lines."""


def say(text: str) -> None:
    """Print a line of result."""
    print(text, flush=True)


class Progress:
    """One task that is worked off in units; used as a context manager around the work."""

    def __init__(self, label: str, unit: str, *, quiet: bool = False) -> None:
        self.label, self.unit, self.quiet = label, unit, quiet
        self._bar: Any = None
        self._done = self._first = self._total = 0
        self._began = self._printed = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def begin(self, label: str, unit: str) -> Callable[[int, int], None]:
        """Name the next part of the work and what it is counted in; its `start` is returned."""
        self._stop()
        self.label, self.unit, self._total = label, unit, 0
        return self.start

    def later(self, label: str, unit: str) -> Callable[[int, int], None]:
        """The `start` of a part that is named only when it begins, for other parts come before it."""
        return lambda done, total: self.begin(label, unit)(done, total)

    def part(self, label: str, unit: str = "episodes") -> Callable[[int, int], None]:
        """Name the next part, one that counts by itself; its `reach` is returned."""
        self.begin(label, unit)
        return self.reach

    def start(self, done: int, total: int) -> None:
        """Say how much there is, and how much was done before (in an earlier run)."""
        self._stop()
        self._done = self._first = done
        self._total = total
        self._began = self._printed = time.monotonic()
        if sys.stderr.isatty() and not self.quiet:
            from rich.console import Console  # late: only a terminal needs it
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]}"),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task(self.label, total=total, completed=done, unit=self.unit, rate="")
            self._bar.start()

    def advance(self, count: int) -> None:
        self._done += count
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, rate=f"{self._rate():,.0f}/s")
        elif time.monotonic() - self._printed > LINE_SECONDS:
            self._printed = time.monotonic()
            self.note(f"{self._done:,}/{self._total:,} {self.unit}, {self._rate():,.1f}/s, {self._left()} left")

    def reach(self, done: int, total: int) -> None:
        """Say how far the work has come, for work that counts by itself."""
        if not self._total:
            self.start(done - 1, total)
        self.advance(done - self._done)

    def note(self, text: str) -> None:
        """A line beside the progress: a warning, a skipped file."""
        if self.quiet:
            return
        if self._bar is not None:
            self._bar.console.print(f"{self.label}: {text}", markup=False, highlight=False)
        else:
            print(f"{self.label}: {text}", file=sys.stderr, flush=True)

    def log(self, row: dict[str, Any]) -> None:
        """A row of training metrics."""
        shown = {k: v for k, v in row.items() if isinstance(v, int | float)}
        if "returns" in row:
            shown["return"] = sum(row["returns"]) / len(row["returns"])
        self.note("  ".join(f"{k} {v:,.4g}" if isinstance(v, float) else f"{k} {v:,}" for k, v in shown.items()))

    def end(self) -> None:
        """Take the bar away."""
        self._stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _rate(self) -> float:
        return (self._done - self._first) / max(time.monotonic() - self._began, 1e-9)

    def _left(self) -> str:
        rate = self._rate()
        return str(timedelta(seconds=round((self._total - self._done) / rate))) if rate else "unknown"
