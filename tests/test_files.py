"""Files appear whole or not at all, whoever else writes, and wherever a link points."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from otflam.core.errors import UserError
from otflam.core.files import STALE_SECONDS, find_files, read_json, replacing, write_json, write_text


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_writers_with_one_process_number_do_not_meet(tmp_path: Path) -> None:
    """As two containers on one disk: a name made of the process number would be the same file."""
    with replacing(tmp_path / "a.txt") as first, replacing(tmp_path / "a.txt") as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert (tmp_path / "a.txt").read_text() == "first" and names(tmp_path) == ["a.txt"]


def test_many_writers_and_readers_never_see_half_a_file(tmp_path: Path) -> None:
    file, texts = tmp_path / "a.txt", [letter * 50_000 for letter in "abcd"]
    write_text(file, texts[0])

    def write(text: str) -> None:
        for _ in range(10):
            write_text(file, text)

    writers = [threading.Thread(target=write, args=[text]) for text in texts]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert file.read_text() in texts
    assert names(tmp_path) == ["a.txt"]


def test_a_temporary_file_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's file of that name, or a link planted there, is not written through."""
    monkeypatch.setattr("secrets.token_hex", lambda count: "00" * count)
    (tmp_path / ".a.txt.0000000000000000.tmp").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "a.txt", "text")
    assert names(tmp_path) == [".a.txt.0000000000000000.tmp"]


def test_the_folder_is_flushed_after_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed, flush = [], os.fsync

    def spy(file: int) -> None:
        flushed.append((stat.S_ISDIR(os.fstat(file).st_mode), (tmp_path / "a.txt").exists()))
        flush(file)

    monkeypatch.setattr(os, "fsync", spy)
    write_text(tmp_path / "a.txt", "text")
    assert flushed == [(False, False), (True, True)]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_umask_is_respected(tmp_path: Path, mask: int, mode: int) -> None:
    """Also by safetensors, which replaces the file by one that only its owner can read."""
    before = os.umask(mask)
    try:
        write_text(tmp_path / "a.txt", "text")
        with replacing(tmp_path / "a.safetensors") as temporary:
            save_file({"a": torch.zeros(2)}, temporary)
    finally:
        os.umask(before)
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names(tmp_path)} == {mode}


def test_links_stay_and_their_files_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    for target in ("far/a.txt", "far/new.txt"):  # the second is not there yet
        (tmp_path / "link.txt").unlink(missing_ok=True)
        (tmp_path / "link.txt").symlink_to(target)
        write_text(tmp_path / "link.txt", target)
        assert (tmp_path / "link.txt").is_symlink() and (tmp_path / target).read_text() == target
    assert names(tmp_path / "far") == ["a.txt", "new.txt"] and names(tmp_path) == ["far", "link.txt"]


def test_left_overs_of_dead_writers_are_swept_and_living_ones_kept(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from otflam.core.files import replacing
with replacing(Path({str(tmp_path / "a.txt")!r})) as temporary:
    temporary.write_text("half")
    print("ready", flush=True)
    signal.pause()
"""
    writers = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(2)]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
    long_ago = time.time() - 2 * STALE_SECONDS
    for left in (*tmp_path.iterdir(), tmp_path / ".a.txt.4711.tmp", tmp_path / ".b.txt.4711.tmp", tmp_path / ".c.tmp"):
        left.touch()
        os.utime(left, (long_ago, long_ago))
    (tmp_path / ".a.txt.4712.tmp").touch()  # of an earlier version, perhaps alive
    writers[0].kill()
    writers[0].communicate()
    write_text(tmp_path / "a.txt", "whole")
    left = set(names(tmp_path)) - {"a.txt", ".a.txt.4712.tmp", ".b.txt.4711.tmp", ".c.tmp"}
    writers[1].kill()
    writers[1].communicate()
    assert len(left) == 1, left  # the living one's
    os.utime(tmp_path / left.pop(), (long_ago, long_ago))
    write_text(tmp_path / "a.txt", "again")
    assert names(tmp_path) == [".a.txt.4712.tmp", ".b.txt.4711.tmp", ".c.tmp", "a.txt"]


def test_a_full_disk_is_one_line_whoever_writes(tmp_path: Path) -> None:
    """A limit on the size of files is the full disk that an ordinary user can make."""
    (tmp_path / "a").write_text("before")
    program = f"""
import resource, signal
from pathlib import Path
import h5py, numpy, torch
from safetensors.torch import save_file
from otflam.core.files import replacing

def write_hdf5(file):
    with h5py.File(file, "w", locking=False) as root:
        root.create_dataset("a", data=numpy.ones(90_000))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for write in (
    lambda file: file.write_bytes(bytes(60_000)),
    lambda file: torch.save({{"a": torch.zeros(90_000)}}, file),
    lambda file: save_file({{"a": torch.zeros(90_000)}}, file),
    write_hdf5,
):
    try:
        with replacing(Path({str(tmp_path / "a")!r})) as temporary:
            write(temporary)
    except Exception as error:
        print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    told = done.stdout.splitlines()
    assert len(told) == 4 and all(line.startswith(f"UserError no space left for {tmp_path / 'a'} (") for line in told)
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_text() == "before"


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a"):
        _ = 1 / 0
    with pytest.raises(OSError, match="no such device") as caught, replacing(tmp_path / "a"):
        raise OSError(errno.ENODEV, "no such device")
    assert caught.value.errno == errno.ENODEV and names(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b'{"a": [1, {"b": NaN}]}', r"a\.1\.b is NaN, not a finite number"),
        (b'{"a": 1e999}', "a is 1e999, not a finite number"),
        (b"-Infinity", "the value is -Infinity"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"a": "\xff"}', "codec can't decode"),
        (b"{", "Expecting property name"),
    ],
)
def test_broken_json_is_one_line(tmp_path: Path, text: bytes, told: str) -> None:
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(UserError, match=rf"a\.json is not readable JSON \(.*{told}.*\): cure$"):
        read_json(tmp_path / "a.json", "cure")


def test_json_round_trip(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, -0.0, 1e300, None, True], "b": {"ü": "x"}}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json", "cure") == value == json.loads((tmp_path / "a.json").read_text())


def test_files_are_found_through_links_and_once(tmp_path: Path) -> None:
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "far" / "deep" / "meta.json").touch()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "loop").symlink_to(tmp_path / "here")
    assert find_files(tmp_path / "here", "meta.json") == [tmp_path / "here" / "link" / "deep" / "meta.json"]
    assert len(find_files(tmp_path, "meta.json")) == 1
