"""Cuts between shots: found, respected by imports and codes, and what happens to videos that are longer than asked."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image, ImageFilter

from otflam.core.errors import UserError
from otflam.data.cuts import AROUND, THUMB, mark_cuts
from otflam.data.decoding import decode_pieces, read_frames
from otflam.data.formats.videos.sources import import_videos, mixed_rates
from otflam.data.options import VideoImport
from otflam.data.store import Store
from otflam.experiments.tokenize import tokenize_video
from otflam.tokenizer.api import Tokenizer

WIDE, HIGH = 64, 48


def shot(seed: int, count: int, pan: int = 1, gain: float = 1.0) -> np.ndarray:
    """A camera that pans over a cloudy picture of random colours."""
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (HIGH // 6, (WIDE + pan * count) // 6 + 2, 3), dtype=np.uint8)
    size = (WIDE + pan * count, HIGH)
    picture = Image.fromarray(small).resize(size, Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(1))
    whole = np.asarray(picture).astype(np.float32) * gain
    frames = np.stack([whole[:, pan * t : pan * t + WIDE] for t in range(count)])
    return (frames + random.normal(0, 2, frames.shape)).clip(0, 255).astype(np.uint8)


def film(path: Path, frames: np.ndarray, rate: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=rate)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], "bgr0"
        for pixels in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path


def found(frames: np.ndarray) -> list[int]:
    small = [np.asarray(Image.fromarray(frame).resize(THUMB, Image.Resampling.BOX)) for frame in frames]
    return [number for number, (_, cut) in enumerate(mark_cuts(range(len(small)), lambda place: small[place])) if cut]


@settings(max_examples=30, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=4, unique=True),
    lengths=st.lists(st.integers(AROUND + 1, 12), min_size=4, max_size=4),
    pan=st.integers(0, 2),
    gain=st.sampled_from([0.25, 1.0]),
)
def test_every_join_of_two_shots_is_found_and_nothing_else(
    seeds: list[int], lengths: list[int], pan: int, gain: float
) -> None:
    parts = [shot(seed, length, pan, gain) for seed, length in zip(seeds, lengths, strict=False)]
    assert found(np.concatenate(parts)) == np.cumsum([len(part) for part in parts])[:-1].tolist()


def test_neither_a_flash_nor_a_fade_nor_the_first_movement_is_a_cut() -> None:
    frames = shot(1, 20)
    for bright, pan in ((1, 1), (2, 0)):
        flash = shot(1, 20, pan)
        flash[9 : 9 + bright] = 255
        assert found(flash) == []
    fade = (frames * np.linspace(1, 0, 20)[:, None, None, None]).astype(np.uint8)
    assert found(fade) == []
    assert found(np.concatenate([np.repeat(frames[:1], 8, 0), frames])) == []
    assert found(np.zeros((12, HIGH, WIDE, 3), np.uint8)) == []
    noise = np.random.default_rng(0).integers(0, 256, (12, HIGH, WIDE, 3), dtype=np.uint8)
    assert found(noise) == []  # every frame is another picture: no shots, so no cuts either


@settings(max_examples=50, deadline=None)
@given(count=st.integers(0, 12))
def test_frames_are_passed_on_whole_and_in_order(count: int) -> None:
    frames = shot(count, max(count, 1))[:count]
    small = [np.asarray(Image.fromarray(frame).resize(THUMB, Image.Resampling.BOX)) for frame in frames]
    assert [item for item, _ in mark_cuts(range(count), lambda place: small[place])] == list(range(count))


@pytest.fixture(scope="module")
def two_shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frames = np.concatenate([shot(0, 23), shot(1, 17)])
    return film(tmp_path_factory.mktemp("films") / "in" / "two.mkv", frames)


def load(folder: Path, out: Path, **options) -> tuple[Store, list[str]]:
    said: list[str] = []
    return import_videos(folder, out, VideoImport(size=32, **options), said.append), said


def test_no_episode_spans_a_cut(two_shots: Path, tmp_path: Path) -> None:
    store, _ = load(two_shots.parent, tmp_path / "cut")
    whole, _ = load(two_shots.parent, tmp_path / "whole", cuts=False)
    assert store.lengths.tolist() == [23, 17] and whole.lengths.tolist() == [40]
    np.testing.assert_array_equal(store["frames"], whole["frames"])
    facts = [(episode["source"], episode["source_frame"], episode["begin"]) for episode in store.episodes]
    assert facts == [("two.mkv", 0, 0.0), ("two.mkv", 23, 2.3)]


@pytest.mark.parametrize("fps", [None, 5.0])
def test_pieces_are_no_longer_than_asked_and_end_at_cuts(two_shots: Path, fps: float | None) -> None:
    pieces = list(decode_pieces(two_shots, VideoImport(size=8, fps=fps, split_seconds=1.0)))
    kept = [number for piece in pieces for number in piece.kept]
    assert all(len(piece.frames) == len(piece.kept) <= (fps or 10) for piece in pieces)
    assert not any(piece.kept[0] < 23 <= piece.kept[-1] for piece in pieces)
    whole = list(decode_pieces(two_shots, VideoImport(size=8, fps=fps, cuts=False)))
    assert len(whole) == 1 and pieces[-1].facts is not None and not any(piece.facts for piece in pieces[:-1])
    assert len(kept) + pieces[-1].facts.dropped == len(whole[0].kept) and set(kept) <= set(whole[0].kept)


def test_labels_follow_their_frames_into_the_pieces(two_shots: Path, tmp_path: Path) -> None:
    lines = ["video,frame,turn", *(f"two,{frame},{frame}" for frame in range(0, 40, 3))]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    store, _ = load(two_shots.parent, tmp_path / "out", split_seconds=1.0, actions=str(tmp_path / "labels.csv"))
    for index, episode in enumerate(store.episodes):
        numbers = episode["source_frame"] + np.arange(store.lengths[index])
        labelled = numbers % 3 == 0
        np.testing.assert_array_equal(store.episode(index, "action_mask"), labelled)
        np.testing.assert_array_equal(store.episode(index, "actions")[:, 0], np.where(labelled, numbers, 0))


def test_an_import_in_pieces_continues_after_any_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        film(tmp_path / "in" / f"{number}.mkv", np.concatenate([shot(number, 12), shot(9 + number, 12)]))
    whole, _ = load(tmp_path / "in", tmp_path / "whole", split_seconds=0.5)
    assert len(whole) == 12
    decoded = 0

    def stop(*rest):
        nonlocal decoded
        for piece in decode_pieces(*rest):
            decoded += 1
            if decoded == 9:
                raise KeyboardInterrupt
            yield piece

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("otflam.data.formats.videos.sources.decode_pieces", stop)
        load(tmp_path / "in", tmp_path / "out", split_seconds=0.5)
    assert (tmp_path / "out/parts.jsonl").read_text().count("digests") == 8
    store, _ = load(tmp_path / "in", tmp_path / "out", split_seconds=0.5)
    assert store.hash == whole.hash
    store.check()


def test_a_source_that_breaks_leaves_no_piece_behind(tmp_path: Path) -> None:
    film(tmp_path / "in/good.mkv", shot(0, 8))
    (tmp_path / "in/bad").mkdir()
    for number, frame in enumerate(np.concatenate([shot(seed, 8) for seed in (1, 2, 3)])):
        Image.fromarray(frame).save(tmp_path / f"in/bad/{number}.png")
    (tmp_path / "in/bad/23.png").write_bytes(b"no image")
    store, said = load(tmp_path / "in", tmp_path / "out")
    assert [episode["source"] for episode in store.episodes] == ["good.mkv"]
    assert any("skipped bad: 23.png is not a readable image" in line for line in said)
    assert store.rows == 16  # one piece of the bad one was there already: its rows are a gap
    assert store.lengths.sum() == 8
    store.check()


def test_short_shots_are_left_out_and_told(tmp_path: Path) -> None:
    film(tmp_path / "in/a.mkv", np.concatenate([shot(0, 20), shot(1, 5), shot(2, 20)]))
    store, said = load(tmp_path / "in", tmp_path / "out", min_frames=10)
    assert store.lengths.tolist() == [20, 20]
    assert "a.mkv: 5 frames are left out: they lie in shots or parts shorter than 10 frames" in said
    with pytest.raises(UserError, match="no shot of its 45 frames is long enough"):
        load(tmp_path / "in", tmp_path / "none", min_frames=30)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_length_that_is_none_is_refused(two_shots: Path, tmp_path: Path, seconds: float) -> None:
    with pytest.raises(UserError, match="split-seconds"):
        load(two_shots.parent, tmp_path / "out", split_seconds=seconds)


def test_mixed_rates_are_warned_of(tmp_path: Path) -> None:
    film(tmp_path / "in/a.mkv", shot(0, 12), rate=10)
    film(tmp_path / "in/b.mkv", shot(1, 12), rate=20)
    _, said = load(tmp_path / "in", tmp_path / "out")
    assert any("1 of 10, 1 of 20 fps" in line and "--fps 10" in line for line in said)
    assert not load(tmp_path / "in", tmp_path / "even", fps=10.0)[1]
    assert mixed_rates([{"fps": 29.97}, {"fps": 30.0}, {"fps": None}]) is None


def test_codes_do_not_span_cuts(two_shots: Path, tmp_path: Path) -> None:
    found = tokenize_video(two_shots, tmp_path / "cut", None)
    apart = tokenize_video(two_shots, tmp_path / "whole", None, cuts=False)
    codes, joined = (np.load(each.paths[0]) for each in (found, apart))
    spanning = [21, 22]  # the packaged tokenizer looks two frames ahead
    others = [row for row in range(38) if row not in spanning]
    assert codes.shape == joined.shape and not codes[spanning].any() and joined[spanning].any()
    np.testing.assert_array_equal(codes[others], joined[others])
    np.testing.assert_array_equal(joined, Tokenizer.from_pretrained().encode(two_shots).numpy())
    with found.paths[3].open() as file:
        shots = list(csv.DictReader(file))
    assert [(row["first"], row["last"], row["seconds"]) for row in shots] == [
        ("0", "22", "0.000"),
        ("23", "39", "2.300"),
    ]
    assert len(apart.paths) == 3
    frames = list(read_frames(two_shots, 28, 7, cuts=True))
    assert [number for number, frame in enumerate(frames) if frame.cut] == [23] and frames[0].fps == Fraction(10)
