"""HDF5 files of stable-worldmodel and Minari become stores, and what is wrong with them is named."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

from otflam.core.errors import UserError
from otflam.data.formats.exports import Beside
from otflam.data.formats.format import export_data, import_data
from otflam.data.store import Store

SIZE, LENGTHS = 12, (4, 6, 3)
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (sum(LENGTHS), SIZE, SIZE, 3), np.uint8)
ACTIONS = RNG.normal(size=(sum(LENGTHS), 2)).astype(np.float32)


def flat(path: Path, **changes: Any) -> Path:
    """A file of stable-worldmodel; `changes` replace columns, None takes one away."""
    offsets = np.cumsum(LENGTHS) - LENGTHS
    columns = {"pixels": PIXELS, "action": ACTIONS, "reward": np.arange(13.0), "step_idx": np.arange(13)}
    columns |= {"ep_len": np.array(LENGTHS), "ep_offset": offsets, "name": np.array([b"x"] * 13)} | changes
    with h5py.File(path, "w") as root:
        for name, values in columns.items():
            if values is not None:
                root[name] = values
    return path


def read(name: str, source: Path, out: Path, lines: list[str] | None = None, **options: Any) -> Store:
    found = import_data(name, source, out, (lines if lines is not None else []).append, **options)
    assert isinstance(found, Store)
    found.check()
    return found


def test_stable_worldmodel_goes_both_ways(tmp_path: Path) -> None:
    actions, lines = ACTIONS.copy(), []
    actions[3] = np.nan  # nothing is done at the end of an episode
    file = flat(tmp_path / "a.h5", action=actions, extra=np.full(13, np.nan))
    store = read("stable-worldmodel", file, tmp_path / "one", lines)
    assert store.lengths.tolist() == list(LENGTHS) and lines[0].endswith("extra")
    np.testing.assert_array_equal(store["frames"], PIXELS)
    assert np.flatnonzero(~store["action_mask"]).tolist() == [3] and not store["actions"][3].any()
    np.testing.assert_array_equal(np.delete(store["actions"], 3, 0), np.delete(ACTIONS, 3, 0))
    assert store.columns["rewards"].dtype == "float32" and store["step_idx"].tolist() == list(range(13))
    beside = {"latent": Beside(store, "actions")}
    export_data("stable-worldmodel", store, tmp_path / "b.h5", beside)
    again = read("stable-worldmodel", tmp_path / "b.h5", tmp_path / "two")
    for name in store.columns:
        np.testing.assert_array_equal(again[name], store[name])
    np.testing.assert_array_equal(again["latent"], store["actions"])
    with h5py.File(tmp_path / "b.h5") as root:
        assert root["ep_offset"][:].tolist() == [0, 4, 10] and np.isnan(root["action"][3]).all()
    assert read("stable-worldmodel", file, tmp_path / "one").hash == store.hash  # done is done


def test_colours_first_and_other_sizes(tmp_path: Path) -> None:
    first = flat(tmp_path / "a.h5", pixels=PIXELS.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(read("stable-worldmodel", first, tmp_path / "one")["frames"], PIXELS)
    small = read("stable-worldmodel", first, tmp_path / "two", size=6)
    assert small.columns["frames"].shape == (6, 6, 3)
    wide = flat(tmp_path / "b.h5", pixels=PIXELS[:, :6], other=PIXELS)
    np.testing.assert_array_equal(read("stable-worldmodel", wide, tmp_path / "c", frames="other")["frames"], PIXELS)
    with pytest.raises(UserError, match="has 2 arrays of pictures: choose with --frames of other, pixels"):
        read("stable-worldmodel", wide, tmp_path / "d")
    with pytest.raises(UserError, match="12×6: make them square with --size"):
        read("stable-worldmodel", wide, tmp_path / "d", frames="pixels")


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        ({"ep_len": None}, "has no ep_len"),
        ({"ep_len": np.array([4.0, 6, 3])}, "has no ep_len"),
        ({"ep_len": np.array([4, 6])}, "do not tell of episodes"),
        ({"ep_offset": np.array([0, 3, 10])}, "two episodes into the same rows"),
        ({"ep_len": np.array([4, 6, 5])}, "its episodes end at 15"),
        ({"pixels": None}, "has no arrays of pictures"),
        ({"action": np.full((13, 2), np.inf)}, "non-finite value in column 'actions'"),
    ],
)
def test_stable_worldmodel_errors_are_named(tmp_path: Path, changes: dict, culprit: str) -> None:
    with pytest.raises(UserError) as error:
        read("stable-worldmodel", flat(tmp_path / "a.h5", **changes), tmp_path / "out")
    assert culprit in str(error.value)


def jpeg(frame: np.ndarray) -> np.ndarray:
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, "jpeg", quality=95)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def minari(folder: Path, coded: bool = False, change: Callable[[Any], None] | None = None) -> Path:
    """A data set with observations in a group, one more of them than actions."""
    (folder / "data").mkdir(parents=True)
    smooth = np.indices((SIZE, SIZE)).sum(0)[..., None].repeat(3, 2).astype(np.uint8) * 8
    with h5py.File(folder / "data" / "main_data.hdf5", "w") as root:
        for index, length in enumerate((3, *[2] * 10)):
            group = root.create_group(f"episode_{index}")
            frames = np.stack([smooth + index + t for t in range(length + 1)])
            if coded:
                kind = h5py.vlen_dtype(np.uint8)
                pixels = group.create_dataset("observations/pixels", (length + 1,), kind)
                for t, frame in enumerate(frames):
                    pixels[t] = jpeg(frame)
            else:
                group["observations/pixels"] = frames
            group["observations/agent/position"] = np.full((length + 1, 2), index, np.float64)
            group["actions"] = np.arange(length)
            group["rewards"] = np.ones(length)
            group["terminations"], group["truncations"] = np.zeros(length, bool), np.arange(length) == length - 1
        if change is not None:
            change(root)
    return folder


def test_minari(tmp_path: Path) -> None:
    store = read("minari", minari(tmp_path / "raw"), tmp_path / "one")
    assert store.lengths.tolist() == [3, *[2] * 10] and store.columns["frames"].shape == (SIZE, SIZE, 3)
    assert store.episode(10, "frames")[1, 0, 0, 0] == 11 and store.episodes[10]["source"] == "episode_10"
    assert store.episode(0, "actions").tolist() == [[0], [1], [2]] and store.episode(0, "truncations").tolist()[2]
    assert (store.episode(4, "states") == 4).all() and store.columns["states"].shape == (2,)
    coded = read("minari", minari(tmp_path / "jpeg", coded=True) / "data" / "main_data.hdf5", tmp_path / "two")
    assert np.abs(coded["frames"].astype(int) - store["frames"]).max() <= 6
    assert read("minari", tmp_path / "raw", tmp_path / "one").hash == store.hash


def test_minari_errors_are_named(tmp_path: Path) -> None:
    def without(name: str) -> Callable[[Any], None]:
        return lambda root: root.pop(name)

    cases = {
        "no arrays of pictures": without("episode_0/observations/pixels"),
        "episode_2 has no actions": without("episode_2/actions"),
        "has no actions that are numbers": without("episode_0/actions"),
        "episode_1 has no observations/pixels": without("episode_1/observations/pixels"),
        "has no episodes": lambda root: [root.pop(name) for name in list(root)],
    }
    for number, (culprit, change) in enumerate(cases.items()):
        with pytest.raises(UserError) as error:
            read("minari", minari(tmp_path / str(number), change=change), tmp_path / f"out{number}")
        assert culprit in str(error.value)
    with pytest.raises(UserError, match="has no main_data"):
        read("minari", tmp_path, tmp_path / "out")
    (tmp_path / "main_data.hdf5").write_text("no HDF5")
    with pytest.raises(UserError, match="not a readable HDF5"):
        read("minari", tmp_path, tmp_path / "out")
