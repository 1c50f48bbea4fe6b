"""Joined stores and columns in use: moved, exported, drawn from, and what becomes of them when a part goes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from otflam import cli
from otflam.core.errors import UserError
from otflam.core.pool import Launcher
from otflam.data.collect import collect_shards
from otflam.data.derived import ELSEWHERE, derive, derived_folder, describe_rows
from otflam.data.formats.laom.trajectories import export_laom
from otflam.data.joining import cut, join_stores
from otflam.data.options import Collection
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter
from otflam.envs.world import World
from otflam.report.runs import find_stores

COLUMNS = {"frames": Column("uint8", (4, 4, 3)), "actions": Column("float32", (2,)), "states": Column("float32", (3,))}
TWIN = Column("uint8", (4, 4, 3))


def write(path: Path, episodes: int, first: int) -> Store:
    writer = StoreWriter(path, COLUMNS, {})
    for index in range(episodes):
        rng = np.random.default_rng(first + index)
        frames = rng.integers(0, 256, (6, 4, 4, 3), np.uint8)
        numbers = {name: rng.standard_normal((6, *COLUMNS[name].shape), np.float32) for name in ("actions", "states")}
        writer.append(index, {"frames": frames, **numbers}, {"seed": first + index})
    return writer.finish({"kind": "test"}, episodes)


def join(path: Path, *episodes: int) -> Store:
    stores = [write(path / f"shard-{n:03}", count, sum(episodes[:n])) for n, count in enumerate(episodes)]
    return join_stores(path, [(store, place) for store in stores for place in range(len(store))], {}, {"kind": "test"})


def twin(store: Store, episodes: list[int] | None = None, asked: list[int] | None = None) -> Store:
    """A derived column that is the frames again; `asked` hears which episodes are computed."""

    def compute(index: int) -> np.ndarray:
        asked.append(index) if asked is not None else None
        return np.array(store.episode(index, "frames"))

    return derive(store, "twin", "model", TWIN, compute, episodes=episodes)


def assert_twin(column: Store, store: Store) -> None:
    column.check()
    for place, episode in enumerate(column.episodes):
        np.testing.assert_array_equal(column.episode(place, "twin"), store.episode(episode["episode"], "frames"))


@pytest.mark.parametrize(("episodes", "shards"), [(1, 1), (3, 2), (5, 5), (7, 3), (1000, 7)])
def test_episodes_are_cut_evenly(episodes: int, shards: int) -> None:
    parts = cut(range(episodes), shards)
    assert [index for part in parts for index in part] == list(range(episodes)) and len(parts) == shards
    assert {len(part) for part in parts} <= {episodes // shards, -(-episodes // shards)}


def test_only_equal_columns_are_joined(tmp_path: Path) -> None:
    store = write(tmp_path / "data", 2, 0)
    with pytest.raises(UserError, match=r"twin-.* has other columns than .*data: join what was made by the same comm"):
        join_stores(tmp_path / "both", [(store, 0), (twin(store), 0)], {}, {})


def test_a_store_of_shards_moves_with_what_was_derived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made under a relative path, moved, copied, and reached by a link."""
    monkeypatch.chdir(tmp_path)
    store = join(Path("data"), 2, 1)
    twin(store, [0]), twin(store, [1, 2])
    assert len(twin(store).shards) == 2
    Path("away").mkdir()
    for name in ("data", "data.derived"):
        shutil.move(name, f"away/{name}")
    shutil.copytree("away", "copy")
    Path("link").symlink_to("away/data")
    for path in ("away/data", "copy/data", "link"):
        cli.main(["data", "check", path])
        asked: list[int] = []
        assert_twin(twin(Store(path), None, asked), Store(path))
        assert asked == []


