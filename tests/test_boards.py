"""--logger: curves on a board of one's choice, with the real packages where they are installed, without a network."""

from __future__ import annotations

import sqlite3
from importlib import util
from pathlib import Path

import pytest

from otflam import cli
from otflam.core.config import Hardware, to_json
from otflam.core.run import read_metrics
from otflam.data.store import Store


def train(store: Store, out: Path, logger: str) -> None:
    words = ["lam", "train", "lapo-128", str(store.path), "--preset", "tiny", "--steps", "4", "--out", str(out)]
    cli.main([*words, "--logger", logger])


def needs(package: str) -> None:
    if util.find_spec(package) is None:
        pytest.skip(f"needs otflam[{package}]")


def test_none_keeps_only_the_lines(square_store: Store, tmp_path: Path) -> None:
    train(square_store, tmp_path / "run", "none")
    assert not (tmp_path / "run" / "tensorboard").exists() and len(read_metrics(tmp_path / "run")) >= 2
    train(square_store, tmp_path / "board", "tensorboard")
    assert list((tmp_path / "board" / "tensorboard").iterdir())
    same = [(tmp_path / name / "config.json").read_bytes() for name in ("run", "board")]
    assert same[0] == same[1], "where curves are shown is no setting of a run"


def test_it_is_in_no_record() -> None:
    assert "logger" not in to_json(Hardware())


@pytest.mark.parametrize("package", ["wandb", "trackio"])
def test_a_missing_package_is_one_line(
    package: str, square_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if util.find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    with pytest.raises(SystemExit) as end:
        train(square_store, tmp_path / "run", package)
    err = capsys.readouterr().err
    assert end.value.code == 2 and err.count("\n") == 1
    assert f"--logger {package}: its package is not installed: pip install 'otflam[{package}]'" in err
    assert not (tmp_path / "run").exists()


def test_wandb_writes_beside_the_run(square_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    train(square_store, tmp_path / "run", "wandb")
    files = list((tmp_path / "run" / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 1 and files[0].stat().st_size > 500 and b"latent_rank" in files[0].read_bytes()


def test_trackio_writes_on_this_machine(square_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("trackio")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    train(square_store, tmp_path / "run", "trackio")
    bases = list((tmp_path / "trackio").glob("otflam*.db"))
    assert len(bases) == 1
    with sqlite3.connect(bases[0]) as base:
        steps = [row[0] for row in base.execute("SELECT step FROM metrics ORDER BY step")]
    assert steps == [row["step"] for row in read_metrics(tmp_path / "run")]
