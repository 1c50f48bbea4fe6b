"""Derived columns: in time that grows with their episodes, on read-only data, and through links."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from otflam import cli
from otflam.core.errors import UserError
from otflam.data.clips import Clips
from otflam.data.derived import ELSEWHERE, derive, derived_roots, known_rows
from otflam.data.store import Column, Store, summarise
from otflam.data.writing import StoreWriter
from otflam.report.runs import find_stores

COLUMN = Column("uint8", (2,))
FRAMES = Column("uint8", (8, 8, 3))


def write(path: Path, lengths: list[int], shape: Column = COLUMN) -> Store:
    writer = StoreWriter(path, {"frames": shape}, {})
    for index, length in enumerate(lengths):
        writer.append(index, {"frames": np.full((length, *shape.shape), index, np.uint8)}, {})
    return writer.finish({"kind": "test"}, len(lengths))


def twin(store: Store, model: str = "model") -> Store:
    return derive(store, "twin", model, store.columns["frames"], lambda index: np.array(store.episode(index, "frames")))


def test_time_grows_with_the_episodes_not_with_their_square(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in lines of the journal that are read, and in episodes that are looked through."""
    counts = {}
    read = StoreWriter._entry

    def spy(self: StoreWriter, line: bytes, where: str) -> dict | None:
        counts[size] += 1
        return read(self, line, where)

    monkeypatch.setattr(StoreWriter, "_entry", spy)
    for size in (20, 80):
        counts[size] = 0
        store = write(tmp_path / f"data{size}", [2] * size)
        counts[size] = 0
        found = twin(store)
        assert found.places is found.places  # or every clip would look through all episodes
    assert counts[80] < 5 * counts[20] and counts[80] < 5 * 80


@pytest.fixture
def read_only(tmp_path: Path) -> list[str]:
    """The start of a command that sees tmp_path/ro as a read-only mount, which binds even the superuser."""
    folder = tmp_path / "ro"
    folder.mkdir()
    mount = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"
    start = ["unshare", "--map-root-user", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*start, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets no user mount anything")
    return start


PROGRAM = """
import os, sys
from pathlib import Path
import numpy as np
from otflam import cli
from otflam.core.run import Run
from otflam.data.derived import derive
from otflam.data.store import Store
root, elsewhere = Path(sys.argv[1]), sys.argv[2]
store = Store(root / "data")
copy = lambda index: np.array(store.episode(index, "frames"))
try:
    (root / "data" / "x").touch()
except OSError as error:
    print(error.strerror)
print(derive(store, "twin", "model", store.columns["frames"], lambda index: 1 / 0).path)
try:
    derive(store, "twin", "other", store.columns["frames"], copy)
except Exception as error:
    print(type(error).__name__, error)
os.environ["OTFLAM_DERIVED"] = elsewhere
print(derive(store, "twin", "model", store.columns["frames"], lambda index: 1 / 0).path)
print(derive(store, "twin", "other", store.columns["frames"], copy).path)
print(Run(root / "run", {"a": 1}).finished)
cli.main(["data", "info", str(root / "data")])
cli.main(["data", "check", str(root / "data")])
"""


def test_read_only_data_are_of_use(tmp_path: Path, read_only: list[str]) -> None:
    root, elsewhere = tmp_path / "ro", tmp_path / "elsewhere"
    store = write(root / "data", [3, 2], FRAMES)
    beside = twin(store)
    (beside.path / ".lock").touch()  # left by a writer that was killed while finishing
    (root / "run").mkdir()
    (root / "run" / "config.json").write_text('{"a": 1}')
    (root / "run" / "model.safetensors").touch()
    command = [*read_only, sys.executable, "-c", PROGRAM, str(root), str(elsewhere)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["Read-only file system", str(beside.path)]
    assert lines[2].startswith("UserError ") and lines[2].endswith(f"set {ELSEWHERE} to a folder for derived columns")
    assert lines[3] == str(beside.path) and lines[4].startswith(f"{elsewhere}/data.derived/twin-")
    assert lines[5] == "True" and "--sheet FILE" in done.stdout
    assert lines[-1] == "2 derived columns: all checksums match"


def test_columns_elsewhere_are_found_and_those_beside_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = write(tmp_path / "data", [3, 2])
    beside = twin(store)
    monkeypatch.setenv(ELSEWHERE, str(tmp_path / "elsewhere"))
    assert twin(store).path == beside.path
    other = twin(store, "other")
    assert other.path.parent == tmp_path / "elsewhere" / "data.derived" == derived_roots(store)[0]
    assert set(known_rows(store, "twin", "other")) == {0, 1}
    monkeypatch.delenv(ELSEWHERE)
    assert known_rows(store, "twin", "other") == {}


def test_links_lead_to_the_columns_of_their_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = write(tmp_path / "far" / "data", [3, 2], FRAMES)
    (tmp_path / "link").symlink_to(store.path)
    old = twin(store)
    assert twin(Store(tmp_path / "link")).path.resolve() == old.path
    assert twin(Store(tmp_path / "link"), "new").path == twin(store, "new").path
    monkeypatch.chdir(store.path)
    assert twin(Store(".")).path == old.path
    cli.main(["data", "info", str(tmp_path / "link")])
    assert (store.path / "sheet.png").exists()
    clips = Clips(Store(tmp_path / "link"), (0,), derived={"twin": old})
    assert len(clips) == 5
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mine").symlink_to(store.path)
    assert [found.hash for found in find_stores(tmp_path / "runs")] == [store.hash]


def test_columns_beside_a_link_of_earlier_versions_are_read(tmp_path: Path) -> None:
    store = write(tmp_path / "far" / "data", [3, 2])
    (tmp_path / "link").symlink_to(store.path)
    old = twin(store)
    shutil.move(old.path.parent, tmp_path / "link.derived")
    assert twin(Store(tmp_path / "link")).path == tmp_path / "link.derived" / old.path.name


def test_info_tells_names_and_labels(tmp_path: Path) -> None:
    columns = {"frames": FRAMES, "actions": Column("float32", (2,)), "action_mask": Column("bool", ())}
    writer = StoreWriter(tmp_path / "data", columns, {}, slot=9)  # with gaps, which are no frames
    for index, known in enumerate([2, 0, 5]):
        rows = {name: np.zeros((7, *column.shape), column.dtype) for name, column in columns.items()}
        rows["action_mask"][:known] = True
        writer.write(index, rows, {})
    told = summarise(writer.finish({"action_names": ["steer", "gas"]}, 3))
    assert (
        told["actions"] == "steer, gas; 7 of 21 frames are labelled, in 2 episodes" and "21 in all" in told["episodes"]
    )
    writer = StoreWriter(tmp_path / "other", {name: columns[name] for name in ("frames", "actions")}, {})
    writer.append(0, {name: np.zeros((4, *columns[name].shape), columns[name].dtype) for name in writer.columns}, {})
    assert summarise(writer.finish({}, 1))["actions"] == "2 without names; 4 of 4 frames are labelled, in 1 episodes"


def test_an_unfinished_column_on_a_full_disk(tmp_path: Path) -> None:
    """The first file of a store is as clear about it as its rows."""
    program = f"""
import resource, signal
from otflam.data.store import Column
from otflam.data.writing import StoreWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    StoreWriter({str(tmp_path / "data")!r}, {{"x": Column("uint8", ())}}, {{}}, lock=True)
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("UserError no space left for")
    with pytest.raises(UserError, match=r"meta.json does not exist"):
        Store(tmp_path / "data")
