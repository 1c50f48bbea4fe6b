"""Writing so that a reader sees the old file or the new one, never half of either."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from otflam.core.errors import BusyError, UserError

T = TypeVar("T")
WAIT = 2.0
"""Seconds between two looks at a folder that another process holds."""
LOCK = ".lock"
"""The file that the one process that writes a folder holds."""


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Give a temporary name beside `path`; on success it is flushed and becomes `path`, else it is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # some writers, safetensors for one, keep their files to themselves
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: Path, cure: str) -> Any:
    """Parse a JSON file; a missing or broken one is one clear line that ends in `cure`."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", cure) from None
    except (ValueError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not readable JSON ({error})", cure) from None


def lock_folder(path: Path) -> int:
    """Hold a folder for this process, or say that another one holds it; closing the returned file gives it back."""
    file = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise BusyError(f"another process is writing {path}", "wait for it, or choose another folder") from None
    return file


def patiently(work: Callable[[], T]) -> T:
    """Do what may find its folder held by another process, which is then waited for."""
    while True:
        try:
            return work()
        except BusyError:
            time.sleep(WAIT)