def test_a_store_of_shards_is_exported_like_a_whole_one(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs otflam[hdf5]")
    files = []
    for name, store in (("a", join(tmp_path / "a", 2, 1)), ("b", write(tmp_path / "b", 3, 0))):
        export_laom(store, tmp_path / f"{name}.hdf5")
        with h5py.File(tmp_path / f"{name}.hdf5") as file:
            found = {f"{index} {key}": np.array(file[index][key]) for index in file for key in file[index]}
        files.append(found)
    assert files[0].keys() == files[1].keys() and len(files[0]) == 9
    assert all(np.array_equal(files[0][key], files[1][key]) for key in files[0])


def test_the_report_shows_the_whole_and_not_its_shards(tmp_path: Path) -> None:
    store = join(tmp_path / "runs" / "data", 2, 1)
    twin(store, [0]), twin(store)
    assert [found.path for found in find_stores(tmp_path / "runs")] == [store.path]
    assert len(find_stores(store.path / "shard-000")) == 1


def test_columns_are_joined_when_all_parts_are_there(tmp_path: Path) -> None:
    store, asked = write(tmp_path / "data", 5, 0), []
    parts = [twin(store, [0, 1], asked), twin(store, [3, 4], asked)]
    whole = twin(store, None, asked)  # one is missing: it is computed, and the others' rows are copied
    assert asked == [0, 1, 3, 4, 2] and len(whole.shards) == 1 and whole.shards[0].folder == whole.path
    shutil.rmtree(whole.path)
    parts.append(twin(store, [2], asked))
    few, joined = twin(store, [1, 2], asked), twin(store, None, asked)
    assert asked == [0, 1, 3, 4, 2, 2]
    assert {shard.folder.resolve() for shard in joined.shards} == {part.path.resolve() for part in parts}
    assert joined.hash == whole.hash and not list(joined.path.glob(".lock"))
    assert "in 3 shards" in describe_rows(store, joined) and "of 2 of 5 episodes" in describe_rows(store, few)
    for column in (joined, few):
        assert_twin(column, store)
    shutil.rmtree(parts[0].path)
    with pytest.raises(UserError, match=rf"lacks its shard .*: restore it, or delete {tmp_path}.* and make it again"):
        twin(store)
    for column in (joined, few):
        shutil.rmtree(column.path)
    assert_twin(twin(store), store)


def test_what_one_process_began_it_finishes(tmp_path: Path) -> None:
    """A column that was begun whole is gone on with, though its parts are there now."""
    store, asked = write(tmp_path / "data", 3, 0), []

    def stop(index: int) -> np.ndarray:
        raise KeyboardInterrupt if index else UserError("x", "y")

    with pytest.raises(UserError, match="x"):
        derive(store, "twin", "model", TWIN, stop)
    for part in ([0, 1], [2]):
        twin(store, part)
    whole = twin(store, None, asked)
    assert asked == [] and len(whole.shards) == 1 and "row i belongs to row i" in describe_rows(store, whole)
    assert_twin(whole, store)


def test_nothing_is_joined_across_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies beside the data may go without what OTFLAM_DERIVED names, and the other way round."""
    store, asked = write(tmp_path / "data", 3, 0), []
    twin(store, [0, 1])
    monkeypatch.setenv(ELSEWHERE, str(tmp_path / "elsewhere"))
    twin(store, [2])
    whole = twin(store, None, asked)
    assert asked == [] and whole.path.parent == tmp_path / "elsewhere" / "data.derived" and len(whole.shards) == 1
    shutil.rmtree(tmp_path / "data.derived")
    assert_twin(twin(store), store)


def test_rows_of_a_store_of_one_shard_are_named(tmp_path: Path) -> None:
    store = join(tmp_path / "data", 3)
    column = twin(store)
    assert describe_rows(store, column).endswith(str(tmp_path / "data" / "shard-000" / "frames.npy"))


def test_a_join_waits_for_another_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds the folder of the whole column goes first; what it makes is taken."""
    store = write(tmp_path / "data", 2, 0)
    twin(store, [0]), twin(store, [1])
    folder = derived_folder(store, "twin", "model")
    folder.mkdir()
    if (child := os.fork()) == 0:  # locks bind other processes only
        held = StoreWriter(folder, {"twin": TWIN}, {"data": store.hash, "model": "model"}, lock=True)
        (tmp_path / "held").touch()
        while not (tmp_path / "waited").exists():
            pass
        for index in range(2):
            rows = np.array(store.episode(index, "frames"))
            held.write(index, {"twin": rows}, {"episode": index}, int(store.starts[index]))
        held.finish({"kind": "derived"}, 2)
        os._exit(0)
    while not (tmp_path / "held").exists():
        pass
    monkeypatch.setattr("otflam.data.derived.time.sleep", lambda seconds: (tmp_path / "waited").touch())
    column = twin(store)
    assert os.waitpid(child, 0)[1] == 0 and len(column.shards) == 1
    assert_twin(column, store)


def test_a_number_of_shards_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shards, message in (("6", "--shards 6 of 5 episodes: give 1 to 5"), ("0", "--shards 0: give at least 1")):
        with pytest.raises(SystemExit):
            cli.main(["collect", "cheetah-run", "--episodes", "5", "--out", str(tmp_path / "data"), "--shards", shards])
        assert message in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_where_no_job_can_be_sent_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit", reason="needs otflam[slurm]")
    plan = Collection(World("cheetah-run", size=24), episodes=2, steps=4)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="no SLURM here"):
        collect_shards(plan, tmp_path / "data", 2, Launcher(2, "slurm", logs=tmp_path / "jobs"))
    assert not list((tmp_path / "data").iterdir())
