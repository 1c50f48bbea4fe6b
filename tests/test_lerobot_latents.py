"""LeRobot folders that are damaged, and those that hold latent actions and codes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import otflam
from otflam import cli
from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.data.formats.format import export_data, import_data
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter
from otflam.lam.label import label_data
from otflam.lam.train import train_lam
from otflam.tokenizer.build import encode_data, train_tokenizer

EXAMPLES = Path(__file__).parents[1] / "examples"
TINY, CPU = otflam.get_preset("tiny"), Hardware(accelerator="cpu")
DATA, FILM = "data/chunk-000/file-000.parquet", "videos/observation.images.main/chunk-000/file-000.mp4"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"


@pytest.fixture(scope="module")
def written(square_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("written") / "robot"
    export_data("lerobot", square_store, out, report=lambda line: None, fps=10.0)
    return out


def info(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "meta/info.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return change


def feature(key: str, **about: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        known = json.loads((folder / "meta/info.json").read_text())["features"]
        info(features=known | {key: about})(folder)

    return change


def column(name: str, values: Callable[[Any], Any], file: str = DATA) -> Callable[[Path], None]:
    """Replace or append a column of a table."""

    def change(folder: Path) -> None:
        table = parquet.read_table(folder / file)
        kept = table.drop_columns([name]) if name in table.column_names else table
        parquet.write_table(kept.append_column(name, values(table)), folder / file)

    return change


def both(*changes: Callable[[Path], None]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for each in changes:
            each(folder)

    return change


def cut(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])

    return change


LONG = feature("a", dtype="float32", shape=[2])
DAMAGE = {
    "no info": (lambda folder: (folder / "meta/info.json").unlink(), "info.json does not exist"),
    "torn info": (cut("meta/info.json"), "info.json is not readable JSON"),
    "version": (info(codebase_version="v1.6"), "info.json is of version v1.6: v3.0, v2.1 and v2.0 can be read"),
    "rate": (info(fps=0), "info.json: fps is 0"),
    "features": (info(features=[]), "tells no features"),
    "no camera": (info(features={}), "has no camera"),
    "pattern": (info(data_path="data/{nothing}.parquet"), "data_path does not fit"),
    "outside": (info(data_path="../{chunk_index}.parquet"), "leads out of the folder"),
    "odd pattern": (info(video_path="{video_key.x}"), "video_path does not fit"),
    "no table": (lambda folder: (folder / DATA).unlink(), "file-000.parquet is missing"),
    "torn table": (cut(DATA), "file-000.parquet cannot be read"),
    "no film": (lambda folder: (folder / FILM).unlink(), "file-000.mp4 is missing"),
    "torn film": (cut(FILM), "file-000.mp4"),
    "no film at all": (lambda folder: (folder / FILM).write_text("text"), "file-000.mp4 is not a readable film"),
    "no episodes": (lambda folder: shutil.rmtree(folder / "meta/episodes"), "tells of no episodes"),
    "torn episodes": (cut(EPISODES), "file-000.parquet cannot be read"),
    "short film": (
        column("videos/observation.images.main/from_timestamp", lambda t: pa.array([9.0] * 4), EPISODES),
        "has no frame at",
    ),
    "fewer rows": (column("length", lambda t: pa.array([5] * 4), EPISODES), "rows of episode 0, not 5"),
    "absent feature": (LONG, "has no column 'a'"),
    "shape": (both(LONG, column("a", lambda t: pa.array([[1.0, 2.0, 3.0]] * len(t)))), "a has 3 × float64 in a row"),
    "ragged": (
        both(LONG, column("a", lambda t: pa.array([[1.0]] + [[1.0, 2.0]] * (len(t) - 1)))),
        "a has rows of unequal length",
    ),
    "empty cell": (both(LONG, column("a", lambda t: pa.array([None] + [[1.0, 2.0]] * (len(t) - 1)))), "empty cells"),
    "words": (both(LONG, column("a", lambda t: pa.array(["x"] * len(t)))), "a has"),
    "nan": (both(LONG, column("a", lambda t: pa.array([[1.0, np.nan]] * len(t)))), "a of episode 0 has a number"),
    "odd shape": (feature("a", dtype="float32", shape=[-1]), "shape of a is [-1]"),
    "times": (column("timestamp", lambda t: pa.array([0.0] * len(t))), "timestamps of episode 0 do not rise"),
    "apart": (column("episode_index", lambda t: pa.array([i % 4 for i in range(len(t))])), "lie apart"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_wrong_is_named(name: str, written: Path, tmp_path: Path) -> None:
    change, culprit = DAMAGE[name]
    change(folder := shutil.copytree(written, tmp_path / "robot"))
    with pytest.raises(UserError) as error:
        import_data("lerobot", folder, tmp_path / "out", report=lambda line: None, size=32)
    assert culprit in str(error.value) and str(folder) in str(error.value)


def test_wrong_options_are_named(written: Path, square_store: Store, tmp_path: Path) -> None:
    def reads(match: str, folder: Path = written, **options: Any) -> None:
        with pytest.raises(UserError, match=match):
            import_data("lerobot", folder, tmp_path / "out", report=lambda line: None, **options)

    def writes(match: str, store: Store = square_store, **options: Any) -> None:
        with pytest.raises(UserError, match=match):
            export_data("lerobot", store, tmp_path / "robot", report=lambda line: None, **options)

    reads("nowhere does not exist", tmp_path / "nowhere")
    reads("--camera top is no camera here", camera=("top",))
    reads("--episodes 5", episodes=5)
    reads("--size 0", size=0)
    writes("--action latent without a model", action="latent")
    writes("--fps -1", fps=-1.0)
    writes("--data-mb", data_mb=0.0)
    writes("--camera a/b", camera="a/b")
    grey = StoreWriter(tmp_path / "grey", {"frames": Column("uint8", (7, 7, 1))}, {})
    grey.append(0, {"frames": np.zeros((3, 7, 7, 1), np.uint8)}, {})
    writes("LeRobot's have three colours", grey.finish({}, 1))
    odd = StoreWriter(tmp_path / "odd", {"frames": Column("uint8", (7, 7, 3))}, {})
    for index, fps in enumerate((5.0, 10.0)):
        odd.append(index, {"frames": np.zeros((3, 7, 7, 3), np.uint8)}, {"fps": fps})
    odd_store = odd.finish({}, 2)
    writes("its sides must be even", odd_store, video="h264")
    writes("episodes of 5 and 10 fps", odd_store)
    assert not (tmp_path / "robot").exists()
    export_data("lerobot", odd_store, tmp_path / "robot", fps=29.97)
    again = import_data("lerobot", tmp_path / "robot", tmp_path / "again", size=7)
    assert isinstance(again, Store) and again.episodes[0]["fps"] == 29.97
    np.testing.assert_array_equal(again["frames"], odd_store["frames"])


def test_without_pyarrow(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("otflam.data.formats.lerobot.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"pip install 'otflam\[lerobot\]'"):
        import_data("lerobot", written, tmp_path / "out")


@pytest.fixture(scope="module")
def models(square_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A latent action model and a tokenizer."""
    out, size = tmp_path_factory.mktemp("models"), otflam.METHODS["lapo-128"].sizes["tiny"]
    train_lam("lapo-128", square_store, ([0, 1], [2, 3]), size.model, size.train, CPU, out / "lam")
    train_tokenizer(square_store, [0, 1], TINY.tokenizer, TINY.tokenizer_training, CPU, out / "tokenizer")
    return out


