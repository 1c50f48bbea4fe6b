"""Recordings for Rerun's viewer, read again by its own package where that is installed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from otflam.core.errors import UserError
from otflam.data.formats.exports import Beside
from otflam.data.formats.format import export_data
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter

pytest.importorskip("rerun", reason="needs otflam[rerun]")
NAMES = ["left", "right"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    specs = {"frames": Column("uint8", (8, 8, 3)), "actions": Column("float32", (2,)), "rewards": Column("float32", ())}
    writer = StoreWriter(tmp_path / "data", specs | {"grid": Column("float32", (2, 2))}, {})
    rng = np.random.default_rng(0)
    for index, length in enumerate((5, 3)):
        rows = {
            "frames": rng.integers(0, 256, (length, 8, 8, 3), np.uint8),
            "grid": np.zeros((length, 2, 2), np.float32),
        }
        rows |= {"actions": rng.random((length, 2), np.float32), "rewards": rng.random(length, np.float32)}
        writer.append(index, rows, {"fps": 10.0})
    return writer.finish({"action_names": NAMES, "task": "push"}, 2)


def chunks(file: Path) -> dict[str, list[dict[str, Any]]]:
    """What a recording holds, by where it is shown, as the official reader sees it."""
    from rerun.chunk import RrdReader

    found: dict[str, list[dict[str, Any]]] = {}
    for chunk in RrdReader(str(file)).stream().to_chunks():
        found.setdefault(chunk.entity_path, []).append(chunk.to_record_batch().to_pydict())
    return found


def column(rows: list[dict[str, Any]], word: str) -> list[Any]:
    (values,) = (values for row in rows for name, values in row.items() if word in name)
    return values


def test_a_recording_holds_every_number_and_pixel(store: Store, tmp_path: Path) -> None:
    specs = {"codes": Column("uint8", (9,)), "latent": Column("float32", (3,))}
    writer = StoreWriter(tmp_path / "models", specs, {})
    for index, length in enumerate(store.lengths.tolist()):
        values = np.arange(length, dtype=np.float32)
        rows = {"codes": np.tile(values[:, None].astype(np.uint8), 9), "latent": np.tile(values[:, None], 3)}
        writer.append(index, rows, {"episode": index})
    told = writer.finish({}, 2)
    lines: list[str] = []
    beside = {"codes": Beside(told, "codes", behind=1), "latent": Beside(told, "latent", ahead=2)}
    export_data("rerun", store, tmp_path / "out", beside, lines.append)
    assert lines == ["left out, for their rows are no vectors: grid"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["episode-0.rrd", "episode-1.rrd"]
    found = chunks(tmp_path / "out" / "episode-0.rrd")
    pictures = [Image.open(io.BytesIO(bytes(blob[0]))) for blob in column(found["/frames"], "blob")]
    np.testing.assert_array_equal(np.stack(pictures), store.episode(0, "frames"))
    np.testing.assert_array_equal(np.float32(column(found["/actions"], "scalars")), store.episode(0, "actions"))
    np.testing.assert_array_equal(np.float32(column(found["/rewards"], "scalars"))[:, 0], store.episode(0, "rewards"))
    assert [word[0] if isinstance(word, list) else word for word in column(found["/actions"], "names")[:1]] == ["left"]
    assert column(found["/task"], "text") == [["push"]]
    assert column(found["/latent"], "scalars") == [[value] * 3 for value in (0.0, 1.0, 2.0)]
    assert column(found["/latent"], "frame") == [0, 1, 2] and column(found["/codes"], "frame") == [1, 2, 3, 4]
    shown = [np.frombuffer(bytes(each[0]), np.uint16) for each in column(found["/codes"], "buffer")]
    np.testing.assert_array_equal(np.stack(shown), np.tile(np.arange(1, 5)[:, None], 9))


def test_what_cannot_be_is_one_line(store: Store, tmp_path: Path) -> None:
    export_data("rerun", store, tmp_path / "one", episodes=1, fps=5.0)
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["episode-0.rrd"]
    for match, out, options in [
        ("one is there already", "one", {}),
        ("--episodes 3", "two", {"episodes": 3}),
        ("--fps -1", "two", {"fps": -1.0}),
    ]:
        with pytest.raises(UserError, match=match):
            export_data("rerun", store, tmp_path / out, **options)
    assert not (tmp_path / "two").exists()
