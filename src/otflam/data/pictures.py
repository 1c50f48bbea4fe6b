"""Frames of video files and image folders: opened one by one, not converted yet, and what is known of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import Interpolation
from av.video.stream import VideoStream
from jaxtyping import UInt8
from PIL import Image, ImageOps

from otflam.core import DAMAGED, UserError, open_image, open_video, reason, video_stream
from otflam.data.cuts import THUMB, mark_cuts
from otflam.data.options import VideoImport

IMAGES = {".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
"""Files that are one frame each; a folder of them is one episode. An animated .gif or .apng is a video."""
MAX_ASPECT = 16
"""How much longer one side of a pixel, or of a frame that is shown whole, may be than the other."""


@dataclass(frozen=True)
class VideoFacts:
    codec: str
    lossy: bool
    fps: float | None
    """Of the source; image folders have none."""
    source_size: tuple[int, int]
    """Width and height as shown, after rotation."""
    source_frames: int
    """Frames decoded from the source."""
    missing: int
    """Frames that the time stamps promise and the decoder did not give: a damaged file, or one of variable rate."""
    kept: tuple[int, ...]
    """The source's number of every frame returned."""
    dropped: int = 0
    """Kept frames that lie in pieces which are too short, and are not returned."""


@dataclass(frozen=True)
class Piece:
    """What becomes an episode of a source: all of it, a shot, or a part of one that is short enough."""

    frames: UInt8[np.ndarray, "t size size 3"]
    kept: tuple[int, ...]
    """The source's number of every frame."""
    begin: float
    """Seconds of the source before it; 0 where these are not known."""
    origin: Origin
    facts: VideoFacts | None = None
    """Of the source; only its last piece knows them."""


class UnusableVideoError(UserError):
    """One source that cannot become an episode; the import goes on without it."""

    def __init__(self, path: Path, problem: str, cure: str) -> None:
        super().__init__(f"{path}: {problem}", cure)
        self.reason = f"{problem}: {cure}"


@dataclass(frozen=True)
class Origin:
    """What one frame came from."""

    codec: str
    lossy: bool
    fps: Fraction | None
    size: tuple[int, int]


@dataclass(frozen=True)
class Picture:
    """One source frame that is not converted yet, so that a frame that is not kept costs no conversion."""

    load: Callable[[], Image.Image]
    thumb: Callable[[], UInt8[np.ndarray, "y x 3"]]
    """The whole frame as the few pixels that cuts are found by."""
    origin: Origin
    time: Fraction = Fraction()
    turns: int = 0
    """Quarter turns counter-clockwise that show it upright."""
    aspect: float = 1.0
    """Width of a source pixel over its height."""
    place: float = 0.0
    """How much of the source lies before it, as far as the source says."""
    cut: bool = False
    """Whether a new shot begins here, where cuts are looked for."""


@dataclass(frozen=True)
class Frame:
    """One frame of a video that is passed on, not kept."""

    small: UInt8[np.ndarray, "h w 3"]
    """At the size that was asked for."""
    whole: Image.Image
    """As the source shows it: upright, with square pixels, at its own resolution."""
    fps: Fraction | None
    cut: bool
    """Whether a new shot begins here, where cuts are looked for."""


