"""Moving textures: scenes from no world, drawn from a seed, in which anything may move in any way.

A background, shapes and jointed limbs, each with a texture of its own; a camera that pans, turns and zooms; then light
that flickers, lenses that blur, sensors that are noisy, and codecs. No real footage is needed to draw them, and what
moves is told by nothing but its motion.

Axes: t frames, h w pixels, c colours. Positions are (row, column), with the frame from -1 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, UInt8

from otflam.core import SILENT, Progress, UserError, to_json, versions
from otflam.data.compression import recompress_frames
from otflam.data.options import MovingTextures
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter, finished_store

TILE = 128
"""Pixels along a texture, which repeats beyond its edge."""
SPEEDS = (0.005, 0.12)
"""Slowest and fastest way in a frame, as a share of half a frame's side; drawn evenly on a logarithmic scale."""
CODECS = (None, None, 18, 23, 28, 33)
"""Qualities (crf) of the H.264 that an episode has gone through, or none."""
RATE = 25
"""Frames a second that a codec is told."""


@dataclass(frozen=True)
class Course:
    """How something moves: it drifts, and swings about its drift; everything is per frame."""

    drift: np.ndarray
    swing: np.ndarray
    rate: float
    phase: float

    def at(self, time: int) -> np.ndarray:
        return self.drift * time + self.swing * math.sin(self.rate * time + self.phase)


@dataclass(frozen=True)
class Layer:
    """A texture that is seen where its shape is."""

    texture: Float[np.ndarray, "tile tile 3"]
    grain: float
    """Times a texture fits into half a frame."""
    size: tuple[float, float]
    """Half lengths of the shape; infinite: it is the background."""
    roundness: float
    """Of the shape's corners: 2 is an ellipse, 8 nearly a box."""
    start: np.ndarray
    angle: float
    way: Course
    turn: Course
    growth: float
    """Factor of size per frame."""
    parent: int | None = None
    """The layer on whose end it is hinged."""


def make_moving_textures(config: MovingTextures, out: Path, progress: Progress = SILENT) -> Store:
    """Draw a data set into `out`, continuing one that was interrupted."""
    for name, least in {"episodes": 1, "frames": 2, "size": 16, "seed": 0}.items():
        if getattr(config, name) < least:
            raise UserError(f"--{name} is {getattr(config, name)}", f"it must be at least {least}")
    if (store := finished_store(out, to_json(config))) is not None:
        return store
    columns = {"frames": Column("uint8", (config.size, config.size, 3))}
    writer = StoreWriter(out, columns, to_json(config), slot=config.frames, lock=True)
    writer.drop_damaged()
    done = writer.done().keys()
    writer.reserve(config.episodes * config.frames)
    for index in range(config.episodes):
        if index not in done:
            random = np.random.default_rng((config.seed, index))
            quality = CODECS[random.integers(len(CODECS))]
            frames = np.stack([*draw_scene(random, config.frames, config.size)])
            if quality is not None:
                frames = recompress_frames(frames, quality, Fraction(RATE))
            writer.write(index, {"frames": frames}, {"crf": quality, "fps": RATE})
        progress.reach(index + 1, config.episodes)
    return writer.finish({"kind": "moving-textures", "versions": versions("numpy", "av")}, config.episodes)


def draw_scene(random: np.random.Generator, frames: int, size: int) -> Iterator[UInt8[np.ndarray, "h w 3"]]:
    """The frames of a scene, one by one."""
    layers, camera = [draw_background(random), *draw_bodies(random)], draw_camera(random)
    flicker = 0.15 * random.random() if random.random() < 0.3 else 0.0
    tempo, blur, noise = random.uniform(0.1, 1.5), random.uniform(0, 1.0), random.choice([0, 0, 0.5, 1, 2, 4])
    grid = (np.arange(size) + 0.5) / size * 2 - 1
    for time in range(frames):
        picture = paint(layers, camera, grid, time)
        picture = soften(picture * (1 + flicker * math.sin(tempo * time)), blur)
        yield np.rint(picture + noise * random.standard_normal(picture.shape)).clip(0, 255).astype(np.uint8)


