"""Frames as a video."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
from jaxtyping import UInt8
from PIL import Image

from otflam.core.files import replacing


def write_video(frames: UInt8[np.ndarray, "n h w 3"], rate: float, path: Path) -> Path:
    """An mp4 that plays anywhere; sides are enlarged to even numbers, as its codec asks."""
    scale = max(1, round(360 / min(frames.shape[1:3])))
    height, width = (side * scale // 2 * 2 for side in frames.shape[1:3])
    with replacing(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=max(1, round(rate)))
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = width, height, "yuv420p", 4_000_000
        for frame in frames:
            picture = np.asarray(Image.fromarray(frame).resize((width, height), Image.Resampling.NEAREST))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())
    return path
