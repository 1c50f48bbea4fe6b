"""The store: what is written is what is read, and nothing broken is read at all."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from otflam.core.errors import UserError
from otflam.data.store import HEADER, Column, Store
from otflam.data.writing import StoreWriter, finished_store

COLUMNS = {"frames": Column("uint8", (4, 4, 3)), "actions": Column("float32", (2,))}


def rows(length: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    frames = rng.integers(0, 256, (length, 4, 4, 3), np.uint8)
    return {"frames": frames, "actions": rng.standard_normal((length, 2), np.float32)}


def write(path: Path, lengths: list[int], config: dict | None = None) -> Store:
    writer = StoreWriter(path, COLUMNS, config or {"n": len(lengths)})
    for index, length in enumerate(lengths):
        writer.append(index, rows(length, index), {"seed": index})
    return writer.finish({"kind": "test"}, len(lengths))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, lengths: list[int]) -> None:
    store = write(tmp_path_factory.mktemp("store") / "data", lengths)
    assert store.lengths.tolist() == lengths
    for index, length in enumerate(lengths):
        for name, expected in rows(length, index).items():
            np.testing.assert_array_equal(store.episode(index, name), expected)
    store.check()
    assert {file.name for file in store.path.iterdir()} == {"meta.json", "frames.npy", "actions.npy"}


def test_columns_are_plain_npy_files(tmp_path: Path) -> None:
    store = write(tmp_path / "data", [3, 2])
    loaded = np.load(store.path / "frames.npy", allow_pickle=False)
    np.testing.assert_array_equal(loaded, store["frames"])


def test_slots_give_the_same_bits_in_any_order(tmp_path: Path) -> None:
    stores = []
    for name, order in {"a": [0, 1, 2], "b": [2, 0, 1]}.items():
        writer = StoreWriter(tmp_path / name, COLUMNS, {}, slot=4)
        writer.reserve(12)
        for index in order:
            writer.write(index, rows(4, index), {"seed": index})
        stores.append(writer.finish({}, 3))
    assert stores[0].hash == stores[1].hash
    for file in ("frames.npy", "actions.npy", "meta.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_short_episode_in_a_slot_leaves_a_gap_that_no_episode_sees(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "data", COLUMNS, {}, slot=5)
    writer.write(0, rows(2), {})
    writer.write(1, rows(5, 1), {})
    store = writer.finish({}, 2)
    store.check()
    assert store.rows == 10
    np.testing.assert_array_equal(store.episode(1, "frames"), rows(5, 1)["frames"])


def test_interrupted_writing_continues(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", [3, 4], {"x": 1})
    StoreWriter(tmp_path / "data", COLUMNS, {"x": 1}).append(0, rows(3, 0), {"seed": 0})
    with pytest.raises(UserError, match="not finished"):
        Store(tmp_path / "data")
    with (tmp_path / "data" / "parts.jsonl").open("a") as journal:
        journal.write('{"index": 1, "part": {"start": 3, "le')  # a writer killed in the middle of a line
    writer = StoreWriter(tmp_path / "data", COLUMNS, {"x": 1})
    assert list(writer.done()) == [0]
    writer.append(1, rows(4, 1), {"seed": 1})
    assert writer.finish({"kind": "test"}, 2).hash == whole.hash


def test_continuing_with_other_settings_names_them(tmp_path: Path) -> None:
    StoreWriter(tmp_path / "data", COLUMNS, {"x": 1, "y": 2})
    with pytest.raises(UserError, match=r"\(x differ\)"):
        StoreWriter(tmp_path / "data", COLUMNS, {"x": 3, "y": 2})


def test_damaged_episode_is_written_again(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "data", COLUMNS, {})
    writer.append(0, rows(3, 0), {})
    with (tmp_path / "data" / "frames.npy").open("r+b") as file:
        file.seek(HEADER + 7)
        file.write(b"\x00\x01")
    writer.drop_damaged()
    assert writer.done() == {}


@pytest.mark.parametrize("file", ["frames.npy", "actions.npy"])
def test_altered_byte_is_found_and_named(tmp_path: Path, file: str) -> None:
    store = write(tmp_path / "data", [3, 4])
    with (store.path / file).open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        last = stream.read(1)
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([last[0] ^ 1]))
    with pytest.raises(UserError, match=rf"{file} was altered in episode 1 \(rows 3 to 6\)"):
        Store(store.path).check()


def test_truncated_file_is_named(tmp_path: Path) -> None:
    store = write(tmp_path / "data", [3])
    with (store.path / "frames.npy").open("r+b") as stream:
        stream.truncate(HEADER + 5)
    with pytest.raises(UserError, match=r"frames.npy has 133 bytes, expected 272"):
        Store(store.path)["frames"]


def test_altered_meta_and_other_versions_are_refused(tmp_path: Path) -> None:
    store = write(tmp_path / "data", [3])
    meta = json.loads((store.path / "meta.json").read_text())
    (store.path / "meta.json").write_text(json.dumps({**meta, "kind": "other"}))
    with pytest.raises(UserError, match="altered"):
        Store(store.path)
    (store.path / "meta.json").write_text(json.dumps({**meta, "version": 99}))
    with pytest.raises(UserError, match="version 99, this otflam reads version 1"):
        Store(store.path)
    (store.path / "meta.json").write_text("{")
    with pytest.raises(UserError, match="not readable JSON"):
        Store(store.path)
    with pytest.raises(UserError, match="no data set"):
        Store(tmp_path / "nowhere")


def test_altered_header_is_named(tmp_path: Path) -> None:
    """A flipped order of axes would give other data with the same checksums."""
    store = write(tmp_path / "data", [3])
    header = (store.path / "frames.npy").read_bytes()
    (store.path / "frames.npy").write_bytes(header.replace(b"'fortran_order': False", b"'fortran_order': True "))
    with pytest.raises(UserError, match=r"frames.npy has another header"):
        Store(store.path)["frames"]
    (store.path / "frames.npy").write_bytes(b"x" + header[1:])
    with pytest.raises(UserError, match=r"frames.npy has another header"):
        Store(store.path).check()


def test_only_one_writer_and_only_complete_stores(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "data", COLUMNS, {"x": 1}, lock=True)
    program = f"""