def draw_texture(random: np.random.Generator) -> Float[np.ndarray, "tile tile 3"]:
    """Noise of a random roughness: as it is, cut into patches of a few shades, or in stripes and blots."""
    steps, kind = np.fft.fftfreq(TILE) * TILE, random.integers(3)
    size = np.hypot(steps[:, None] * random.uniform(0.4, 1), steps * random.uniform(0.4, 1))
    fall = random.uniform(1.5 if kind == 2 else 1.0, 2.2)
    spectrum = np.where(size > 0, 1 / np.maximum(size, 1) ** fall, 0)
    waves = random.standard_normal((3, TILE, TILE)) + 1j * random.standard_normal((3, TILE, TILE))
    fields = np.fft.ifft2(waves * spectrum).real
    fields = fields / fields.std((1, 2), keepdims=True)
    if kind == 1:
        fields = np.round(fields * random.uniform(0.5, 1.5))
    elif kind == 2:
        fields = np.sign(np.sin(fields * random.uniform(1, 3) + random.uniform(0, math.tau)))
    # Light and shade are the same in all colours, as they mostly are in pictures; two tints are not.
    mixed = np.concatenate([np.ones((1, 3)), random.uniform(0, 0.5) * random.standard_normal((2, 3))])
    mean = random.uniform(50, 205) + random.uniform(0, 40) * random.standard_normal(3)
    return mean + random.uniform(8, 60) * np.moveaxis(np.tensordot(mixed, fields, (0, 0)), 0, 2)


def draw_course(random: np.random.Generator, count: int, still: float) -> Course:
    """A way with `count` numbers; with a chance of `still` there is none."""
    if random.random() < still:
        return Course(np.zeros(count), np.zeros(count), 0.0, 0.0)
    speed = math.exp(random.uniform(*np.log(SPEEDS)))
    heading = random.standard_normal(count)
    heading = speed * heading / np.linalg.norm(heading)
    rate, share = random.uniform(0.1, 0.8), random.random()
    # A swing's greatest speed is its width times its rate.
    return Course(share * heading, (1 - share) * heading[::-1] / rate, rate, random.uniform(0, math.tau))


def draw_background(random: np.random.Generator) -> Layer:
    still, whole = draw_course(random, 2, 1.0), (math.inf, math.inf)
    return Layer(draw_texture(random), random.uniform(0.2, 1.2), whole, 2.0, np.zeros(2), 0.0, still, still, 1.0)


def draw_bodies(random: np.random.Generator) -> list[Layer]:
    """A few shapes, and on some of them limbs of one to three links."""
    bodies: list[Layer] = []
    for _ in range(random.integers(0, 5)):
        size = tuple(np.exp(random.uniform(math.log(0.08), math.log(0.6), 2)))
        bodies.append(draw_shape(random, size, random.uniform(-0.9, 0.9, 2), None))
        for _ in range(random.integers(0, 3)):
            parent = len(bodies) - 1
            for _ in range(random.integers(1, 4)):
                bodies.append(
                    draw_shape(random, (random.uniform(0.04, 0.1), random.uniform(0.1, 0.35)), np.zeros(2), parent)
                )
                parent = len(bodies) - 1
    return bodies


def draw_shape(random: np.random.Generator, size: tuple[float, ...], start: np.ndarray, parent: int | None) -> Layer:
    hinged = parent is not None
    turn, way = draw_course(random, 1, 0.1 if hinged else 0.5), draw_course(random, 2, 1.0 if hinged else 0.15)
    growth = 1.0 if hinged or random.random() < 0.7 else random.uniform(0.98, 1.02)
    facts = (random.choice([2.0, 2.0, 4.0, 8.0]), start, random.uniform(0, math.tau))
    # Half a frame's side turns into radians: limbs swing as fast as things move.
    turn = Course(turn.drift * (0.5 if hinged else 1), turn.swing * 4, turn.rate, turn.phase)
    parent = None if parent is None else parent + 1  # the background is the first layer
    return Layer(draw_texture(random), random.uniform(0.2, 2), (size[0], size[1]), *facts, way, turn, growth, parent)