def test_latents_as_actions(square_store: Store, models: Path, tmp_path: Path) -> None:
    """A policy then learns them; frames without one are left out."""
    latents = label_data(square_store, models / "lam")
    ahead = latents.ahead
    assert ahead > 0
    export_data("lerobot", square_store, tmp_path / "robot", {"latent": latents}, fps=10.0, action="latent")
    again = import_data("lerobot", tmp_path / "robot", tmp_path / "again", size=32)
    assert isinstance(again, Store) and (again.lengths == square_store.lengths - ahead).all()
    for index in range(len(square_store)):
        np.testing.assert_array_equal(again.episode(index, "actions"), latents.rows(index)[:-ahead])
        np.testing.assert_array_equal(again.episode(index, "frames"), square_store.episode(index, "frames")[:-ahead])
    assert again["latent_valid"].all() and again.meta["action_names"][:2] == ["latent_0", "latent_1"]
    long = otflam.label_data(square_store, models / "lam")
    assert long.column.path == latents.column.path  # computed once


def test_the_script_of_ten_lines(written: Path, tmp_path: Path) -> None:
    """A LeRobot folder in, one with latents as actions out; all else as it was."""
    words = [sys.executable, str(EXAMPLES / "robot_latents.py"), str(written), "out", "tiny"]
    for _ in range(2):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        latents = label_data(Store(tmp_path / "robot-latents" / "data"), tmp_path / "robot-latents" / "lam")
        again = import_data("lerobot", tmp_path / "out", tmp_path / "again")
        before = import_data("lerobot", written, tmp_path / "before")
        assert isinstance(again, Store) and isinstance(before, Store) and len(again) == len(before)
        for index in range(len(again)):
            np.testing.assert_array_equal(again.episode(index, "actions"), latents.rows(index)[: -latents.ahead])
            np.testing.assert_array_equal(
                again.episode(index, "frames"), before.episode(index, "frames")[: -latents.ahead]
            )
        shutil.rmtree(tmp_path / "out")  # the second time only this is made again


