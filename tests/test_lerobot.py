"""LeRobot folders: what is written is read again to the bit, and what is wrong with a folder is named."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from pyarrow import parquet

from otflam.core.errors import UserError
from otflam.core.progress import Progress
from otflam.data.formats.exports import png
from otflam.data.formats.format import export_data, import_data
from otflam.data.formats.lerobot import stats
from otflam.data.formats.lerobot.files import Files
from otflam.data.formats.lerobot.films import CODECS, Film
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter

SIZE, CAMERA = 24, "observation.images.main"
COLUMNS = {
    "frames": Column("uint8", (SIZE, SIZE, 3)),
    "actions": Column("float32", (2,)),
    "states": Column("float32", (1,)),
    "rewards": Column("float32", ()),
    "physics": Column("float64", (3,)),
    "action_mask": Column("bool", ()),
    "count": Column("uint16", ()),
}


def make(path: Path, lengths: tuple[int, ...] = (7, 5, 9), **facts: Any) -> Store:
    """Noise, which no codec keeps by chance."""
    writer, rng = StoreWriter(path, COLUMNS, {}), np.random.default_rng(0)
    for index, length in enumerate(lengths):
        rows = {
            name: rng.integers(0, 2 if spec.dtype == "bool" else 256, (length, *spec.shape)).astype(spec.dtype)
            if np.dtype(spec.dtype).kind in "ub"
            else rng.normal(size=(length, *spec.shape)).astype(spec.dtype)
            for name, spec in COLUMNS.items()
        }
        writer.append(index, rows, {"fps": 10.0, "tasks": [f"lift {index % 2}"]})
    return writer.finish({"action_names": ["x", "y"], **facts}, len(lengths))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return make(tmp_path_factory.mktemp("lerobot") / "data")


@pytest.fixture(scope="module")
def written(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("written") / "robot"
    export_data("lerobot", store, out)
    return out


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return shutil.copytree(written, tmp_path / "robot")


def read(folder: Path, out: Path, **options: Any) -> Store:
    found = import_data("lerobot", folder, out, lambda line: None, size=SIZE, **options)
    assert isinstance(found, Store)
    found.check()
    return found


def told(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "meta/info.json").read_text())


def alter(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize("video", ["lossless", "images"])
def test_round_trip(store: Store, tmp_path: Path, video: str) -> None:
    """Through many files and folders of them, and once more from what was read."""
    export_data("lerobot", store, tmp_path / "a", video=video, data_mb=0.001, video_mb=0.001, files_per_chunk=2)
    first = read(tmp_path / "a", tmp_path / "one")
    export_data("lerobot", first, tmp_path / "b", video=video)
    second = read(tmp_path / "b", tmp_path / "two")
    for again in (first, second):
        for name in COLUMNS:
            np.testing.assert_array_equal(again[name], store[name])
        assert again.columns == COLUMNS | {"task_index": Column("int64", ())}
        assert again.meta["action_names"] == ["x", "y"] and again.meta["tasks"] == ["lift 0", "lift 1"]
        assert [episode["tasks"] for episode in again.episodes] == [["lift 0"], ["lift 1"], ["lift 0"]]
        assert {episode["fps"] for episode in again.episodes} == {10.0}
        assert not any(episode["lossy"] for episode in again.episodes)
    assert first.hash == second.hash
    info = told(tmp_path / "b")
    assert info["codebase_version"] == "v3.0" and info["total_frames"] == 21 and info["splits"] == {"train": "0:3"}
    assert info["features"]["action"] == {"dtype": "float32", "shape": [2], "names": ["x", "y"]}
    assert info["features"]["next.reward"]["shape"] == [1] and "action_mask" not in info["features"]
    parts = sorted(
        path.relative_to(tmp_path / "a/data").as_posix() for path in (tmp_path / "a/data").rglob("*.parquet")
    )
    assert parts == ["chunk-000/file-000.parquet", "chunk-000/file-001.parquet", "chunk-001/file-000.parquet"]
    assert len(list((tmp_path / "a/videos").rglob("*.mp4"))) == (0 if video == "images" else 3)
    assert len(list((tmp_path / "b").rglob("*.parquet"))) == 3  # data, episodes, tasks
    assert not list(tmp_path.glob(".*.part"))


def test_rows_say_where_episodes_lie(written: Path) -> None:
    rows = parquet.read_table(written / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    data = parquet.read_table(written / "data/chunk-000/file-000.parquet")
    assert [row["length"] for row in rows] == [7, 5, 9] and data["index"].to_pylist() == list(range(21))
    for row, start in zip(rows, (0, 7, 12), strict=True):
        assert (row["dataset_from_index"], row["dataset_to_index"]) == (start, start + row["length"])
        assert row[f"videos/{CAMERA}/from_timestamp"] == pytest.approx(start / 10)
        assert row[f"videos/{CAMERA}/to_timestamp"] == pytest.approx((start + row["length"]) / 10)
        mine = data.slice(start, row["length"])
        assert set(mine["episode_index"].to_pylist()) == {row["episode_index"]}
        np.testing.assert_allclose(mine["timestamp"].to_numpy(), np.arange(row["length"]) / 10, rtol=1e-6)
    assert parquet.ParquetFile(written / "data/chunk-000/file-000.parquet").num_row_groups == 3  # one an episode
    tasks = parquet.read_table(written / "meta/tasks.parquet")
    assert tasks.to_pylist() == [{"task_index": 0, "task": "lift 0"}, {"task_index": 1, "task": "lift 1"}]
    assert json.loads(tasks.schema.metadata[b"pandas"])["index_columns"] == ["task"]


def test_statistics(store: Store, written: Path) -> None:
    found = json.loads((written / "meta/stats.json").read_text())
    for key, values in {"action": store["actions"], "physics": store["physics"]}.items():
        for name in ("min", "max", "mean", "std"):
            np.testing.assert_allclose(found[key][name], getattr(values, name)(0), rtol=1e-5, atol=1e-6)
        assert found[key]["count"] == [21]
    pixels = store["frames"].reshape(-1, 3) / 255
    np.testing.assert_allclose(np.squeeze(found[CAMERA]["mean"]), pixels.mean(0), rtol=1e-9)
    assert np.shape(found[CAMERA]["std"]) == (3, 1, 1)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(0, 99))
def test_statistics_of_parts_are_those_of_the_whole(lengths: list[int], seed: int) -> None:
    parts = [np.random.default_rng(seed + length).normal(length, 2, (length, 3)) for length in lengths]
    found, whole = stats.of_all([stats.of_numbers(part) for part in parts]), np.concatenate(parts)
    for name in ("min", "max", "mean", "std"):
        np.testing.assert_allclose(found[name], getattr(whole, name)(0), rtol=1e-9)
    assert found["count"] == [len(whole)]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 100), st.integers(1, 4))
def test_files_end_before_they_are_too_large(lengths: list[int], limit: int, chunk: int) -> None:
    """Each keeps to the limit unless one episode alone exceeds it, and the next one would not have fitted."""
    files, sizes = Files(limit / (1 << 20), chunk), {}
    for length in lengths:
        size = sizes.get(files.number, 0)
        if files.is_full(size, length):
            assert size + length >= limit
            files.turn()
        files.rows += length
        sizes[files.number] = sizes.get(files.number, 0) + length
        assert files.place == {"chunk_index": files.number // chunk, "file_index": files.number % chunk}
        assert sizes[files.number] < limit or sizes[files.number] == length
    assert sum(sizes.values()) == sum(lengths)


@pytest.mark.parametrize("video", ["h264", "av1"])
def test_lossy_films_are_told(tmp_path: Path, video: str) -> None:
    """They are in the right order, in every episode of a film that holds several."""
    writer = StoreWriter(tmp_path / "data", {"frames": Column("uint8", (64, 64, 3))}, {})
    for index in range(3):
        frames = np.zeros((8 + index, 64, 64, 3), np.uint8)
        frames += 20 + 20 * np.arange(8 + index, dtype=np.uint8)[:, None, None, None]
        writer.append(index, {"frames": frames}, {})
    lines: list[str] = []
    ramps = writer.finish({}, 3)
    export_data("lerobot", ramps, tmp_path / "robot", report=lines.append, video=video)
    again = import_data("lerobot", tmp_path / "robot", tmp_path / "again", lines.append)
    assert isinstance(again, Store) and np.abs(again["frames"].astype(int) - ramps["frames"]).max() <= 3
    assert "the data say no rate: 30 frames a second" in lines[0] and f"lossy films ({video})" in lines[1]
    film = told(tmp_path / "robot")["features"][CAMERA]
    assert film["info"]["video.codec"] == video and film["shape"] == [64, 64, 3]


def older(folder: Path, store: Store) -> Path:
    """The same as version 2.1 has it: files of one episode, two cameras, and names in groups."""
    features: dict[str, Any] = {
        "observation.images.top": {"dtype": "video", "shape": [SIZE, SIZE, 3]},
        "observation.images.wrist": {"dtype": "image", "shape": [SIZE, SIZE, 3]},
        "action": {"dtype": "float32", "shape": [2], "names": {"motors": ["a", "b"]}},
        "next.done": {"dtype": "bool", "shape": [1], "names": None},
        "grid": {"dtype": "int64", "shape": [2, 2], "names": None},
        "note": {"dtype": "string", "shape": [1], "names": None},
    }
    (folder / "meta").mkdir(parents=True)
    rows = [{"episode_index": index, "tasks": ["push"], "length": int(n)} for index, n in enumerate(store.lengths)]
    (folder / "meta/episodes.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "meta/tasks.jsonl").write_text('{"task_index": 0, "task": "push"}\n')
    numbers = "chunk-{episode_chunk:03d}"
    info = {"codebase_version": "v2.1", "fps": 10, "features": features, "chunks_size": 2}
    info |= {"data_path": f"data/{numbers}/episode_{{episode_index:06d}}.parquet"}
    info |= {"video_path": f"videos/{numbers}/{{video_key}}/episode_{{episode_index:06d}}.mp4"}
    (folder / "meta/info.json").write_text(json.dumps(info))
    for index, length in enumerate(store.lengths):
        frames, names = store.episode(index, "frames"), {"episode_chunk": index // 2, "episode_index": index}
        film = Film(
            folder / info["video_path"].format(video_key="observation.images.top", **names),
            CODECS["lossless"],
            (SIZE, SIZE),
            Fraction(10),
        )
        film.add(frames)
        film.close()
        grid = [[[index, t], [0, 1]] for t in range(length)]
        table = {
            "timestamp": pa.array((np.arange(length) / 10).astype(np.float32)),
            "action": pa.array(store.episode(index, "actions").tolist(), pa.list_(pa.float32())),
            "next.done": pa.array([t == length - 1 for t in range(length)]),
            "grid": pa.array(grid, pa.list_(pa.list_(pa.int64()))),
            "note": pa.array(["x"] * length),
            "observation.images.wrist": pa.array([{"bytes": png(255 - frame), "path": None} for frame in frames]),
        }
        file = folder / info["data_path"].format(**names)
        file.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table(table), file)
    return folder


def test_version_2(store: Store, tmp_path: Path) -> None:
    lines: list[str] = []
    folder = older(tmp_path / "old", store)
    both = import_data("lerobot", folder, tmp_path / "both", lines.append, size=SIZE)
    assert isinstance(both, list) and [part.path.name for part in both] == ["top", "wrist"]
    np.testing.assert_array_equal(both[0]["frames"], store["frames"])
    np.testing.assert_array_equal(both[1]["frames"], 255 - store["frames"])
    for part in both:
        np.testing.assert_array_equal(part["actions"], store["actions"])
        assert part.meta["action_names"] == ["a", "b"] and part.episode(1, "grid")[3].tolist() == [[1, 3], [0, 1]]
        assert np.flatnonzero(part["next-done"]).tolist() == [6, 11, 20] and part.meta["tasks"] == ["push"]
    assert lines[0].endswith("note")
    tiled = read(folder, tmp_path / "tiled", views="tiled", episodes=2)
    assert len(tiled) == 2 and tiled.meta["camera"] == ["observation.images.top", "observation.images.wrist"]
    view = tiled["frames"].astype(int)
    np.testing.assert_allclose(view[:, : SIZE // 2, : SIZE // 2] + view[:, : SIZE // 2, SIZE // 2 :], 255, atol=1)
    assert not view[:, SIZE // 2 :].any()
    one = read(folder, tmp_path / "one", camera=("wrist",))
    assert one.hash == both[1].hash


class Stop(Progress):
    """Stops an import at its third episode."""

    def part(self, label: str, unit: str = "episodes") -> Progress:
        self.bytes = unit == "bytes"
        return self

    def reach(self, done: int, total: int) -> None:
        if done == 2 and not self.bytes:
            raise KeyboardInterrupt


def test_an_interrupted_import_continues(folder: Path, tmp_path: Path) -> None:
    whole = read(folder, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        import_data("lerobot", folder, tmp_path / "out", progress=Stop(), size=SIZE)
    assert (tmp_path / "out/parts.jsonl").read_text().count("digests") == 2
    with pytest.raises(UserError, match="fit differ"):
        read(folder, tmp_path / "out", fit="pad")
    assert read(folder, tmp_path / "out").hash == whole.hash
    assert read(folder, tmp_path / "out").hash == whole.hash
    alter(folder / "meta/stats.json", more=1)
    with pytest.raises(UserError, match="already holds"):
        read(folder, tmp_path / "out")


def test_an_interrupted_export_leaves_nothing(store: Store, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        export_data("lerobot", store, tmp_path / "robot", progress=Stop())
    assert not list(tmp_path.iterdir())
    killed = tmp_path / ".robot.part" / "data"  # by kill -9, which tidies nothing up
    killed.mkdir(parents=True)
    (killed / "old.parquet").touch()
    export_data("lerobot", store, tmp_path / "robot")
    assert [path.name for path in tmp_path.iterdir()] == ["robot"] and not list((tmp_path / "robot").rglob("old*"))
    with pytest.raises(UserError, match="is there already"):
        export_data("lerobot", store, tmp_path / "robot")
