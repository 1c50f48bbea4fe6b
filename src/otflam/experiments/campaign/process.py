"""Commands in processes of their own, forked from one that has everything loaded: they start in milliseconds.

A child may be given when to die: after some seconds, at its n-th operation on a file, or once a file has some lines.
How it ended is judged at the end of this file.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import pkgutil
import re
import resource
import runpy
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from otflam.core import STOPPING, missing_extra

POLL_SECONDS = 0.002
MEMORY_BYTES = 6 << 30
"""Address space that a command may take beyond what it starts with: a memory bomb must not hurt the machine."""
MAX_FILE_BYTES = 1 << 30
"""Bytes of the largest file that a command may write."""
PR_SET_PDEATHSIG = 1
EVENTS = ("open", "os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir")
"""Audit events of Python that can change what lies on a disk; an `open` counts if it is for writing."""
PASSED = {
    "refused": "one line that names the file, exit code 2, nothing touched",
    "same": "the result is that of the intact file, to the bit",
    "told": "another result, and a line that names the file",
    "other": "another result where nobody can tell: a format without a checksum, or a forged one",
}
FAILED = {
    "silent": "another result without a word",
    "unexpected": "`unexpected … (this is a bug)`",
    "hang": "no end within ten times the usual time, and at least 20 seconds",
    "crash": "a traceback, a signal, or an exit code that is not ours",
    "unnamed": "refused, but the line does not name the file or its folder, or there is not exactly one",
    "harm": "a file that was there before was changed or lost",
}
MESSAGE_CHARACTERS = 240
"""Characters of a message that are kept."""
NOTICE = re.compile(r"skipped|left out|damaged|altered|missing|warning")


@dataclass(frozen=True)
class Death:
    """When a command is to be stopped from outside, at one of these moments."""

    signal: int = signal.SIGKILL
    after: float | None = None
    """Seconds."""
    event: int | None = None
    """Just before this operation on a file, counted from 0."""
    lines: tuple[str, int] | None = None
    """At the first operation on a file at which one that matches a pattern has so many lines."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | None
    """Exit code; negative: killed by this signal; None: the time was up."""
    stdout: str
    """What it wrote to the standard output."""
    stderr: str
    """What it wrote to the standard error."""
    seconds: float
    events: int = 0
    """Operations on files, where they were counted."""

    @property
    def errors(self) -> list[str]:
        """The lines by which our command line ends."""
        return [line for line in self.stderr.splitlines() if line.startswith("otflam: ")]


def preload() -> None:
    """Import all of the package, so that forked children need not."""
    import torch
    import torch.utils.tensorboard

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages([str(Path(__file__).parents[2])], "otflam."):
        if not module.name.endswith("__main__"):
            import_if_there(module.name)
    import_if_there("h5py")


def import_if_there(name: str) -> None:
    """Import a module, unless a package of an extra is missing: what needs that has no samples then."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if missing_extra(error) is None:
            raise


def run_command(
    words: Sequence[str], folder: Path, limit: float, death: Death | None = None, count: bool = False
) -> Ended:
    """Run one command of ours in a folder, to its end, its death or its time limit; `count` its operations on files."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as counted:
        began = time.monotonic()
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)  # until the child can die of them without a word
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
        else:
            _become(words, folder, [out.fileno(), err.fileno()], death, counted.fileno() if count else None)
        code = _wait(pid, began, limit, death)
        seconds = time.monotonic() - began
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what it started dies with it
        texts = [os.pread(file.fileno(), 1 << 20, 0).decode(errors="replace") for file in (out, err, counted)]
    return Ended(code, texts[0], texts[1], seconds, len(texts[2]))


def _wait(pid: int, began: float, limit: float, death: Death | None) -> int | None:
    """Wait for a child, and send it the signal of its death when that is due."""
    due = None if death is None or death.after is None else began + death.after
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        now = time.monotonic()
        if due is not None and death is not None and now >= due:
            due = None
            with contextlib.suppress(ProcessLookupError, PermissionError):
                # A killed machine takes all processes at once; a polite signal goes to the one that was asked to end.
                (os.killpg if death.signal == signal.SIGKILL else os.kill)(pid, death.signal)
        if now > began + limit:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(POLL_SECONDS)


