"""When a process may be interrupted."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Generator
from typing import Any

STOPPING = (signal.SIGINT, signal.SIGTERM)


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def interrupted_later() -> Generator[None]:
    """Hold Ctrl-C and SIGTERM back until the end: where C calls Python back, what they raise would be lost."""
    if not in_main_thread():  # signals are never heard there
        yield
        return
    heard: list[int] = []

    def remember(number: int, frame: Any) -> None:
        heard.append(number)

    handlers = {number: signal.signal(number, remember) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if heard:
            signal.raise_signal(heard[0])