def open_pictures(path: Path, config: VideoImport) -> Iterator[Picture]:
    """The frames of a source one by one, each saying whether a shot begins there, where cuts are looked for."""
    with naming(path):
        pictures = _folder_pictures(path, config) if path.is_dir() else _video_pictures(path, config)
        if config.cuts:
            pictures = (replace(picture, cut=cut) for picture, cut in mark_cuts(pictures, lambda each: each.thumb()))
        yield from pictures


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Turn what is raised over one damaged source into a line that names it."""
    try:
        yield
    except DAMAGED as error:
        raise UnusableVideoError(path, "is not a readable video", reason(error)) from None


def _video_pictures(path: Path, config: VideoImport) -> Iterator[Picture]:
    """Decode a file's first video stream."""
    number = 0
    try:
        with open_video(path) as container:
            if (stream := video_stream(container)) is None:
                raise UnusableVideoError(path, "no video stream", "it is no video")
            rate = stream.average_rate or stream.guessed_rate
            if config.fps and (not rate or rate < 0.99 * config.fps):
                slow = f"{float(rate):g} fps, slower than the {config.fps:g} asked for" if rate else "no frame rate"
                raise UnusableVideoError(path, slow, "frames are never invented, choose a lower --fps or none")
            aspect = stream.sample_aspect_ratio or Fraction(1)
            if not Fraction(1, MAX_ASPECT) <= aspect <= MAX_ASPECT:
                shape = f"{aspect.numerator}:{aspect.denominator}"
                raise UnusableVideoError(path, f"its pixels are {shape}", "re-encode it with square ones")
            seconds = (container.duration or 0) / av.time_base
            for number, frame in enumerate(container.decode(stream)):
                turns = round(frame.rotation / 90) % 4
                size = (frame.height, frame.width) if turns % 2 else (frame.width, frame.height)
                origin = Origin(stream.codec.canonical_name, is_lossy(stream), rate or None, size)
                stamped = frame.pts is not None and frame.time_base
                time = frame.pts * frame.time_base if stamped else Fraction(number) / (rate or 1)
                place = min(max(float(time) / seconds, 0.0), 1.0) if seconds > 0 else 0.0
                yield Picture(frame.to_image, partial(_thumbnail, frame), origin, time, turns, float(aspect), place)
    except av.FFmpegError as error:
        where = f"cannot be decoded after frame {number}" if number else "is not a readable video"
        raise UnusableVideoError(path, where, error.strerror or str(error)) from None


def _thumbnail(frame: av.VideoFrame) -> UInt8[np.ndarray, "y x 3"]:
    """A frame as cuts are found by, without ever making it a picture."""
    width, height = THUMB
    small = frame.reformat(width, height, "rgb24", interpolation=Interpolation.AREA)
    return small.to_ndarray()


def is_lossy(stream: VideoStream) -> bool:
    """Whether the codec may have changed pixels, by ffmpeg's own table; what cannot be known counts as lossy."""
    codec = stream.codec
    if codec.canonical_name == "gif":
        return True  # the codec keeps its pixels, but they were cut to 256 colours, mostly with dither that flickers
    if codec.lossless and codec.lossy:
        # H.264 and H.265 can be either, and the stream does not say. Those who code RGB nearly always mean lossless.
        return not (stream.format.name or "").startswith("gbr")
    return not codec.lossless


def list_images(folder: Path) -> list[Path]:
    """A folder's images in natural order."""
    files = [file for file in folder.iterdir() if file.suffix.lower() in IMAGES and not file.name.startswith(".")]
    return sorted(files, key=lambda file: natural_key(file.name))


def _folder_pictures(folder: Path, config: VideoImport) -> Iterator[Picture]:
    """Open a folder's images one by one."""
    if config.fps:
        raise UnusableVideoError(folder, "image folders have no frame rate", "import them without --fps")
    files = list_images(folder)
    for number, file in enumerate(files):
        try:
            with open_image(file) as opened:
                if opened.mode.startswith(("I", "F")):  # Pillow would clip these to white
                    raise UnusableVideoError(folder, f"{file.name} has more than 8 bits", "convert the images")
                codec = (opened.format or "").lower()
                image = ImageOps.exif_transpose(opened).convert("RGB")
        except DAMAGED as error:
            raise UnusableVideoError(folder, f"{file.name} is not a readable image", reason(error)) from None
        origin = Origin(codec, codec in ("jpeg", "mpo", "webp"), None, image.size)
        thumb = partial(image.resize, THUMB, Image.Resampling.BOX, reducing_gap=2.0)
        yield Picture(
            lambda image=image: image, lambda thumb=thumb: np.asarray(thumb()), origin, place=number / len(files)
        )


def natural_key(name: str) -> tuple[list[str | int], str]:
    """Sorts frame2 before frame10; the name itself parts 01 from 1."""
    return [int(part) if index % 2 else part for index, part in enumerate(re.split(r"(\d+)", name))], name
