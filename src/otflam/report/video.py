"""Frames as a video that any browser plays: H.264 in an mp4 whose index comes first."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.stream import VideoStream
from jaxtyping import UInt8

from otflam.core import replacing

SHORTER = 360
"""Pixels that the shorter side of a filmed episode gets at least about."""
QUALITY = {"crf": "18", "preset": "veryfast", "x264-params": "colormatrix=smpte170m"}
"""Nearly without loss. The colours are those that ffmpeg converts to, which a browser would have to guess."""


@contextmanager
def writing_video(path: Path, rate: Fraction) -> Generator[Callable[[UInt8[np.ndarray, "h w 3"]], None]]:
    """Gives what takes the frames one by one; only a few are in memory, and the file appears at the end."""
    with (
        replacing(path) as temporary,
        av.open(str(temporary), "w", format="mp4", container_options={"movflags": "+faststart"}) as container,
    ):
        stream: VideoStream | None = None
        count = 0

        def add(frame: UInt8[np.ndarray, "h w 3"]) -> None:
            nonlocal stream, count
            if stream is None:
                stream = container.add_stream("libx264", rate, options=QUALITY)
                stream.height, stream.width = (side + side % 2 for side in frame.shape[:2])
                stream.pix_fmt = "yuv420p"
            # Its colours have half the resolution, so that both sides must be even.
            even = np.pad(frame, ((0, stream.height - len(frame)), (0, stream.width - frame.shape[1]), (0, 0)), "edge")
            picture = av.VideoFrame.from_ndarray(even, format="rgb24")
            picture.pts, picture.time_base, count = count, 1 / rate, count + 1
            container.mux(stream.encode(picture))

        yield add
        if stream is not None:
            container.mux(stream.encode())


def write_video(frames: UInt8[np.ndarray, "n h w 3"], rate: Fraction, path: Path) -> Path:
    """Film an episode, whose small frames are enlarged by a whole number."""
    scale = max(1, round(SHORTER / min(frames.shape[1:3])))
    with writing_video(path, rate) as add:
        for frame in frames:
            add(frame.repeat(scale, 0).repeat(scale, 1))
    return path
