"""The built-in background videos, drawn from seeds so that they resemble natural video.

Layers of 1/f texture slide past each other under a moving camera, and objects enter, cross the scene and leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw, ImageFilter
from PIL.Image import Resampling

NATIVE = 256
"""Side of a built-in frame before it is resized."""
WIDTH, HEIGHT, VIEW = 512, 384, NATIVE + 2
"""Size of a layer, and side of the window on it, which has a spare pixel for shifts by parts of a pixel."""
# Dark, middle and light tone of what natural videos show.
TONES = """sky 4a74ad 92b8de f0f5fa, cloud 757f88 a9b0b6 e3e6e8, dusk 3a3354 b0656b f8c98c, leaf 101c0b 3a5a26 9fb35c,
    autumn 26160c 8a5522 dfae50, grass 2a3c14 6d8a35 c9cf80, earth 33241a 8b6b4a cfb591, sand 7d6444 c7a877 f2dfb8,
    water 0d2c38 33697c b8d6da, snow 7587a0 c6d3e1 fdfdff, asphalt 242528 5e6064 aaabad, brick 341a15 8c4a38 cfa288,
    concrete 45433f 8f8b83 dad5ca, night 04060d 182036 5d6688, wood 241207 7a4a26 cf9d70, wall 6a6156 b5a994 f2e9d8,
    red 3b0608 b3262a f08a70, blue 081638 2750a8 8fb4ea, yellow 5a3c04 d9a414 fbe58a, white 55585c c4c6c8 ffffff"""
TONE = {name: [list(bytes.fromhex(tone)) for tone in tones] for name, *tones in map(str.split, TONES.split(","))}
SMOOTH = ("sky", "cloud", "dusk", "night", "wall")
OBJECTS = ("red", "blue", "yellow", "white", "wood", "autumn", "water", "night", "brick", "asphalt")
# Two tones each of the back, the middle and the ground, and the outline of the middle.
THEMES = (
    "sky cloud leaf grass ridge grass earth",
    "leaf autumn leaf wood trunks earth leaf",
    "sky cloud water leaf ridge water snow",
    "cloud sky brick concrete blocks asphalt concrete",
    "dusk sky earth brick ridge sand earth",
    "cloud snow snow leaf ridge snow cloud",
    "night dusk night concrete blocks asphalt night",
    "wall wood wood brick blocks wood wall",
    "autumn leaf autumn wood trunks autumn grass",
    "sky dusk concrete wall blocks sand concrete",
)


@dataclass(frozen=True)
class Cutout:
    """A textured piece of a scene, and where its corner is in every frame: a wide layer, or an object."""

    image: Image.Image
    mask: Image.Image
    path: Float[np.ndarray, "frames 2"]


def film_scene(rng: np.random.Generator, theme: int) -> Iterator[Image.Image]:
    """Draw the frames of one clip in one of the THEMES."""
    frames = int(rng.integers(40, 91))
    camera = _move_camera(rng, frames)
    zoom = 1 + rng.choice([0, 0, 0.15, 0.3]) * (1 + rng.choice([-1, 1]) * np.linspace(-1, 1, frames)) / 2
    pieces = _draw_pieces(rng, camera, THEMES[theme].split())
    for time, side in enumerate(NATIVE / zoom):
        canvas = Image.new("RGB", (VIEW, VIEW))
        # Pieces move by whole pixels, which is fast; the resize below adds the camera's part of a pixel.
        part = -camera[time] % 1
        for piece in pieces:
            x, y = (piece.path[time] + part).round().astype(int).tolist()
            canvas.paste(piece.image, (x, y), piece.mask)
        left, top = (part + (NATIVE - side) / 2).tolist()
        yield canvas.resize((NATIVE, NATIVE), Resampling.BILINEAR, (left, top, left + side, top + side))


def _move_camera(rng: np.random.Generator, frames: int) -> Float[np.ndarray, "frames 2"]:
    """A smooth pan, in some clips with an unsteady hand."""
    time = np.linspace(-1, 1, frames)[:, None]
    eased = time + rng.uniform(0, 0.3) * np.sin(np.pi * time)
    pan = rng.uniform([12, 0], [64, 20]) * rng.choice([-1, 1], 2) * eased
    wave = rng.uniform(0, [10, 5]) * np.sin(rng.uniform(1, 6, 2) * time + rng.uniform(0, 6, 2))
    shake = rng.choice([0, 0, 1.5]) * rng.standard_normal((frames + 2, 2)).clip(-2, 2)
    return pan + wave + (shake[:-2] + shake[1:-1] + shake[2:]) / 3


def _draw_pieces(rng: np.random.Generator, camera: Float[np.ndarray, "frames 2"], theme: Sequence[str]) -> list[Cutout]:
    """Layers and objects from back to front; what is near moves faster than what is far."""
    cast, grain = rng.uniform(0.8, 1.15) * rng.uniform(0.9, 1.1, 3), rng.uniform(0, 1)
    horizon = rng.uniform(-40, 40) + HEIGHT / 2
    margin = np.array([WIDTH - VIEW, HEIGHT - VIEW]) / 2

    def layer(tones: Sequence[str], outline: str, top: float, depth: float) -> Cutout:
        image = _draw_texture(rng, (WIDTH, HEIGHT), tones, cast, grain, outline)
        sway = rng.uniform(0, [1.5, 0.5]) * np.sin(np.arange(len(camera))[:, None] / rng.uniform(2, 8))
        return Cutout(image, _draw_outline(rng, outline, top), camera * depth + sway - margin)

    pieces = [layer(theme[:2], "full", 0.0, 0.3), layer(theme[2:4], theme[4], horizon - rng.uniform(10, 60), 0.6)]
    pieces += [layer(theme[5:], "ridge", horizon + 15, 1.0)]
    pieces += [_draw_object(rng, len(camera), horizon - margin[1], grain) for _ in range(rng.integers(1, 5))]
    if rng.random() < 0.4:
        outline = "trunks" if rng.random() < 0.5 else "ridge"
        pieces += [layer([theme[3], theme[5]], outline, HEIGHT / 2 + rng.uniform(90, 120), 1.4)]
    return pieces


def _draw_object(rng: np.random.Generator, frames: int, ground: float, grain: float) -> Cutout:
    """A body with limbs that enters on one side and leaves on the other."""
    side = int(rng.integers(50, 170))
    mask = Image.new("L", (side, side))
    body = side * rng.uniform([0.16, 0.12], [0.36, 0.32])
    ImageDraw.Draw(mask).ellipse([*(side / 2 - body), *(side / 2 + body)], fill=255)
    for _ in range(rng.integers(2, 6)):
        place, limb = side / 2 + body * rng.uniform(-1, 1, 2), side * rng.uniform(0.04, 0.13, 2)
        shape = ImageDraw.Draw(mask).ellipse if rng.random() < 0.6 else ImageDraw.Draw(mask).rectangle
        shape([*(place - limb), *(place + limb)], fill=255)
    tones = rng.choice(OBJECTS, 2).tolist()
    image = _draw_texture(rng, (side, side), tones, np.ones(3), grain, "object")
    time, start = np.arange(frames), frames * rng.uniform(-0.3, 0.4)
    done = (time - start) / (frames * rng.uniform(0.5, 1))
    x = (VIEW + side) * (done if rng.random() < 0.5 else 1 - done) - side
    y = ground + rng.uniform(0, 90) - side / 2 + rng.uniform(0, 6) * np.sin(time / rng.uniform(1.5, 6))
    return Cutout(image, mask.filter(ImageFilter.GaussianBlur(rng.uniform(0.6, 1.6))), np.stack([x, y], 1))


def _draw_outline(rng: np.random.Generator, kind: str, top: float) -> Image.Image:
    """The opaque part of a layer: all of it, or what is below a ridge, below roofs, or below a ridge and in trunks."""
    if kind == "full":
        return Image.new("L", (WIDTH, HEIGHT), 255)
    line = top + rng.uniform(3, 12) * _make_noise(rng, (WIDTH, 1), 1.2, 1.0)[0]
    if kind == "blocks":
        line = top - np.repeat(rng.uniform(-20, 70, 32), rng.integers(20, 90, 32))[:WIDTH]
    if kind == "trunks":
        place, half = rng.uniform([[0], [3]], [[WIDTH], [16]], (2, rng.integers(2, 9)))[:, :, None]
        line = np.where((np.abs(np.arange(WIDTH) - place) < half).any(0), 0, line)
    mask = Image.fromarray(np.uint8(255 * (np.arange(HEIGHT)[:, None] > line)))
    return mask.filter(ImageFilter.GaussianBlur(rng.uniform(0.5, 1.5)))


def _draw_texture(
    rng: np.random.Generator, size: tuple[int, int], tones: Sequence[str], cast: np.ndarray, grain: float, kind: str
) -> Image.Image:
    """Noise and overlapping shapes in two tones that blend into each other."""
    smooth = tones[0] in SMOOTH or kind == "object"
    light = _make_noise(rng, size, 1.3 if smooth else 1.15 - 0.3 * grain, rng.uniform(1, 2.5))
    light += (0.1 if smooth else 0.9) * _make_leaves(rng, size, 4 + 8 * (1 - grain))
    light += rng.uniform(-0.4, 1.2) * np.linspace(-1, 1, size[1], dtype=np.float32)[:, None]
    if kind == "blocks":
        x, y, pitch = np.arange(size[0]), np.arange(size[1])[:, None], int(rng.integers(12, 30))
        light -= np.float32(1.2) * ((x % pitch < pitch * 0.5) & (y % int(pitch * 1.3) < pitch * 0.7))
    levels = (128 + 40 * light).clip(0, 255).astype(np.uint8)
    blend = (110 + 90 * _make_noise(rng, (64, 48), 1.5, 1.4)).clip(0, 255).astype(np.uint8)
    ramps = ([np.interp(range(256), [0, 128, 255], tone) for tone in np.transpose(TONE[name])] for name in tones)
    first, second = (
        Image.fromarray((np.transpose(ramp) * cast).clip(0, 255).astype(np.uint8)[levels]) for ramp in ramps
    )
    return Image.composite(second, first, Image.fromarray(blend).resize(size, Resampling.BICUBIC))


def _make_noise(
    rng: np.random.Generator, size: tuple[int, int], slope: float, stretch: float
) -> Float[np.ndarray, "height width"]:
    """Noise of amplitude 1/f^slope, mean 0 and deviation 1, whose grain is `stretch` times wider than high."""
    width, height = size
    radius = np.hypot(np.fft.rfftfreq(width) * stretch, np.fft.fftfreq(height)[:, None])
    amplitude = _raise(np.maximum(radius, 1 / WIDTH).astype(np.float32), np.float32(-slope))
    noise = rng.standard_normal((2, *radius.shape), dtype=np.float32)
    field = np.fft.irfft2(amplitude * (noise[0] + np.complex64(1j) * noise[1]), (height, width))
    return (field - field.mean()) / field.std()


def _raise(base: Float[np.ndarray, "height width"], power: np.float32) -> Float[np.ndarray, "height width"]:
    """A power, number by number: for whole arrays numpy rounds otherwise on processors with AVX-512, and a clip must be
    the same on all."""
    return np.array([number**power for number in base.ravel()], np.float32).reshape(base.shape)


def _make_leaves(rng: np.random.Generator, size: tuple[int, int], least: float) -> Float[np.ndarray, "height width"]:
    """Ellipses on top of each other with radii r of density 1/r^3, which give the edges and spectra of real scenes."""
    image = Image.new("L", size, 128)
    pencil = ImageDraw.Draw(image)
    count = int(size[0] * size[1] / (24 * least**2))
    radius = (least / np.sqrt(1 - rng.random(count))).clip(None, 50)[:, None] * rng.uniform(0.5, 1.5, (count, 2))
    centre = rng.random((count, 2)) * size
    shades = rng.normal(128, 40, count).clip(0, 255).astype(int).tolist()
    for corners, shade in zip(np.hstack([centre - radius, centre + radius]).tolist(), shades, strict=True):
        pencil.ellipse(corners, fill=shade)
    return (np.asarray(image, np.float32) - 128) / 40
