"""The registry of formats: commands come from declarations, and a format of somebody else is one file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from otflam.commands.formats import format_commands
from otflam.core.errors import UserError
from otflam.data.formats.exports import Beside
from otflam.data.formats.format import FORMATS, Format, export_data, import_data, register_format
from otflam.data.store import Store

EXAMPLE = Path(__file__).parents[1] / "examples" / "own-format" / "src"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process in which the example is installed: on the path, with its entry point."""
    site = tmp_path_factory.mktemp("site")
    about = site / "npz_format-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: npz-format\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text("[otflam.formats]\nnpz = npz_format\n")
    here = os.environ.get("PYTHONPATH")
    path = [str(site), str(EXAMPLE), *([here] if here else [])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)}


def run(environment: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "otflam", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_a_package_adds_a_format(installed: dict[str, str], square_store: Store, tmp_path: Path) -> None:
    """One file: it is in the help, reads and writes, and its options are those of the command."""
    out = " ".join(run(installed, "data", "--help").stdout.split())  # how wide its columns are is not asked
    assert "data import npz Turn a folder of .npz episodes into a data set." in out
    assert "data export npz Write a data set as a folder of .npz episodes." in out
    made = run(installed, "data", "export", "npz", square_store.path, "--out", tmp_path / "npz")
    assert f"wrote {tmp_path / 'npz'}" in made.stdout and len(list((tmp_path / "npz").iterdir())) == 4
    made = run(installed, "data", "import", "npz", tmp_path / "npz", "--every", "2", "--out", tmp_path / "data")
    assert made.returncode == 0, made.stderr
    again = Store(tmp_path / "data")
    for index in range(4):
        np.testing.assert_array_equal(again.episode(index, "frames"), square_store.episode(index, "frames")[::2])


def test_commands_come_from_declarations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, "mine", Format("mine", "my files", reads="x:y", source="A file."))
    made = format_commands()
    assert made["data import mine"].__doc__ == "Turn my files into a data set." and "data export mine" not in made
    assert {"data import videos", "data import laom", "data export laom", "data export lerobot"} <= made.keys()
    assert "data export videos" not in made


def test_what_a_format_cannot_do_is_one_line(square_store: Store, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown format 'lerobt': did you mean 'lerobot'"):
        import_data("lerobt", tmp_path, tmp_path / "out")
    with pytest.raises(UserError, match="videos cannot be written"):
        export_data("videos", square_store, tmp_path / "out")
    with pytest.raises(UserError, match="laom holds no latent"):
        export_data("laom", square_store, tmp_path / "out", {"latent": Beside(square_store, "frames")})
    with pytest.raises(UserError, match="there is a format laom already"):
        register_format(Format("laom", "another"))