def _become(words: Sequence[str], folder: Path, files: list[int], death: Death | None, counter: int | None) -> NoReturn:
    """In the child: run the program as `python -m otflam` would, and never come back."""
    code = 1
    try:
        for number in STOPPING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        _limit()
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for target, file in enumerate(files, start=1):
            os.dup2(file, target)
        sys.stdout, sys.stderr = (open(target, "w", closefd=False) for target in (1, 2))  # noqa: SIM115
        sys.argv = ["otflam", *words]
        if counter is not None or (death is not None and death.after is None):
            sys.addaudithook(_hook(death or Death(), counter))
        signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on as any program of Python's
        runpy.run_module("otflam", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _limit() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for kind, most in (
        (resource.RLIMIT_AS, used + MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _hook(death: Death, counter: int | None) -> Callable[[str, tuple[Any, ...]], None]:
    """Hears of every operation on a file before it is done, counts it, and dies when it is time."""
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    seen, busy = 0, False

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen, busy
        if busy or event not in EVENTS or (event == "open" and not (arguments[2] or 0) & writing):
            return
        busy = True  # looking at the file below is an event too
        if counter is not None:
            os.write(counter, b".")
        if death.event == seen or (death.lines is not None and has_lines(*death.lines)):
            os.kill(os.getpid(), death.signal)
        seen += 1
        busy = False

    return hear


def has_lines(pattern: str, count: int) -> bool:
    """Whether a text file has so many lines that are not empty."""
    return any(
        sum(map(bool, map(bytes.strip, file.read_bytes().splitlines()))) >= count for file in Path().glob(pattern)
    )


@dataclass(frozen=True)
class Verdict:
    """How one case ended."""

    case: str
    group: str
    """What was damaged or killed."""
    outcome: str
    about: str
    """What was done, to which file, and which command followed."""
    message: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome in FAILED


def stopped_badly(ended: Ended, death: Death) -> str | None:
    """A command that is stopped may die, say so in one line, or have ended before; nothing else."""
    if ended.code is None:
        return "hang"
    if any(line.startswith("otflam: unexpected ") for line in ended.errors):
        return "unexpected"
    polite = ended.code in (130, 128 + death.signal) and len(ended.errors) == 1
    if (ended.code not in (0, -death.signal) and not polite) or "Traceback" in ended.stderr:
        return "crash"
    return None


def harmed(before: dict[str, str], after: dict[str, str], allowed: tuple[str, ...]) -> list[str]:
    """Files that were there before and are not, or are others."""
    changed = [name for name, digest in before.items() if after.get(name) != digest]
    return [name for name in changed if not any(name == root or name.startswith(f"{root}/") for root in allowed)]


def judge(ended: Ended, file: str, same: bool, lost: list[str]) -> tuple[str, str]:
    """The outcome of a command that read a damaged file, and the line that tells it."""
    message = last_line(ended)
    if ended.code is None:
        return "hang", message
    if any(line.startswith("otflam: unexpected ") for line in ended.errors):
        return "unexpected", message
    if "Traceback" in ended.stderr or ended.code not in (0, 2):
        return "crash", message or f"ended with {ended.code}"
    if lost:
        return "harm", f"{', '.join(lost[:3])} changed or lost; {message}"
    if ended.code == 2:
        named = len(ended.errors) == 1 and names(ended.errors[0], file)
        return ("refused" if named else "unnamed"), message
    if same:
        return "same", ""
    notice = next((line for line in (ended.stderr + ended.stdout).splitlines() if notices(line, file)), None)
    return ("silent", message) if notice is None else ("told", notice)


def notices(line: str, file: str) -> bool:
    """Whether a line beside the results says that something is wrong with a file."""
    return NOTICE.search(line) is not None and names(line.partition(": ")[2] or line, file)


def names(text: str, file: str) -> bool:
    """Whether a text names a file, its folder or what it is of."""
    path = Path(file)
    known = {file, path.name, path.stem, *(str(parent) for parent in path.parents if str(parent) != ".")}
    return any(name in text for name in known)


def last_line(ended: Ended) -> str:
    lines = ended.errors or ended.stderr.splitlines()
    return lines[-1][:MESSAGE_CHARACTERS] if lines else ""
