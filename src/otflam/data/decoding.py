"""Video files and image folders as square frames of the stored size, decoded, shrunk and dropped one by one.

Shrinking uses Pillow's triangle filter, which averages over the source pixels of each new one (so nothing aliases) and
has no negative lobes (so edges do not ring: ringing that moves with an edge would look like motion beside it).

Axes: t frames, size pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from otflam.core import SILENT, Progress, UserError, open_video, video_stream
from otflam.data.options import VideoImport
from otflam.data.pictures import (
    MAX_ASPECT,
    Frame,
    Origin,
    Picture,
    Piece,
    UnusableVideoError,
    VideoFacts,
    list_images,
    naming,
    open_pictures,
)

LOSSY_NOTE = (
    "lossy compression disturbs motion (H.264 at crf 18 changes gradient differences by about half); "
    "keep lossless sources if you can, e.g. libx264rgb at crf 0 or PNG frames"
)


def decode_video(
    path: Path, config: VideoImport, size: int = 0, progress: Progress = SILENT
) -> tuple[UInt8[np.ndarray, "t size size 3"], VideoFacts]:
    """Read a video file or image folder whole as square frames, or raise UnusableVideoError with the reason.

    `progress` advances by what was read of its `size`.
    """
    (piece,) = decode_pieces(path, replace(config, cuts=False, split_seconds=None), size, progress)
    assert piece.facts is not None
    return piece.frames, piece.facts


def decode_pieces(path: Path, config: VideoImport, size: int = 0, progress: Progress = SILENT) -> Iterator[Piece]:
    """The same shot by shot, and shots that are longer than `split_seconds` part by part.

    Pieces with fewer than `min_frames` are left out, so that a source of which all are too short is unusable.
    """
    seen, ready, given = _Seen(), None, []
    for piece in _grow(path, config, seen, size, progress):
        if len(piece.kept) >= config.min_frames:
            if ready is not None:
                yield ready
            ready, given = piece, given + list(piece.kept)
    if ready is None:
        raise _too_short(path, config, seen.kept)
    yield replace(ready, facts=seen.facts(tuple(given)))


class _Seen:
    """What is known of a source, frame by frame."""

    def __init__(self) -> None:
        self.count = self.kept = 0
        self.start = self.end = Fraction()
        self.origin: Origin | None = None

    def add(self, picture: Picture) -> None:
        self.origin = picture.origin if self.origin is None or picture.origin.lossy else self.origin
        self.start, self.end = (picture.time if self.count == 0 else self.start), picture.time
        self.count += 1

    def facts(self, given: tuple[int, ...]) -> VideoFacts:
        assert self.origin is not None
        missing = round((self.end - self.start) * (self.origin.fps or 0)) + 1 - self.count
        missing = missing if missing > 1 + self.count // 50 else 0  # rates and time stamps are rounded
        fps, dropped = float(self.origin.fps) if self.origin.fps else None, self.kept - len(given)
        facts = (self.origin.codec, self.origin.lossy, fps, self.origin.size)
        return VideoFacts(*facts, self.count, missing, given, dropped)


def _grow(path: Path, config: VideoImport, seen: _Seen, size: int, progress: Progress) -> Iterator[Piece]:
    """All pieces, however short; what is `seen` on the way is told."""
    limit = math.inf if config.split_seconds is None else Fraction(config.split_seconds)
    # A bytearray grows in place: a list of frames would need their memory twice when it is joined.
    pixels, kept, begin, read, cut = bytearray(), [], Fraction(), 0, False

    def piece() -> Piece:
        frames = np.frombuffer(pixels, np.uint8).reshape(-1, config.size, config.size, 3)
        assert seen.origin is not None
        return Piece(frames, tuple(kept), float(begin - seen.start), seen.origin)

    for number, (picture, keep) in enumerate(_mark_nearest(open_pictures(path, config), config.fps)):
        seen.add(picture)
        progress.advance(int(picture.place * size) - read)
        read, cut = int(picture.place * size), cut or picture.cut
        if not keep:
            continue
        if kept and (cut or picture.time - begin >= limit):
            yield piece()
            pixels, kept = bytearray(), []
        begin, cut = (begin if kept else picture.time), False
        with naming(path):
            square = fit_square(picture.load(), config.size, config.fit, picture.aspect)
            pixels += np.rot90(square, picture.turns).tobytes()
        kept.append(number)
        seen.kept += 1
    if kept:
        yield piece()


def _too_short(path: Path, config: VideoImport, kept: int) -> UnusableVideoError:
    """The error of a source that gives no episode."""
    if kept >= config.min_frames:
        problem = f"no shot of its {kept} frames is long enough"
        return UnusableVideoError(path, problem, f"each has fewer than {config.min_frames}; see --no-cuts")
    number = f"{kept} frame{'s' * (kept != 1)}" + (f" at {config.fps:g} fps" if config.fps else "")
    few = "a transition needs at least 2" if kept < 2 else f"fewer than the {config.min_frames} asked for"
    return UnusableVideoError(path, number, few)


def read_frames(path: Path, shorter: int, step: int, cuts: bool = False) -> Iterator[Frame]:
    """The frames of a video file or image folder, one by one, with the aspect kept; where a shot begins, if asked.

    The shorter side becomes `shorter` pixels and the longer one a multiple of `step`.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist", "give a video file or a folder of images")
    first = None
    for number, picture in enumerate(open_pictures(path, VideoImport(cuts=cuts))):
        with naming(path):
            image = picture.load()
            width, height = image.width * picture.aspect, float(image.height)
            first = first or (width, height)
            if (width, height) != first:
                sizes = [f"{a:.0f}×{b:.0f}" for a, b in ((width, height), first)]
                raise UnusableVideoError(path, f"frame {number} is {sizes[0]}", f"those before it are {sizes[1]}")
            if max(first) > MAX_ASPECT * min(first):
                raise UnusableVideoError(path, f"frames of {width:.0f}×{height:.0f}", f"at most {MAX_ASPECT}:1 is read")
            scale = shorter / min(first)
            size = [max(1, round(side * scale / step)) * step for side in first]
            small = image.resize((size[0], size[1]), Image.Resampling.BILINEAR)
            upright, fps = _upright(image, picture), picture.origin.fps
            frame = Frame(np.rot90(np.asarray(small), picture.turns), upright, fps, picture.cut)
        yield frame
    if first is None:
        raise UserError(f"{path} has no frames", "give a video file or a folder of images")