def test_latents_and_codes_from_the_command_line(
    square_store: Store, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As features beside the recorded actions, and in their place."""
    store, out = str(square_store.path), str(tmp_path / "robot")
    words = ["--lam", str(models / "lam"), "--tokenizer", str(models / "tokenizer"), "--fps", "10"]
    cli.main(["data", "export", "lerobot", store, "--out", out, *words])
    cli.main(["data", "import", "lerobot", out, "--size", "32", "--out", str(tmp_path / "again")])
    assert "rows" not in capsys.readouterr().err
    again, codes = Store(tmp_path / "again"), encode_data(square_store, models / "tokenizer")
    latents = label_data(square_store, models / "lam")
    for index, length in enumerate(square_store.lengths):
        np.testing.assert_array_equal(again.episode(index, "latent"), latents.rows(index))
        np.testing.assert_array_equal(again.episode(index, "codes"), codes.rows(index))
        frame = np.arange(length)
        np.testing.assert_array_equal(again.episode(index, "latent_valid"), frame < length - latents.ahead)
        inside = (frame >= codes.behind) & (frame < length - codes.ahead)
        np.testing.assert_array_equal(again.episode(index, "codes_valid"), inside)
        assert not again.episode(index, "codes")[~inside].any()
    assert "actions" not in again and again.columns["codes"].dtype == codes.column.columns["codes"].dtype
    with pytest.raises(SystemExit):
        cli.main(["data", "export", "lerobot", store, "--out", str(tmp_path / "b"), "--dino", "x"])
    assert "--dino without --lam" in capsys.readouterr().err


def test_recorded_actions_stay_beside_latent_ones(models: Path, square_store: Store, tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "data", square_store.columns | {"actions": Column("float32", (1,))}, {})
    for index, length in enumerate(square_store.lengths):
        values = np.arange(length, dtype=np.float32)[:, None]
        writer.append(index, {"frames": square_store.episode(index, "frames"), "actions": values}, {})
    writer.append(4, {"frames": np.zeros((1, 32, 32, 3), np.uint8), "actions": np.zeros((1, 1), np.float32)}, {})
    store, lines = writer.finish({"action_choices": 30}, 5), []
    latents = label_data(store, models / "lam")
    export_data("lerobot", store, tmp_path / "a", {"latent": latents}, lines.append, fps=9.0, action="latent")
    again = import_data("lerobot", tmp_path / "a", tmp_path / "one", size=32)
    assert isinstance(again, Store) and len(again) == 4 and lines == ["episode 4 is left out: it is too short"]
    np.testing.assert_array_equal(again.episode(1, "recorded_action"), np.arange(again.lengths[1]))
    assert "action_choices" not in again.meta
    export_data("lerobot", store, tmp_path / "b", fps=9.0)
    again = import_data("lerobot", tmp_path / "b", tmp_path / "two", size=32)
    assert isinstance(again, Store) and again.meta["action_choices"] == 30 and again.lengths[4] == 1
