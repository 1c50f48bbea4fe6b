"""Writing so that a reader sees the old file or the new one, never half of either; and digests of what was written."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from otflam.core.errors import BusyError, UserError
from otflam.core.progress import SILENT, Progress

T = TypeVar("T")
RETRY_SECONDS = 2.0
"""Seconds between two looks at a folder that another process holds."""
LOCK = ".lock"
"""The file that the one process that writes a folder holds."""
STALE_SECONDS = 600.0
"""Seconds for which nobody may have written a temporary file before it can be taken for a dead writer's."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
PROBE_BYTES = 1 << 12
"""Bytes that a disk must still take not to be full."""
BLOCK = 1 << 22


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Give a temporary file beside `path`; on success it is flushed and becomes `path`, else it is removed.

    Where `path` is a symbolic link, the file that it points to is replaced, and the link stays.
    """
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    held: int | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        held = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # where files cannot be locked nothing is swept either
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(os.fstat(held).st_mode)  # some writers, safetensors for one, keep their files to themselves
        temporary.replace(target)
        _sync_folder(target.parent)
    except Exception as error:  # libraries tell a full disk in words of their own
        if _tells_full(error) or (held is not None and _is_full(temporary)):
            raise no_space(path) from None
        raise
    finally:
        if held is not None:
            temporary.unlink(missing_ok=True)
            os.close(held)


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot
            raise
    finally:
        os.close(file)


def _sweep(path: Path) -> None:
    """Remove what killed writers of a file left beside it, but nothing that a living one writes."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.(\d+|[0-9a-f]{{16}})\.tmp")
    for left in [entry for entry in path.parent.iterdir() if ours.fullmatch(entry.name)]:
        with suppress(OSError), left.open("rb") as file:  # held by a living writer, or gone, or not ours
            if time.time() - os.fstat(file.fileno()).st_mtime > STALE_SECONDS:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()


def _tells_full(error: Exception) -> bool:
    """Whether an error is that of a full disk, as Python or as safetensors tells it."""
    number = re.search(r"\(os error (\d+)\)", str(error))
    return getattr(error, "errno", None) in DISK_FULL or (number is not None and int(number[1]) in DISK_FULL)


def _is_full(file: Path) -> bool:
    """Whether the disk takes nothing more behind the end of a file."""
    try:
        with file.open("ab") as stream:
            stream.write(bytes(PROBE_BYTES))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        return error.errno in DISK_FULL
    return False


def no_space(path: Path) -> UserError:
    """The error for a full disk."""
    folder = next((parent for parent in path.absolute().parents if parent.is_dir()), Path("/"))
    free = shutil.disk_usage(folder).free / 1e9
    return UserError(f"no space left for {path} ({free:.2f} GB free)", "free some and run the same command to continue")


@contextmanager
def disk_errors(path: Path) -> Generator[None]:
    """Turn a full disk into one clear line; what was written before stays."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise no_space(path) from None


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: Path, cure: str) -> Any:
    """Parse a JSON file; a missing or broken one is one clear line that ends in `cure`."""
    try:
        return parse_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", cure) from None
    except ValueError as error:
        raise UserError(f"{path} is not readable JSON ({error})", cure) from None


def parse_json(text: bytes) -> Any:
    """A JSON value; whatever it could not have been written with, NaN among it, is a ValueError."""
    odd: list[str] = []

    def number(text: str) -> float:
        if not math.isfinite(value := float(text)):
            odd.append(text)
        return value

    try:
        value = json.loads(text.decode("utf-8"), parse_float=number, parse_constant=number)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if odd:
        raise ValueError(f"{_odd_field(value)} is {odd[0]}, not a finite number")
    return value


def _odd_field(value: Any, name: str = "the value") -> str | None:
    """Where in a JSON value the first number lies that is not finite."""
    if isinstance(value, float):
        return None if math.isfinite(value) else name
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = (_odd_field(item, f"{name}.{key}" if name != "the value" else str(key)) for key, item in items)
    return next((field for field in found if field is not None), None)


def find_files(root: Path, name: str) -> list[Path]:
    """All files of one name under a folder, through symbolic links too; no folder is looked into twice."""
    found: list[Path] = []
    seen: set[tuple[int, int]] = set()
    for parent, folders, names in os.walk(root, followlinks=True):
        status = Path(parent).stat()
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        found += [Path(parent) / name] if name in names else []
    return sorted(found)


def lock_folder(path: Path) -> int:
    """Hold a folder for this process, or say that another one holds it; closing the returned file gives it back."""
    file = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise BusyError(f"another process is writing {path}", "wait for it, or choose another folder") from None
    return file


def clear_temporary(path: Path) -> None:
    """Remove the temporary files of killed writers from a folder that this process holds."""
    for torn in path.glob(".*.tmp"):
        torn.unlink(missing_ok=True)


def retry_busy(work: Callable[[], T]) -> T:
    """Do what may find its folder held by another process, which is then waited for."""
    while True:
        try:
            return work()
        except BusyError:
            time.sleep(RETRY_SECONDS)


def digest_file(file: Path, progress: Progress = SILENT) -> str:
    """BLAKE2 of all bytes of a file; a sample of them would not tell two recordings of one shape apart."""
    digest = hashlib.blake2b(digest_size=16)
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
            progress.advance(len(block))
    return digest.hexdigest()


def digest_files(files: Iterable[tuple[str, Path]], progress: Progress = SILENT) -> str:
    """One digest of named files in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for name, file in files:
        digest.update(os.fsencode(name) + b"\0" + bytes.fromhex(digest_file(file, progress)))
    return digest.hexdigest()