def _upright(image: Image.Image, picture: Picture) -> Image.Image:
    if picture.aspect != 1:
        image = image.resize((max(1, round(image.width * picture.aspect)), image.height), Image.Resampling.BILINEAR)
    return image.rotate(90 * picture.turns, expand=True) if picture.turns else image


def count_frames(path: Path) -> int:
    """About how many frames a source has: what its header says, or else its packets, which are not decoded."""
    with naming(path):
        if path.is_dir():
            return len(list_images(path))
        with open_video(path) as container:
            stream = video_stream(container)
            return 0 if stream is None else stream.frames or sum(packet.size > 0 for packet in container.demux(stream))


def _mark_nearest(pictures: Iterator[Picture], fps: float | None) -> Iterator[tuple[Picture, bool]]:
    """Say of each picture whether it is the nearest to one of the times 0, 1/fps, 2/fps ... (all are, without fps)."""
    if fps is None:
        yield from ((picture, True) for picture in pictures)
        return
    # A picture is nearest to the times up to the middle between it and the next; exact fractions make ties repeatable.
    rate, passed, first, previous = Fraction(fps), -1, None, None
    for picture in pictures:
        if previous is not None and first is not None:
            reached = math.floor(((previous.time + picture.time) / 2 - first) * rate)
            yield previous, reached > passed
            passed = max(passed, reached)
        first, previous = picture.time if first is None else first, picture
    if previous is not None and first is not None:
        yield previous, math.floor((previous.time - first) * rate) > passed


def fit_square(image: Image.Image, size: int, fit: str, aspect: float = 1.0) -> UInt8[np.ndarray, "size size 3"]:
    """Crop or pad an image to a square around its centre, keeping proportions; `aspect` is that of its pixels."""
    width, height = image.width * aspect, float(image.height)
    if fit == "crop":
        side = min(width, height)
        across, down = max(1, round(side / aspect)), max(1, round(side))
        # Whole pixels, because a fraction would blur images that need no resizing at all.
        left, top = (image.width - across) // 2, (image.height - down) // 2
        box = (left, top, left + across, top + down)
        # Cut first: with `box`, resize would mix in what lies beyond the edge.
        return np.asarray(image.crop(box).resize((size, size), Image.Resampling.BILINEAR))
    scale = size / max(width, height)
    inner = image.resize((max(1, round(width * scale)), max(1, round(height * scale))), Image.Resampling.BILINEAR)
    canvas = Image.new("RGB", (size, size))
    canvas.paste(inner, ((size - inner.width) // 2, (size - inner.height) // 2))
    return np.asarray(canvas)
