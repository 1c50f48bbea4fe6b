"""Importers: own videos, image folders and LAOM files become stores, and what is wrong with them is named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import av
import h5py
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from otflam.core.errors import UserError
from otflam.core.progress import Progress
from otflam.data.decoding import decode_pieces, decode_video, fit_square
from otflam.data.formats.laom.trajectories import export_laom, import_laom
from otflam.data.formats.videos.sources import import_videos
from otflam.data.options import VideoImport
from otflam.data.pictures import UnusableVideoError, natural_key
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter

SIZE = 16


def noise(count: int, height: int = SIZE, width: int = SIZE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def ramp(count: int) -> np.ndarray:
    """Frames whose intensity is their number."""
    return np.broadcast_to(np.arange(count, dtype=np.uint8)[:, None, None, None], (count, SIZE, SIZE, 3)).copy()


def write_video(path: Path, frames: np.ndarray, codec: str = "ffv1", rate: int = 10, times=None, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    formats = {"ffv1": "bgr0", "libx264rgb": "rgb24", "gif": "rgb8"}
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=rate, options=options)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = formats.get(codec, "yuv420p")
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            if times is not None:
                frame.pts = times[number]
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def write_images(folder: Path, frames: np.ndarray, suffix: str = "png") -> Path:
    folder.mkdir(parents=True)
    for number, pixels in enumerate(frames):
        Image.fromarray(pixels).save(folder / f"frame{number}.{suffix}")
    return folder


def importing(folder: Path, out: Path, **config) -> tuple[Store, list[str]]:
    reports: list[str] = []
    store = import_videos(folder, out, VideoImport(**{"size": SIZE, **config}), reports.append)
    store.check()
    return store, reports


def test_lossless_videos_and_images_are_stored_exactly(tmp_path: Path) -> None:
    frames = noise(12)
    write_video(tmp_path / "in/b.mkv", frames)
    write_video(tmp_path / "in/deep/c.mp4", frames, "libx264rgb", crf="0")
    write_images(tmp_path / "in/a", frames)
    store, reports = importing(tmp_path / "in", tmp_path / "out")
    assert [episode["source"] for episode in store.episodes] == ["a", "b.mkv", "deep/c.mp4"]
    assert [episode["codec"] for episode in store.episodes] == ["png", "ffv1", "h264"]
    assert [episode["fps"] for episode in store.episodes] == [None, 10.0, 10.0]
    assert not any(episode["lossy"] for episode in store.episodes) and not reports
    for index in range(3):
        np.testing.assert_array_equal(store.episode(index, "frames"), frames)
    assert store.meta["kind"] == "videos" and store.meta["versions"]["av"] == av.__version__
    assert set(store.columns) == {"frames"}


def test_a_folder_of_images_or_one_file_may_be_given(tmp_path: Path) -> None:
    frames = noise(3)
    store, _ = importing(write_images(tmp_path / "walk", frames), tmp_path / "one")
    assert store.episodes[0]["source"] == "walk"
    store, _ = importing(write_video(tmp_path / "clip.mkv", frames), tmp_path / "two")
    assert store.episodes[0]["source"] == "clip.mkv"
    np.testing.assert_array_equal(store["frames"], frames)


def test_lossy_sources_are_recorded_and_warned_of_once(tmp_path: Path) -> None:
    write_video(tmp_path / "in/a.mp4", noise(4), "libx264")
    write_video(tmp_path / "in/b.avi", noise(4), "mpeg4")
    write_video(tmp_path / "in/c.gif", noise(4), "gif")
    write_images(tmp_path / "in/d", noise(4), "jpg")
    write_video(tmp_path / "in/e.mkv", noise(4))
    store, reports = importing(tmp_path / "in", tmp_path / "out")
    assert [episode["lossy"] for episode in store.episodes] == [True, True, True, True, False]
    assert len(reports) == 1
    assert reports[0].startswith("4 of 5 episodes come from lossy sources (gif, h264, jpeg, mpeg4): lossy compression")


def test_unusable_files_are_named_and_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write_video(folder / "good.mkv", noise(5))
    write_video(folder / "one.mkv", noise(1))
    (folder / "broken.mp4").write_bytes(noise(1).tobytes())
    (folder / "empty.mp4").touch()
    (folder / "notes.txt").write_text("ffmpeg would draw this\n" * 50)
    (folder / ".hidden").write_text("not looked at")
    write_images(folder / "torn", noise(2))
    (folder / "torn/frame1.png").write_bytes(b"no image")
    store, reports = importing(folder, folder / "out")
    assert len(store) == 1
    assert "skipped one.mkv: 1 frame: a transition needs at least 2" in reports
    reasons = {line.split(": ")[0].removeprefix("skipped "): line for line in reports}
    assert reasons.keys() == {"one.mkv", "broken.mp4", "empty.mp4", "notes.txt", "torn"}
    assert "not a readable video" in reasons["broken.mp4"] and "frame1.png" in reasons["torn"]
    assert {entry["source"] for entry in store.meta["skipped"]} == reasons.keys()


def test_files_that_break_midway_are_not_half_imported(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", noise(30, 48, 64), "libx264", movflags="faststart")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2 : len(damaged) // 2 + 4000] = b"\xff" * 4000
    path.write_bytes(damaged)
    with pytest.raises(UnusableVideoError, match=r"a\.mp4: cannot be decoded after frame \d+"):
        decode_video(path, VideoImport(size=SIZE))


def test_a_gap_in_the_time_stamps_is_reported(tmp_path: Path) -> None:
    write_video(tmp_path / "in/a.mkv", ramp(20), times=[*range(10), *range(40, 50)])
    _, reports = importing(tmp_path / "in", tmp_path / "out")
    assert len(reports) == 1 and "a.mkv: 30 frames are missing" in reports[0]


def test_nothing_readable_is_an_error_that_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(UserError, match="no videos or image folders"):
        importing(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in/empty.mp4").touch()
    with pytest.raises(UserError, match=r"nothing under .*empty\.mp4"):
        importing(tmp_path / "in", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="does not exist"):
        importing(tmp_path / "nowhere", tmp_path / "out")


@pytest.mark.parametrize("config", [{"size": 0}, {"min_frames": 1}, {"fps": 0.0}, {"fps": float("nan")}])
def test_senseless_settings_are_refused(tmp_path: Path, config: dict) -> None:
    write_video(tmp_path / "in/a.mkv", ramp(3))
    with pytest.raises(UserError):
        importing(tmp_path / "in", tmp_path / "out", **config)


def test_crop_cuts_the_sides_and_pad_adds_bars() -> None:
    wide = np.zeros((8, 16, 3), np.uint8)
    wide[:, :4], wide[:, 4:12], wide[:, 12:] = 50, 100, 150
    assert (fit_square(Image.fromarray(wide), 8, "crop") == 100).all()
    assert (fit_square(Image.fromarray(wide.transpose(1, 0, 2)), 4, "crop") == 100).all()
    padded = fit_square(Image.fromarray(wide), 16, "pad")
    assert not padded[:4].any() and not padded[12:].any()
    np.testing.assert_array_equal(padded[4:12], wide)
    small = fit_square(Image.fromarray(wide), 8, "pad")
    assert not small[:2].any() and not small[6:].any() and (small[2:6, 3:5] == 100).all()


def test_shrinking_averages_and_does_not_ring() -> None:
    checks = (np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8)[..., None].repeat(3, 2)
    assert abs(fit_square(Image.fromarray(checks), 8, "crop").astype(int) - 127).max() <= 2
    edge = np.full((64, 64, 3), 60, np.uint8)
    edge[:, 32:] = 180
    shrunk = fit_square(Image.fromarray(edge), 12, "crop")
    assert shrunk.min() == 60 and shrunk.max() == 180


def test_pixels_that_are_not_square_are_stretched() -> None:
    narrow = np.full((8, 8, 3), 200, np.uint8)
    padded = fit_square(Image.fromarray(narrow), 16, "pad", aspect=2.0)
    assert not padded[:4].any() and not padded[12:].any() and (padded[4:12] == 200).all()


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 20),
    st.sampled_from(["crop", "pad"]),
    st.floats(0.25, 4.0),
)
def test_any_shape_becomes_a_square(width: int, height: int, size: int, fit: str, aspect: float) -> None:
    image = Image.new("RGB", (width, height), (200, 200, 200))
    square = fit_square(image, size, fit, aspect)
    assert square.shape == (size, size, 3) and set(np.unique(square)) <= {0, 200} and square.max() == 200


def test_rotation_in_the_file_is_applied(tmp_path: Path) -> None:
    frames = np.zeros((3, 16, 32, 3), np.uint8)
    frames[:, :, :16], frames[:, 8:] = 200, 100
    path = write_video(tmp_path / "phone.mp4", frames, "libx264rgb", crf="0")
    content = bytearray(path.read_bytes())
    start = content.index(b"tkhd") + 44  # the track's matrix: a quarter turn clockwise, as telephones write it
    matrix = np.array([0, 1 << 16, 0, -1 << 16, 0, 0, 16 << 16, 0, 1 << 30], ">i4").tobytes()
    content[start : start + len(matrix)] = matrix
    path.write_bytes(content)
    turned, facts = decode_video(path, VideoImport(size=32, fit="pad"))
    assert facts.source_size == (16, 32)
    np.testing.assert_array_equal(turned[0][:, 8:24], np.rot90(frames[0], -1))


@pytest.mark.parametrize(
    ("fps", "expected"),
    [
        (None, list(range(12))),
        (10.0, list(range(12))),
        (5.0, [0, 2, 4, 6, 8, 10]),
        (4.0, [0, 2, 5, 7, 10]),
        (3.0, [0, 3, 7, 10]),
    ],
)
def test_resampling_keeps_the_nearest_frames(tmp_path: Path, fps: float | None, expected: list[int]) -> None:
    frames, facts = decode_video(
        write_video(tmp_path / "a.mkv", ramp(12), rate=10), VideoImport(SIZE, fps, min_frames=2)
    )
    assert frames[:, 0, 0, 0].tolist() == expected == list(facts.kept)
    assert facts.fps == 10 and facts.source_frames == 12


def test_resampling_follows_time_stamps_and_never_repeats(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mkv", ramp(6), rate=10, times=[0, 1, 2, 7, 8, 9])
    frames, _ = decode_video(path, VideoImport(SIZE, fps=5.0))
    assert frames[:, 0, 0, 0].tolist() == [0, 2, 3, 4]


def test_slower_files_than_asked_are_skipped(tmp_path: Path) -> None:
    write_video(tmp_path / "in/fast.mkv", ramp(8), rate=20)
    write_video(tmp_path / "in/slow.mkv", ramp(8), rate=5)
    write_images(tmp_path / "in/still", ramp(8))
    store, reports = importing(tmp_path / "in", tmp_path / "out", fps=10.0)
    assert [episode["source"] for episode in store.episodes] == ["fast.mkv"]
    assert (store.episodes[0]["source_fps"], store.episodes[0]["fps"]) == (20.0, 10.0)
    assert any(line.startswith("skipped slow.mkv: 5 fps, slower than the 10 asked for") for line in reports)
    assert any(line.startswith("skipped still: image folders have no frame rate") for line in reports)


def test_min_frames(tmp_path: Path) -> None:
    write_video(tmp_path / "in/long.mkv", ramp(8))
    write_video(tmp_path / "in/short.mkv", ramp(4))
    store, reports = importing(tmp_path / "in", tmp_path / "out", min_frames=5)
    assert len(store) == 1 and reports == ["skipped short.mkv: 4 frames: fewer than the 5 asked for"]


def test_natural_order() -> None:
    names = ["frame10", "frame2", "frame1", "a", "frame01", "2"]
    assert sorted(names, key=natural_key) == ["2", "a", "frame01", "frame1", "frame2", "frame10"]


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    write_video(tmp_path / "in/a.mkv", ramp(6))
    write_video(tmp_path / "in/sub/b.mkv", ramp(4))
    return tmp_path / "in"


def test_actions_from_csv(labelled: Path, tmp_path: Path) -> None:
    file = labelled / "labels.csv"  # it may lie among the videos
    file.write_text("\ufeffvideo,frame,x,y\na.mkv,0,1,-1\na.mkv,4,0.5,2e-1\n\nb, 2 ,3,4\n", encoding="utf-8")
    store, reports = importing(labelled, tmp_path / "out", actions=str(file))
    assert not reports and store.meta["action_names"] == ["x", "y"]
    assert np.flatnonzero(store["action_mask"]).tolist() == [0, 4, 8]
    np.testing.assert_array_equal(store["actions"][[0, 4, 8]], np.float32([[1, -1], [0.5, 0.2], [3, 4]]))
    assert not store["actions"][~store["action_mask"]].any()
    half, _ = importing(labelled, tmp_path / "half", actions=str(file), fps=5.0)
    np.testing.assert_array_equal(half.episode(0, "frames")[:, 0, 0, 0], [0, 2, 4])
    assert half["action_mask"].tolist() == [True, False, True, False, True]
    np.testing.assert_array_equal(half.episode(0, "actions")[2], np.float32([0.5, 0.2]))


def test_actions_from_npz(labelled: Path, tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(6, 2)
    values[3] = np.nan
    np.savez(tmp_path / "labels.npz", **{"a": values, "sub/b": np.ones((3, 2), np.int64)})
    store, _ = importing(labelled, tmp_path / "out", actions=str(tmp_path / "labels.npz"))
    assert store["action_mask"].tolist() == [number not in (3, 9) for number in range(10)]
    np.testing.assert_array_equal(store.episode(0, "actions"), np.nan_to_num(values).astype(np.float32))


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ("", "first line must be video,frame"),
        ("video;frame;x\n", "first line must be video,frame"),
        ("video,frame\na,0\n", "first line must be video,frame"),
        ("video,frame,x\n", "labels no frame"),
        ("video,frame,x\nc,0,1\n", "names 'c', which is not here"),
        ("video,frame,x\na,0,1\na,6,1\n", "labels frame 6 of a.mkv, which has 6 frames"),
        ("video,frame,x\na,0,1\na,-1,1\n", "line 3: frame -1 is negative"),
        ("video,frame,x\na,0,1\na,0,2\n", "line 3: frame 0 is negative or repeated"),
        ("video,frame,x\na,1.5,1\n", "line 2: frame is '1.5'"),
        ("video,frame,x\na,0,1\na,1,fast\n", "line 3: x is 'fast'"),
        ("video,frame,x\na,0,inf\n", "line 2: x is 'inf'"),
        ("video,frame,x\na,0,nan\n", "line 2: x is 'nan'"),
        ("video,frame,x\na,0,1e39\n", "line 2: x is '1e39'"),
        ("video,frame,x\na,0,1\na,1,1,2\n", "line 3 has 4 cells"),
        ("video,frame,x\na,0,1\na.mkv,1,1\n", "'a.mkv' is ambiguous"),
        ("video,frame,x\na,0,\xff\n", "cannot be read"),
    ],
)
def test_errors_in_csv_are_named(labelled: Path, tmp_path: Path, text: str, culprit: str) -> None:
    (tmp_path / "labels.csv").write_text(text, encoding="latin-1")
    with pytest.raises(UserError) as error:
        importing(labelled, tmp_path / "out", actions=str(tmp_path / "labels.csv"))
    assert culprit in str(error.value)


@pytest.mark.parametrize(
    ("arrays", "culprit"),
    [
        ({}, "has no arrays"),
        ({"c": np.ones((2, 2))}, "names 'c'"),
        ({"a": np.ones(3)}, "'a' is float64[3]"),
        ({"a": np.array([["x"]])}, "expected numbers"),
        ({"a": np.array([[None]])}, "cannot be read"),
        ({"a": np.ones((2, 2)), "b": np.ones((2, 3))}, "'b' has 3 action values"),
        ({"a": np.ones((7, 1))}, "labels frame 6 of a.mkv"),
        ({"a": np.array([[0.0, 1.0], [np.nan, 1.0]])}, "row 1 is not finite"),
        ({"a": np.array([[0.0], [np.inf]])}, "row 1 is not finite"),
    ],
)
def test_errors_in_npz_are_named(labelled: Path, tmp_path: Path, arrays: dict, culprit: str) -> None:
    np.savez(tmp_path / "labels.npz", **arrays)
    with pytest.raises(UserError) as error:
        importing(labelled, tmp_path / "out", actions=str(tmp_path / "labels.npz"))
    assert culprit in str(error.value)


def test_actions_files_that_are_none(labelled: Path, tmp_path: Path) -> None:
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "labels.json").touch()
    np.savez(tmp_path / "cut.npz", a=np.ones((6, 1)))
    content = bytearray((tmp_path / "cut.npz").read_bytes())
    content[40:60] = bytes(20)
    (tmp_path / "cut.npz").write_bytes(content)
    for name in ("absent.csv", "torn.npz", "cut.npz", "labels.json"):
        with pytest.raises(UserError, match=name):
            importing(labelled, tmp_path / "out", actions=str(tmp_path / name))


def test_short_names_shared_by_two_videos_are_ambiguous(labelled: Path, tmp_path: Path) -> None:
    write_video(labelled / "sub/a.mkv", ramp(6))
    file = tmp_path / "labels.csv"
    file.write_text("video,frame,x\nb,0,1\nsub/a,1,1\na.mkv,2,1\n")
    store, _ = importing(labelled, tmp_path / "out", actions=str(file))
    assert np.flatnonzero(store["action_mask"]).tolist() == [2, 7, 12]
    write_video(labelled / "other/b.mkv", ramp(6))
    with pytest.raises(UserError, match="'b' is ambiguous"):
        importing(labelled, tmp_path / "again", actions=str(file))


def test_an_interrupted_import_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, config = tmp_path / "in", VideoImport(size=SIZE)
    for number in range(4):
        write_video(folder / f"{number}.mkv", noise(4 + number, seed=number))
    whole, _ = importing(folder, tmp_path / "whole")

    def stop(path: Path, *rest) -> Any:
        if path.name == "2.mkv":
            raise KeyboardInterrupt
        return decode_pieces(path, *rest)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("otflam.data.formats.videos.sources.decode_pieces", stop)
        import_videos(folder, tmp_path / "out", config)
    assert (tmp_path / "out/parts.jsonl").read_text().count("digests") == 2
    with pytest.raises(UserError, match="fit differ"):
        import_videos(folder, tmp_path / "out", VideoImport(size=SIZE, fit="pad"))
    (folder / "0.mkv").rename(tmp_path / "away.mkv")
    with pytest.raises(UserError, match="files differ"):
        import_videos(folder, tmp_path / "out", config)
    (tmp_path / "away.mkv").rename(folder / "0.mkv")

    decoded: list[str] = []
    monkeypatch.setattr(
        "otflam.data.formats.videos.sources.decode_pieces",
        lambda path, *rest: (decoded.append(path.name), decode_pieces(path, *rest))[1],
    )
    store, _ = importing(folder, tmp_path / "out")
    assert decoded == ["2.mkv", "3.mkv"] and store.hash == whole.hash
    assert importing(folder, tmp_path / "out")[0].hash == whole.hash and decoded == ["2.mkv", "3.mkv"]
    with pytest.raises(UserError, match="already holds"):
        importing(folder, tmp_path / "out", fit="pad")


def write_laom(path: Path, lengths: tuple[int, ...] = (5,) * 12, **changes) -> Path:
    """A small LAOM file; `changes` replace arrays of trajectory 1, None takes one away."""
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as root:
        root.attrs.update(domain_name="walker", task_name="run", difficulty="vanilla", dynamic=True)
        root.attrs.update(img_hw=SIZE, split="train", dataset_return=7.5)
        for index, length in enumerate(lengths):
            arrays = {
                "obs": noise(length, seed=index),
                "states": rng.normal(size=(length, 4)).astype(np.float32),
                "actions": rng.uniform(-1, 1, (length, 2)).astype(np.float32),
            }
            arrays["actions"][0, 0] = 1.5
            arrays |= changes if index == 1 else {}
            group = root.create_group(str(index))
            group.attrs["traj_return"] = np.float32(index)
            for name, array in arrays.items():
                if array is not None:
                    group.create_dataset(name, data=array)
    return path


def test_laom_in(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    file = write_laom(tmp_path / "a.hdf5")

    class Heard(Progress):
        def part(self, label: str, unit: str = "episodes") -> Progress:
            self.label = f"{label} by {unit}"
            return self

        def start(self, done: int, total: int) -> None:
            self.reach(done, total)

        def reach(self, done: int, total: int) -> None:
            seen.append((self.label, done, total))

    store = import_laom(file, tmp_path / "out", Heard())
    store.check()
    read = (f"read {file} by bytes", 0, file.stat().st_size)
    assert seen == [read, *((f"import {file} by episodes", done, 12) for done in range(1, 13))]
    assert [episode["return"] for episode in store.episodes] == list(range(12))
    np.testing.assert_array_equal(store.episode(10, "frames"), noise(5, seed=10))  # 10 follows 9, not 1
    assert store["actions"].max() == 1 and store["states"].shape == (60, 4)
    assert store.meta["actions_clipped"] == {"low": -1.0, "high": 1.0, "fraction": 0.1}
    facts = {"kind": "laom", "task": "walker-run", "difficulty": "vanilla", "dynamic": True}
    assert store.meta.items() >= {**facts, "size": SIZE, "split": "train", "return": 7.5}.items()


def test_laom_round_trip(tmp_path: Path) -> None:
    store = import_laom(write_laom(tmp_path / "a.hdf5"), tmp_path / "one")
    export_laom(store, tmp_path / "new/b.hdf5")
    again = import_laom(tmp_path / "new/b.hdf5", tmp_path / "two")
    assert again.hash == store.hash and again.meta["actions_clipped"]["fraction"] == 0
    for column in ("frames", "actions", "states"):
        np.testing.assert_array_equal(again[column], store[column])
    same = ("kind", "task", "difficulty", "dynamic", "size", "split", "return")
    assert {name: again.meta[name] for name in same} == {name: store.meta[name] for name in same}
    assert [episode["return"] for episode in again.episodes] == [episode["return"] for episode in store.episodes]
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["b.hdf5"]


class Stop(Progress):
    """What an import tells its progress to, and is stopped by at the second episode."""

    def reach(self, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt


def test_laom_continues(tmp_path: Path) -> None:
    file = write_laom(tmp_path / "a.hdf5", (3, 4, 5, 6))
    whole = import_laom(file, tmp_path / "whole")

    with pytest.raises(KeyboardInterrupt):
        import_laom(file, tmp_path / "out", Stop())
    assert import_laom(file, tmp_path / "out").hash == whole.hash


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        ({"states": None}, "trajectory 1 has no 'states'"),
        ({"obs": np.zeros((5, SIZE, SIZE, 3), np.float32)}, "obs is float32"),
        ({"obs": np.zeros((5, SIZE, SIZE, 9), np.uint8)}, "obs is uint8"),
        ({"actions": np.zeros((5, 2))}, "actions is float64"),
        ({"actions": np.zeros((4, 2), np.float32)}, "arrays of length [4, 5]"),
        ({"states": np.zeros((5, 3), np.float32)}, "states is (3,)"),
        ({"actions": np.full((5, 2), np.nan, np.float32)}, "non-finite value in column 'actions'"),
    ],
)
def test_laom_errors_are_named(tmp_path: Path, changes: dict, culprit: str) -> None:
    with pytest.raises(UserError) as error:
        import_laom(write_laom(tmp_path / "a.hdf5", (5, 5), **changes), tmp_path / "out")
    assert culprit in str(error.value)


def test_files_that_are_not_laom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.hdf5").write_text("no HDF5")
    torn = write_laom(tmp_path / "torn.hdf5")
    torn.write_bytes(torn.read_bytes()[:-5000])
    h5py.File(tmp_path / "bare.hdf5", "w").close()
    with h5py.File(tmp_path / "other.hdf5", "w") as root:
        root["data"] = np.zeros(3)
    with h5py.File(write_laom(tmp_path / "size.hdf5"), "a") as root:
        root.attrs["img_hw"] = 64
    cases = {"text": "not a readable HDF5", "torn": "not a readable HDF5", "bare": "no trajectories"}
    cases |= {"other": "'data' is not a trajectory", "size": "img_hw is 64", "absent": "does not exist"}
    for name, culprit in cases.items():
        with pytest.raises(UserError, match=culprit):
            import_laom(tmp_path / f"{name}.hdf5", tmp_path / "out")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UserError, match=r"pip install 'otflam\[hdf5\]'"):
        import_laom(tmp_path / "size.hdf5", tmp_path / "out")


def test_export_refuses_what_the_layout_cannot_hold(tmp_path: Path) -> None:
    uneven = import_laom(write_laom(tmp_path / "a.hdf5", (3, 4)), tmp_path / "one")
    with pytest.raises(UserError, match="unequal length"):
        export_laom(uneven, tmp_path / "b.hdf5")
    writer = StoreWriter(tmp_path / "two", {"frames": Column("uint8", (SIZE, SIZE, 3))}, {})
    writer.append(0, {"frames": noise(3)}, {})
    with pytest.raises(UserError, match="no column 'actions'"):
        export_laom(writer.finish({}, len(writer.done())), tmp_path / "b.hdf5")
    assert not (tmp_path / "b.hdf5").exists()
