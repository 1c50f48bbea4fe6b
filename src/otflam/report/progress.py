"""Progress on the terminal: a bar with speed and time left, or plain lines where there is no terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from otflam.core import Progress, is_main_process

LINE_SECONDS = 10.0
"""Seconds between two plain lines."""
FIRST_SECONDS = 1.0
"""Seconds after which somebody who waits is told that something happens."""

MEGABYTE = 10**6

_shown = [0.0]
"""When something was last shown."""
_working: list[ProgressBar] = []
"""What is being worked off, the latest last."""


def say(text: str) -> None:
    """Print a line of result."""
    _shown[0] = time.monotonic()
    print(text, flush=True)


def hint(text: str) -> None:
    """Print a line that is no result."""
    _shown[0] = time.monotonic()
    print(text, file=sys.stderr, flush=True)


@contextmanager
def speaking(name: str) -> Generator[None]:
    """While this lasts, nobody waits long without a line, whatever is being loaded, computed or drawn."""
    done = threading.Event()
    began = _shown[0] = time.monotonic()

    def speak() -> None:
        wait = FIRST_SECONDS
        while not done.wait(0.2):
            if time.monotonic() - _shown[0] < wait:
                continue
            elapsed = timedelta(seconds=round(time.monotonic() - began))
            if not _working or not _working[-1].tell():
                hint(f"{name}: {'starting' if wait == FIRST_SECONDS else f'working, {elapsed} so far'}")
            wait = LINE_SECONDS

    # Of the processes that train together, one speaks.
    thread = threading.Thread(target=speak, daemon=True)
    if is_main_process():
        thread.start()
    try:
        yield
    finally:
        done.set()


def tell_rate(rate: float) -> str:
    """Pieces of work in a second, or where that would be less than one, in a minute."""
    return f"{rate:,.1f}/s" if rate >= 1 else f"{60 * rate:,.1f}/min"


class Lines(Progress):
    """Prints notes as lines of result."""

    def note(self, text: str) -> None:
        say(text)


class ProgressBar(Progress):
    """One task that is worked off in units; used as a context manager around the work. Bytes are told as megabytes."""

    def __init__(self, label: str, unit: str, *, quiet: bool = False, logs: bool = True) -> None:
        self.whole, self.quiet, self.logs = label, quiet, logs
        self.rows: list[dict[str, Any]] = []
        """What was logged."""
        self._bar: Any = None
        self._done = self._first = 0
        self._began = time.monotonic()
        self.part(label, unit)

    def __enter__(self) -> ProgressBar:
        _working.append(self)
        return self

    def part(self, label: str, unit: str = "episodes") -> ProgressBar:
        self.end()
        self.label, self._total = label or self.whole, 0
        self.unit, self._size = ("MB", MEGABYTE) if unit == "bytes" else (unit, 1)
        return self

    def start(self, done: int, total: int) -> None:
        self.end()
        self._done = self._first = done
        self._total = total
        self._began = time.monotonic()
        if sys.stderr.isatty() and not self.quiet:
            from rich.console import Console  # late: only a terminal needs it
            from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeRemainingColumn

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]}"),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            done, total = self._whole_units()
            self._task = self._bar.add_task(self.label, total=total, completed=done, unit=self.unit, rate="")
            self._bar.start()

    def advance(self, count: int = 1) -> None:
        self._done += count
        if self._bar is not None:
            self._bar.update(self._task, completed=self._whole_units()[0], rate=tell_rate(self._rate()))
        elif time.monotonic() - _shown[0] > LINE_SECONDS:
            self.tell()

    def tell(self) -> bool:
        """Say how far the work has come, if it is known and no bar shows it."""
        if self._bar is not None:
            return True
        if not self._total:
            return False
        known = f", {tell_rate(self._rate())}, {self._left()} left" if self._done > self._first else ""
        done, total = self._whole_units()
        self.note(f"{done:,}/{total:,} {self.unit}{known}")
        return True

    def reach(self, done: int, total: int) -> None:
        if not self._total:
            self.start(done - 1, total)
        self.advance(done - self._done)

    def note(self, text: str) -> None:
        if self.quiet:
            return
        if self._bar is not None:
            self._bar.console.print(f"{self.label}: {text}", markup=False, highlight=False)
        else:
            hint(f"{self.label}: {text}")

    def log(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if not self.logs:
            return
        shown = {k: v for k, v in row.items() if isinstance(v, int | float)}
        if 0 < shown.get("steps_per_s", 1) < 1:
            shown["steps_per_min"] = 60 * shown.pop("steps_per_s")
        if "returns" in row:
            shown["return"] = sum(row["returns"]) / len(row["returns"])
        self.note("  ".join(f"{k} {v:,.4g}" if isinstance(v, float) else f"{k} {v:,}" for k, v in shown.items()))

    def __exit__(self, *error: object) -> None:
        self.end()
        _working.remove(self)

    def end(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _whole_units(self) -> tuple[int, int]:
        """How much of how much, in whole units, which a reader can take in."""
        return self._done // self._size, -(-self._total // self._size)

    def _rate(self) -> float:
        return (self._done - self._first) / self._size / max(time.monotonic() - self._began, 1e-9)

    def _left(self) -> str:
        rate = self._size * self._rate()
        return str(timedelta(seconds=round((self._total - self._done) / rate))) if rate else "unknown"
