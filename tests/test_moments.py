"""Moments that are like another: what is found, that it is not the query itself, and how it is asked for."""

from __future__ import annotations

import itertools
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from otflam.cli import main
from otflam.core.errors import UserError
from otflam.data.formats.videos.sources import import_videos
from otflam.data.options import VideoImport
from otflam.data.store import Store
from otflam.experiments.moments import parse_like, search, window_means
from otflam.report.moments import clock

RELEASED = Path(__file__).parent / "data" / "released"
SIDE, RATE = 56, 10
WAYS = {"across": (0, 2), "down": (2, 0), "still": (0, 0)}


def moving(way: str, count: int, seed: int) -> np.ndarray:
    """A bright block that moves over a plain picture and comes in again."""
    frames, (down, across) = np.full((count, SIDE, SIDE, 3), 90, np.uint8), WAYS[way]
    place = np.random.default_rng(seed).integers(0, SIDE, 2)
    for t in range(count):
        rows, columns = (np.arange(16) + place[0] + down * t) % SIDE, (np.arange(16) + place[1] + across * t) % SIDE
        frames[t][np.ix_(rows, columns)] = 230
    return frames


def film(path: Path, frames: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=RATE)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], "bgr0"
        for pixels in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("moments")
    for (way, _), number in itertools.product(WAYS.items(), range(3)):
        film(folder / "in" / f"{way}{number}.mkv", moving(way, 30, number))
    film(folder / "other.mkv", moving("across", 30, 7))
    return folder


@pytest.fixture(scope="module")
def store(folder: Path) -> Store:
    return import_videos(folder / "in", folder / "data", VideoImport(size=SIDE, cuts=False), lambda _: None)


@pytest.mark.parametrize("way", WAYS)
def test_the_nearest_moments_move_in_the_same_way(folder: Path, store: Store, way: str) -> None:
    found = search(store, f"{folder / 'in' / f'{way}1.mkv'}@1.5s", seconds=1.0, count=6)
    same = [shot.name.startswith(way) for shot in found.shots]
    assert sum(same[:4]) >= 3, [shot.name for shot in found.shots]
    distances = [shot.distance for shot in found.shots]
    assert distances == sorted(distances) and 0 <= distances[0] < found.typical <= 1
    assert found.query.name == f"{way}1.mkv" and len(found.query.frames) == 10


def test_a_video_of_the_data_is_known_and_its_moment_is_not_found_again(folder: Path, store: Store) -> None:
    copy = folder / "renamed.mkv"
    copy.write_bytes((folder / "in/across2.mkv").read_bytes())
    number = next(index for index, episode in enumerate(store.episodes) if episode["source"] == "across2.mkv")
    by_file, by_number = search(store, f"{copy}@1s", count=50), search(store, f"{number}@1.0", count=50)
    taken = [(shot.episode, round(shot.begin * RATE), len(shot.frames)) for shot in (by_file.query, *by_file.shots)]
    assert taken[0] == (number, 5, 10)
    for (one, first, long), (other, second, wide) in itertools.combinations(taken, 2):
        assert one != other or first + long <= second or second + wide <= first
    for one, other in zip(by_file.shots, by_number.shots, strict=True):
        assert (one.place, one.distance) == (other.place, other.distance)


def test_a_video_that_is_not_of_the_data_is_read_as_an_import_would(folder: Path, store: Store) -> None:
    found = search(store, f"{folder / 'other.mkv'}@1.5", count=3)
    assert found.query.episode == -1 and found.query.frames.shape[1:] == (SIDE, SIDE, 3)
    assert found.shots[0].name.startswith("across")
    np.testing.assert_array_equal(found.query.frames, moving("across", 30, 7)[10:20])


def test_latents_find_moments_too() -> None:
    store = Store(RELEASED / "store")
    length = int(store.lengths[0])
    found = search(store, "0@0.3", lam=RELEASED / "lam", seconds=0.4, count=50)
    assert found.shots and all(shot.distance > 0 for shot in found.shots) and found.typical > 0
    own = [shot for shot in found.shots if shot.episode == 0]
    begin = round(found.query.begin * 10)
    assert all(abs(round(shot.begin * 10) - begin) >= 4 for shot in own) and begin + 4 <= length


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 20), st.integers(1, 4), st.integers(0, 1000))
def test_means_of_windows(count: int, rows: int, seed: int) -> None:
    features = np.random.default_rng(seed).normal(size=(count + rows, 3))
    firsts = np.arange(0, count, 2)
    expected = np.stack([features[first : first + rows].mean(0) for first in firsts])
    np.testing.assert_allclose(window_means(features, firsts, rows), expected, atol=1e-12)


def test_how_moments_are_asked_for(folder: Path, store: Store) -> None:
    assert parse_like("a@b.mp4@12.5s") == ("a@b.mp4", 12.5) and parse_like("3@1:02.5") == ("3", 62.5)
    assert clock(62.5) == "1:02.50" and clock(59.999) == "1:00.00"
    wrong = {
        "clip.mp4": "FILE@SECONDS",
        "3@soon": "FILE@SECONDS",
        "no.mp4@1": "does not exist",
        "99@1": "no episode 99",
    }
    wrong |= {"0@30": "has 3.00 s", f"{folder / 'other.mkv'}@9": "no shot at 9 s"}
    for like, problem in wrong.items():
        with pytest.raises(UserError, match=problem):
            search(store, like)
    with pytest.raises(UserError, match=r"lies in a shot of 3\.00 s"):
        search(store, "0@1", seconds=20.0)
    with pytest.raises(UserError, match="positive length"):
        search(store, "0@1", seconds=0.0)


def test_the_command_prints_a_table_and_draws_what_it_found(
    folder: Path, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["search", str(store.path), "--like", f"{folder / 'other.mkv'}@1.5s", "--out", str(tmp_path), "--count", "3"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["episode", "time", "distance", "file"] and lines[1].split()[4].startswith("across")
    assert lines[4].startswith(f"{11 * len(store)} moments compared")
    with Image.open(tmp_path / "moments.png") as sheet:
        assert sheet.height > 4 * 112 and sheet.width > 8 * 112
    page = (tmp_path / "moments.html").read_text()
    assert page.count("<figure>") == 4 and page.count("data:image/webp") == 4 and "other.mkv at 0:01.00" in page
