"""Clips stay inside episodes, and their order is a permutation that depends only on seed and step."""

from __future__ import annotations

import pickle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.utils.data import DataLoader

from otflam.core.batch import Batch, interleave
from otflam.core.errors import UserError
from otflam.data.clips import SHARES, Clips, batch_order, permute, split_episodes
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter

OFFSETS = [(0, 1), (0, 2), (-2, 0, 2), (-2, -1, 0, 1), tuple(range(10))]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Every pixel of a frame holds its episode, and its column the time."""
    columns = {"frames": Column("uint8", (2, 2, 3)), "time": Column("float32", ())}
    writer = StoreWriter(tmp_path_factory.mktemp("clips") / "data", columns, {}, slot=20)
    for index, length in enumerate([20, 3, 12, 1, 20]):
        frames = np.full((length, 2, 2, 3), index, np.uint8)
        writer.write(index, {"frames": frames, "time": np.arange(length, dtype=np.float32)}, {})
    return writer.finish({}, 5)


@pytest.mark.parametrize("offsets", OFFSETS)
def test_clips_never_cross_an_episode(store: Store, offsets: tuple[int, ...]) -> None:
    clips = Clips(store, offsets, ["time"])
    span = max(0, offsets[-1]) - min(0, offsets[0])
    assert len(clips) == sum(max(length - span, 0) for length in store.lengths)
    batch = clips.gather(np.arange(len(clips)))
    assert (batch.frames == batch.frames[:, :1]).all()
    relative = batch.columns["time"] - batch.columns["time"][:, :1]
    assert torch.equal(relative, torch.tensor(offsets, dtype=torch.float32).expand_as(relative) - offsets[0])
    anchors = {(int(f[0, 0, 0, 0]), float(t[0])) for f, t in zip(batch.frames, batch.columns["time"], strict=True)}
    assert len(anchors) == len(clips)


@given(st.integers(1, 3000), st.integers(0, 2**32))
def test_permute_is_a_permutation(count: int, seed: int) -> None:
    order = permute(np.arange(count), count, np.random.SeedSequence(seed))
    assert sorted(order.tolist()) == list(range(count))


@given(st.integers(1, 200), st.integers(1, 64), st.integers(0, 1000))
def test_every_epoch_visits_each_clip_once(count: int, size: int, seed: int) -> None:
    order = np.concatenate([batch_order(count, size, seed, step) for step in range(2 * count // size + 2)])
    for epoch in range(2):
        assert sorted(order[epoch * count : (epoch + 1) * count].tolist()) == list(range(count))


def test_order_looks_random() -> None:
    order = batch_order(100_000, 100_000, 0, 0)
    neighbours = np.corrcoef(order[:-1], order[1:])[0, 1]
    assert abs(neighbours) < 0.02
    assert abs(np.corrcoef(order, np.arange(100_000))[0, 1]) < 0.02
    assert np.mean(batch_order(100_000, 100_000, 1, 0) == order) < 0.001


def test_batches_resume_at_any_step(store: Store) -> None:
    clips = Clips(store, (0, 1), ["time"])
    run = clips.batches(7, seed=3)
    taken = [next(run) for _ in range(9)]
    resumed = clips.batches(7, seed=3, step=5)
    for expected in taken[5:]:
        again = next(resumed)
        assert torch.equal(again.frames, expected.frames)
        assert torch.equal(again.columns["time"], expected.columns["time"])


def test_works_with_a_plain_data_loader(store: Store) -> None:
    clips = Clips(store, (0, 2), ["time"])
    batch = next(iter(DataLoader(clips, batch_size=4)))
    assert batch["frames"].shape == (4, 2, 2, 2, 3) and batch["time"].shape == (4, 2)
    assert torch.equal(clips[5]["time"], clips.gather(np.array([5])).columns["time"][0])


def test_images_are_channels_last_without_a_copy_of_the_layout() -> None:
    frames = torch.randint(0, 256, (5, 2, 8, 8, 3), dtype=torch.uint8)
    image = Batch(frames, (0, 2), {}).images(2)
    assert image.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(image, frames[:, 1].permute(0, 3, 1, 2).float() / 255)
    stack = Batch(frames, (0, 1), {}).stack(last=1, count=2)
    assert stack.shape == (5, 6, 8, 8) and torch.equal(stack[:, :3], Batch(frames, (0, 1), {}).images(0))


def test_pickled_clips_reopen_their_files(store: Store) -> None:
    clips = Clips(store, (0, 1), ["time"])
    data = pickle.dumps(clips)
    assert len(data) < 5000
    again = pickle.loads(data)
    assert torch.equal(again.batch(8, 0, 0).frames, clips.batch(8, 0, 0).frames)
    halves = [clips.batch(8, 0, 3, rank, 2).frames for rank in range(2)]
    assert torch.equal(torch.cat(halves), clips.batch(8, 0, 3).frames)


def test_split_by_episode_and_too_short(store: Store) -> None:
    groups = split_episodes(store, 0.4, 0.6)
    assert [group.tolist() for group in groups] == [[0, 1], [2, 3, 4]]
    assert set(Clips(store, (0,), episodes=groups[1]).gather(np.arange(33)).frames[:, 0, 0, 0, 0].tolist()) == {2, 3, 4}
    with pytest.raises(UserError, match="at least 31 frames"):
        Clips(store, (0, 30))


@settings(max_examples=20)
@given(st.lists(st.booleans(), min_size=4, max_size=20))
def test_labels_are_where_they_are_looked_for(labelled: list[bool]) -> None:
    """In the third quarter as far as there are any, then in the last; who learns without labels has none to spare."""
    count = len(labelled)
    columns = {"frames": Column("uint8", (1, 1, 3)), "action_mask": Column("bool", ())}
    with TemporaryDirectory() as folder:
        writer = StoreWriter(Path(folder) / "store", columns, {})
        for index, known in enumerate(labelled):
            rows = {"frames": np.zeros((3, 1, 1, 3), np.uint8), "action_mask": np.array([False, known, False])}
            writer.append(index, rows, {})
        store = writer.finish({}, count)
        parts = split_episodes(store, *SHARES)
        learned, held = split_episodes(store, 0.5, 0.5)
    assert sorted(np.concatenate(parts)) == list(range(count)) and all((np.diff(part) > 0).all() for part in parts)
    assert np.array_equal(learned, parts[0]) and set(held) == {*parts[1], *parts[2]}
    if all(labelled) or not any(labelled):
        assert np.array_equal(np.concatenate(parts), np.arange(count))
        return
    found = [sum(labelled[index] for index in part) for part in parts]
    assert found[1] == min(sum(labelled), len(parts[1]))
    assert found[2] == min(sum(labelled) - found[1], len(parts[2]))


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.sampled_from(["uint8", "float32"]))
def test_stacks_are_those_of_torch(samples: int, images: int, channels: int, kind: str) -> None:
    """Numpy's copy of whole pixels moves the same numbers into the same places, whatever a pixel's size."""
    numbers = np.random.default_rng(0).integers(0, 256, (images, samples, 3, 5, channels)).astype(kind)
    parts = list(torch.from_numpy(numbers))
    stacked = interleave(parts)
    assert torch.equal(stacked, torch.cat([part.permute(0, 3, 1, 2) for part in parts], 1))
    assert stacked.is_contiguous(memory_format=torch.channels_last)
    views = [part.permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1) for part in parts]
    assert torch.equal(interleave(views), stacked)  # of frames that lie otherwise in memory
