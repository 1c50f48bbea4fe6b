"""Films that hold many episodes: frames at given times, and films that are begun anew at a size.

Axes: t frames, h w pixels.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.frame import PictureType
from jaxtyping import UInt8
from PIL import Image

from otflam.core import DAMAGED, UserError, open_image, open_video, reason, video_stream
from otflam.data.pictures import is_lossy

os.environ.setdefault("SVT_LOG", "1")  # that encoder prints whatever it does
CURE = "download or write it again"


@dataclass(frozen=True)
class Codec:
    name: str
    """Of ffmpeg's encoder."""
    pixels: str
    shown: str
    """Its pixels as decoders call them."""
    told: str
    """What LeRobot calls it."""
    options: dict[str, str] = field(default_factory=dict)


CODECS = {
    # Frames that lean on frames to come would begin before time 0; each episode begins with a frame that leans on none.
    "lossless": Codec("libx264rgb", "rgb24", "gbrp", "h264", {"crf": "0", "g": "10", "bf": "0", "forced-idr": "1"}),
    # Every second frame stands alone, as LeRobot's own films have it: policies read single frames at random.
    "h264": Codec("libx264", "yuv420p", "yuv420p", "h264", {"crf": "23", "g": "2", "bf": "0", "forced-idr": "1"}),
    "av1": Codec("libsvtav1", "yuv420p", "yuv420p", "av1", {"crf": "30", "g": "2", "preset": "8"}),
}


@dataclass(frozen=True)
class Shown:
    """One frame as its film shows it."""

    image: Image.Image
    codec: str
    lossy: bool


def frames_at(file: Path, times: np.ndarray, tolerance: float) -> Iterator[Shown]:
    """The frames nearest to some times in a film, which must rise; none may be farther than the tolerance."""
    try:
        with open_video(file) as container:
            if (stream := video_stream(container)) is None or stream.time_base is None:
                raise UserError(f"{file} has no film", CURE)
            container.seek(max(0, int(float(times[0]) / stream.time_base) - 1), stream=stream)
            codec, lossy, place = stream.codec.canonical_name, is_lossy(stream), 0
            before: av.VideoFrame | None = None
            for frame in container.decode(stream):
                if frame.time is None:
                    continue
                while place < len(times):
                    newer = before is None or _distance(before, times[place]) > _distance(frame, times[place])
                    if newer and frame.time < times[place]:
                        break
                    chosen = frame if before is None or newer else before
                    _refuse_far(_distance(chosen, times[place]), tolerance, file, times[place])
                    yield Shown(chosen.to_image(), codec, lossy)
                    place += 1
                if place == len(times):
                    return
                before = frame
            while place < len(times):  # behind the last frame
                _refuse_far(_distance(before, times[place]), tolerance, file, times[place])
                if before is not None:
                    yield Shown(before.to_image(), codec, lossy)
                place += 1
    except DAMAGED as error:
        raise UserError(f"{file} is not a readable film ({reason(error)})", CURE) from None


def _distance(frame: av.VideoFrame | None, time: float) -> float:
    """Seconds between a frame and a time."""
    return math.inf if frame is None or frame.time is None else abs(frame.time - time)


def _refuse_far(far: float, tolerance: float, file: Path, time: float) -> None:
    if far > tolerance:
        raise UserError(f"{file} has no frame at {time:.3f} s", f"its film is damaged or too short: {CURE}")


def picture(data: bytes | None, where: str) -> Shown:
    """A frame that lies in a table."""
    if not data:
        raise UserError(f"{where} has no picture", CURE)
    try:
        with open_image(io.BytesIO(data)) as opened:
            codec = (opened.format or "").lower()
            return Shown(opened.convert("RGB"), codec, codec in ("jpeg", "webp"))
    except DAMAGED as error:
        raise UserError(f"{where} is not a readable picture ({reason(error)})", CURE) from None


class Film:
    """A film that is being written."""

    def __init__(self, file: Path, codec: Codec, size: tuple[int, int], fps: Fraction) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.container = av.open(str(file), "w", format="mp4")
        self.stream: Any = self.container.add_stream(codec.name, rate=fps, options=codec.options)
        self.stream.height, self.stream.width = size
        self.stream.pix_fmt, self.time_base = codec.pixels, 1 / fps
        self.frames = self.bytes = 0

    def add(self, frames: UInt8[np.ndarray, "t h w 3"]) -> None:
        """Append an episode, whose first frame stands alone."""
        for number, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            frame.pts, frame.time_base = self.frames, self.time_base
            if number == 0:
                frame.pict_type = PictureType.I
            self._mux(frame)
            self.frames += 1

    def close(self) -> None:
        self._mux(None)
        self.container.close()

    def _mux(self, frame: av.VideoFrame | None) -> None:
        for packet in self.stream.encode(frame):
            self.bytes += packet.size
            self.container.mux(packet)