def draw_camera(random: np.random.Generator) -> tuple[Course, Course, Course, float]:
    """Where the camera looks, how it is turned, how it shakes, and the factor by which it zooms in a frame."""
    pan, turn = draw_course(random, 2, 0.5), draw_course(random, 1, 0.8)
    shake = Course(np.zeros(2), random.normal(0, 0.01, 2), random.uniform(1, 3), 0.0)
    steady = Course(np.zeros(2), np.zeros(2), 0.0, 0.0)
    return pan, turn, shake if random.random() < 0.2 else steady, random.choice([1, 1, 1, random.uniform(0.985, 1.015)])


def paint(layers: list[Layer], camera: tuple[Course, Course, Course, float], grid: np.ndarray, time: int) -> np.ndarray:
    """All layers as the camera sees them, the later ones in front."""
    pan, turn, shake, zoom = camera
    seen = np.stack(np.broadcast_arrays(grid[:, None], grid), -1) / zoom**time
    seen = seen @ rotation(float(turn.at(time)[0])) + pan.at(time) + shake.at(time)
    places: list[tuple[np.ndarray, float]] = []
    picture = np.zeros((*seen.shape[:2], 3))
    for layer in layers:
        places.append(place(layer, places, layers, time))
        centre, angle = places[-1]
        own = (seen - centre) @ rotation(angle) / layer.growth**time
        inside = covers(layer, own)
        if inside.all():
            picture = sample(layer.texture, own * layer.grain)
        elif inside.any():
            picture[inside] = sample(layer.texture, own[inside] * layer.grain)
    return picture


def place(layer: Layer, places: list[tuple[np.ndarray, float]], layers: list[Layer], time: int) -> tuple:
    """A layer's centre and angle; one that is hinged begins at the end of its parent."""
    angle = layer.angle + float(layer.turn.at(time)[0])
    if layer.parent is None:
        return layer.start + layer.way.at(time), angle
    centre, above = places[layer.parent]
    angle += above
    reach = layers[layer.parent].size[1]
    return centre + reach * axis_of(above) + layer.size[1] * axis_of(angle), angle


def rotation(angle: float) -> Float[np.ndarray, "2 2"]:
    """Turns rows of (row, column) into the axes of something that is turned so."""
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def axis_of(angle: float) -> Float[np.ndarray, " 2"]:
    """Where the second axis of something that is turned so points."""
    return rotation(angle) @ np.array([0.0, 1.0])


def covers(layer: Layer, own: Float[np.ndarray, "h w 2"]) -> Bool[np.ndarray, "h w"]:
    """Which of some places, in a layer's own axes, its shape covers."""
    if math.isinf(layer.size[0]):
        return np.ones(own.shape[:2], bool)
    return (np.abs(own / np.array(layer.size)) ** layer.roundness).sum(-1) <= 1


def sample(texture: Float[np.ndarray, "tile tile 3"], where: Float[np.ndarray, "... 2"]) -> Float[np.ndarray, "... 3"]:
    """Bilinear values of a repeating texture."""
    pixels = where * (TILE / 2)
    low = np.floor(pixels)
    (down, across), index = np.moveaxis(pixels - low, -1, 0)[..., None], low.astype(np.int64) % TILE
    (row, column), after = np.moveaxis(index, -1, 0), (index + 1) % TILE
    upper = texture[row, column] * (1 - across) + texture[row, after[..., 1]] * across
    lower = texture[after[..., 0], column] * (1 - across) + texture[after[..., 0], after[..., 1]] * across
    return upper * (1 - down) + lower * down


def soften(picture: Float[np.ndarray, "h w c"], width: float) -> Float[np.ndarray, "h w c"]:
    """A blur of three pixels, by a weight of the neighbours from 0 to 1."""
    edge, share = np.pad(picture, ((1, 1), (1, 1), (0, 0)), mode="edge"), width / 3
    rows = (1 - share) * edge[1:-1] + share / 2 * (edge[:-2] + edge[2:])
    return (1 - share) * rows[:, 1:-1] + share / 2 * (rows[:, :-2] + rows[:, 2:])
