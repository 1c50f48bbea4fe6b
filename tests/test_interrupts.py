"""Signals that come at a bad moment are heard later, and not lost."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Iterator

import pytest

from otflam.core.pool import delay_interrupts


def called_back(number: int) -> None:
    """A signal that comes while C calls Python back: ctypes prints what is raised there, and forgets it."""
    kind = ctypes.CFUNCTYPE(None)
    kind(lambda: signal.raise_signal(number))()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, heard)


def test_an_interrupt_inside_a_callback_is_heard_after_it(ctrl_c: None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), delay_interrupts():
        called_back(signal.SIGINT)
        called_back(signal.SIGINT)
        done = True
    assert done and not capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_a_task_loads_cannot_swallow_an_interrupt(ctrl_c: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo warns of dm_control's own files through such a callback."""
    from otflam.envs import simulation

    load = simulation.suite.load
    monkeypatch.setattr(simulation.suite, "load", lambda *a, **k: (called_back(signal.SIGINT), load(*a, **k))[1])
    with pytest.raises(KeyboardInterrupt):
        simulation.Simulation("cheetah-run")


def test_other_threads_are_left_alone() -> None:
    raised: list[BaseException] = []

    def enter() -> None:
        try:
            with delay_interrupts():
                pass
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert not raised
