"""What codecs do to videos: frames that have gone through H.264 at some quality.

Axes: t frames, h w pixels.
"""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import Interpolation
from jaxtyping import UInt8

from otflam.core import SILENT, Progress, UserError, versions
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter, finished_store

QUALITIES = (18, 28, 36)
"""Rates of quality (crf) that episodes go through in turn: hardly visible, usual on the web, poor."""
RATE = Fraction(25)
"""Frames a second where nothing is known of an episode's."""
EXACT = Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.BITEXACT
"""Colours are converted to the same bits by every processor."""
REPEATABLE = {"threads": "1", "x264-params": "asm=0"}
"""With its fast code x264 reads memory that nobody has written, and one call's bytes differ from the next one's."""


def recompress_frames(
    frames: UInt8[np.ndarray, "t h w 3"], quality: int, rate: Fraction = RATE
) -> UInt8[np.ndarray, "t h w 3"]:
    """The frames after H.264; the same frames always give the same bytes, on any processor."""
    buffer, (height, width) = io.BytesIO(), frames.shape[1:3]
    even = np.pad(frames, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    with av.open(buffer, "w", format="mp4") as box:
        stream = box.add_stream("libx264", rate=rate, options={"crf": str(quality), **REPEATABLE})
        stream.height, stream.width, stream.pix_fmt = even.shape[1], even.shape[2], "yuv420p"
        for picture in even:
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            box.mux(stream.encode(frame.reformat(format="yuv420p", interpolation=EXACT)))
        box.mux(stream.encode())
    buffer.seek(0)
    with av.open(buffer, "r") as box:
        found = [picture.reformat(format="rgb24", interpolation=EXACT).to_ndarray() for picture in box.decode(video=0)]
    return np.stack(found)[:, :height, :width]


def recompress(source: Store, out: Path, progress: Progress = SILENT) -> Store:
    """The same episodes as they come out of H.264, at one quality after the other."""
    if "frames" not in source or source.columns["frames"].shape[-1] != 3:
        raise UserError(f"{source.path} has no colour frames", "only these go through a video codec")
    plan = {"source": source.hash, "qualities": QUALITIES}
    if (store := finished_store(out, plan)) is not None:
        return store
    writer = StoreWriter(out, {"frames": Column("uint8", source.columns["frames"].shape)}, plan, lock=True)

    def read(index: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        quality, rate = QUALITIES[index % len(QUALITIES)], source.episodes[index].get("fps")
        told = Fraction(rate).limit_denominator(1000) if rate else RATE
        frames = recompress_frames(np.asarray(source.episode(index, "frames")), quality, told)
        return {"frames": frames}, {"crf": quality, "fps": rate}

    writer.append_missing(len(source), read, progress)
    return writer.finish({"kind": "recompressed", "versions": versions("av", "numpy")}, len(source))