from otflam.data.store import Column
from otflam.data.writing import StoreWriter
columns = {{"frames": Column("uint8", (4, 4, 3)), "actions": Column("float32", (2,))}}
StoreWriter({str(tmp_path / "data")!r}, columns, {{"x": 1}}, lock=True)
"""
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "another process is writing" in other.stderr
    writer.append(0, rows(3), {})
    with pytest.raises(UserError, match="has 1 episodes instead of 2"):
        writer.finish({}, 2)
    store = writer.finish({}, 1)
    assert finished_store(store.path, {"x": 2}) is None
    (store.path / "parts.jsonl").touch()  # left by a writer that was killed while finishing
    again = finished_store(store.path, {"x": 1})
    assert again is not None and again.hash == store.hash and not (store.path / "parts.jsonl").exists()


def test_a_killed_plan_does_not_block_the_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / ".plan.json.123.tmp").write_text("{")
    assert StoreWriter(tmp_path / "data", COLUMNS, {}, lock=True).done() == {}
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.tex").touch()
    with pytest.raises(UserError, match="is not empty"):
        StoreWriter(tmp_path / "own", COLUMNS, {}, lock=True)


def test_full_disk_in_the_journal_is_not_missed(tmp_path: Path) -> None:
    """Episodes are tiny here, so that the limit is met by the journal first."""
    program = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from otflam.data.store import Column
from otflam.data.writing import StoreWriter
import numpy as np
writer = StoreWriter({str(tmp_path / "data")!r}, {{"x": Column("uint8", ())}}, {{}})
resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))
for index in range(9):
    try:
        writer.append(index, {{"x": np.zeros(1, np.uint8)}}, {{}})
    except Exception as error:
        print(type(error).__name__, index, len(writer.done()))
        break
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    kind, index, finished = done.stdout.split()
    assert kind == "UserError" and index == finished and int(index) < 9


def test_non_finite_values_are_refused(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "data", COLUMNS, {})
    broken = rows(3)
    broken["actions"][1, 0] = np.nan
    with pytest.raises(UserError, match="non-finite value in column 'actions'"):
        writer.append(0, broken, {})
    assert writer.done() == {}


def test_full_disk_keeps_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = StoreWriter(tmp_path / "data", COLUMNS, {}, slot=3)
    writer.write(0, rows(3), {})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(UserError, match="no space left"):
        writer.reserve(10)
    assert list(writer.done()) == [0]


def test_full_disk_for_real(tmp_path: Path) -> None:
    """A file-size limit is the full disk that an ordinary user can make; SIGXFSZ becomes an error we can read."""
    program = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
from otflam.data.store import Column
from otflam.data.writing import StoreWriter
import numpy as np
columns = {{"frames": Column("uint8", (64, 64, 3))}}
writer = StoreWriter({str(tmp_path / "data")!r}, columns, {{}})
writer.append(0, {{"frames": np.zeros((1, 64, 64, 3), np.uint8)}}, {{}})
try:
    writer.append(1, {{"frames": np.zeros((1, 64, 64, 3), np.uint8)}}, {{}})
except Exception as error:
    print(type(error).__name__, error, sorted(writer.done()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("UserError no space left for") and done.stdout.endswith("[0]\n")
