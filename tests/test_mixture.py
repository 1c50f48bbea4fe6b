"""Many data sets in one training: shares, orders and sizes; scenes of textures; and what codecs do to frames."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from otflam.core import UserError
from otflam.core.train import Feed
from otflam.data import (
    Clips,
    Column,
    Mixture,
    MovingTextures,
    Store,
    StoreWriter,
    make_moving_textures,
    recompress,
)
from otflam.data.clips import BLOCK
from otflam.data.compression import recompress_frames
from otflam.data.mixture import apportion, brought_to, mixed_order
from otflam.data.textures import draw_scene


def make(out: Path, size: int, colours: int, lengths: Sequence[int], value: int) -> Store:
    """Every pixel of a frame holds its time, plus a value that tells the data set."""
    writer = StoreWriter(out, {"frames": Column("uint8", (size, size, colours))}, {}, lock=True)
    for index, length in enumerate(lengths):
        times = np.arange(length, dtype=np.uint8)[:, None, None, None]
        writer.append(index, {"frames": np.broadcast_to(times + value, (length, size, size, colours))}, {})
    return writer.finish({}, len(lengths))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Store]:
    """Of other sizes, lengths and colours."""
    folder = tmp_path_factory.mktemp("mixture")
    facts = [(8, 3, (20, 5), 0), (16, 3, (30,), 100), (12, 1, (9, 9, 9), 200)]
    return [make(folder / str(value), size, colours, lengths, value) for size, colours, lengths, value in facts]


@pytest.fixture(scope="module")
def mixture(stores: list[Store]) -> Mixture:
    """The second source's frames lie one step apart, the others' two, and all are called so."""
    gaps = (2, 1, 2)
    return Mixture([Clips(s, (0, gap)) for s, gap in zip(stores, gaps, strict=True)], (2.0, 1.0, 1.0), (0, 2), 10)


def owners(frames: torch.Tensor) -> np.ndarray:
    return frames[:, 0, 0, 0, 0].numpy() // 100


def test_a_mixture_is_a_feed_with_shares(mixture: Mixture) -> None:
    assert isinstance(mixture, Feed)
    batches = [mixture.batch(6, 0, step) for step in range(BLOCK)]
    assert all(batch.frames.shape == (6, 2, 10, 10, 3) and batch.offsets == (0, 2) for batch in batches)
    counts = np.bincount(np.concatenate([owners(batch.frames) for batch in batches]), minlength=3)
    assert counts.tolist() == [BLOCK * 3, BLOCK * 6 // 4, BLOCK * 6 // 4]
    gaps = torch.cat([batch.frames[:, 1, 0, 0, 0].int() - batch.frames[:, 0, 0, 0, 0].int() for batch in batches])
    told = np.concatenate([owners(batch.frames) for batch in batches])
    assert set(gaps[told == 1].tolist()) == {1} and set(gaps[told != 1].tolist()) == {2}


def test_batches_depend_on_seed_and_step_alone(mixture: Mixture) -> None:
    again, other = mixture.batch(6, 0, 70), mixture.batch(6, 1, 70)
    assert torch.equal(mixture.batch(6, 0, 70).frames, again.frames) and not torch.equal(again.frames, other.frames)
    parts = [mixture.batch(6, 0, 70, rank, 2).frames for rank in range(2)]
    assert torch.equal(torch.cat(parts), again.frames)
    assert torch.equal(next(mixture.batches(6, 0, 70)).frames, again.frames)


def test_memory_does_not_grow_with_the_steps(mixture: Mixture) -> None:
    def kept(steps: range) -> int:
        for step in steps:
            mixture.batch(6, 0, step)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = kept(range(6 * BLOCK))  # more blocks than are kept
        assert kept(range(6 * BLOCK, 30 * BLOCK)) - before < 20_000
    finally:
        tracemalloc.stop()


def test_clips_are_numbered_source_after_source(mixture: Mixture) -> None:
    found = mixture.gather(np.arange(len(mixture))).frames
    assert owners(found).tolist() == [0] * len(mixture.sources[0]) + [1] * 29 + [2] * 21


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.floats(0.01, 10), st.integers(1, 50)), min_size=1, max_size=5),
    st.integers(1, 9),
    st.integers(0, 99),
)
def test_every_clip_of_a_source_comes_once_before_one_comes_again(
    sources: list[tuple[float, int]], size: int, seed: int
) -> None:
    shares = tuple(weight / sum(weight for weight, _ in sources) for weight, _ in sources)
    lengths = tuple(length for _, length in sources)
    found = [mixed_order(shares, lengths, size, seed, step) for step in range(2 * BLOCK)]
    source, place = (np.concatenate([pair[part] for pair in found]) for part in (0, 1))
    for number, length in enumerate(lengths):
        came = place[source == number]
        for epoch in range(len(came) // length):
            assert sorted(came[epoch * length : (epoch + 1) * length].tolist()) == list(range(length))


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=20), st.integers(64, 5000))
def test_shares_are_apportioned_to_the_clip(weights: list[float], total: int) -> None:
    shares = np.array(weights) / sum(weights)
    counts = np.array(apportion(shares.tolist(), total))
    assert counts.sum() == total and (counts >= 1).all()
    assert (np.abs(counts - shares * total) <= max(1.0, len(weights) / 2)).all()


def test_frames_are_brought_to_a_size_as_a_tokenizer_would() -> None:
    frames = torch.randint(0, 256, (2, 2, 16, 16, 1), dtype=torch.uint8)
    small = brought_to(frames, 8)
    assert small.shape == (2, 2, 8, 8, 3) and torch.equal(small[..., 0], small[..., 2])
    images = frames[:, 0].permute(0, 3, 1, 2).float()
    wanted = torch.nn.functional.interpolate(images, (8, 8), mode="bilinear", align_corners=False).round()
    assert torch.equal(small[:, 0, :, :, 0].float(), wanted[:, 0])


@pytest.mark.parametrize("weights", [(), (1.0,), (1.0, -1.0, 1.0), (0.0, 0.0, 0.0)])
def test_weights_that_say_nothing(mixture: Mixture, weights: tuple[float, ...]) -> None:
    with pytest.raises(UserError, match="weights"):
        Mixture(mixture.sources, weights, (0, 2), 10)


def test_textures_continue_with_the_same_bits(tmp_path: Path) -> None:
    config = MovingTextures(episodes=5, frames=6, size=32)
    whole = make_moving_textures(config, tmp_path / "whole")
    writer = StoreWriter(tmp_path / "part", {"frames": whole.columns["frames"]}, config_of(whole), slot=6)
    writer.reserve(30)
    writer.write(3, {"frames": np.array(whole.episode(3, "frames"))}, facts_of(whole, 3))
    assert make_moving_textures(config, tmp_path / "part").hash == whole.hash
    moved = [np.ptp(np.asarray(whole.episode(index, "frames")).astype(int), 0).mean() for index in range(5)]
    assert max(moved) > 5
    with pytest.raises(UserError, match="--frames is 1"):
        make_moving_textures(MovingTextures(frames=1), tmp_path / "none")


def config_of(store: Store) -> dict[str, object]:
    return store.config


def facts_of(store: Store, index: int) -> dict[str, object]:
    return {name: store.episodes[index][name] for name in ("crf", "fps")}


def test_a_scene_depends_on_its_seed_alone() -> None:
    first, again, other = (list(draw_scene(np.random.default_rng(seed), 3, 24)) for seed in (7, 7, 8))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert any((a != b).any() for a, b in zip(first, other, strict=True))


def test_codecs_cost_more_the_poorer_they_are(tmp_path: Path) -> None:
    source = make_moving_textures(MovingTextures(episodes=3, frames=8, size=33, seed=4), tmp_path / "source")
    frames = np.array(source.episode(0, "frames"))
    errors = [
        np.abs(recompress_frames(frames, quality, Fraction(25)).astype(int) - frames).mean() for quality in (5, 25, 45)
    ]
    assert errors == sorted(errors) and errors[0] > 0
    found = recompress(source, tmp_path / "poor")
    assert [episode["crf"] for episode in found.episodes] == [18, 28, 36]
    assert recompress(source, tmp_path / "poor").hash == found.hash and found.columns == source.columns


DIGEST = """
import hashlib, numpy as np
from otflam.data.compression import recompress_frames
from otflam.data.textures import draw_scene
frames = np.stack([*draw_scene(np.random.default_rng(4), 90, 64)])
print(hashlib.md5(recompress_frames(frames, 18).tobytes()).hexdigest())
"""


def test_a_codec_gives_the_same_bytes_whatever_lies_in_memory() -> None:
    """The allocator fills fresh memory with other bytes; FFmpeg's and x264's fast code must not show."""
    runs = [os.environ | {"MALLOC_PERTURB_": filled} for filled in ("0", "85", "170")]
    call = [sys.executable, "-c", DIGEST]
    found = {subprocess.run(call, env=env, capture_output=True, text=True, check=True).stdout for env in runs}
    assert len(found) == 1 and len(found.pop()) == 33
