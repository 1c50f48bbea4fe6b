"""Episodes to look at: contact sheets, and videos that any browser plays (H.264 in an mp4 whose index comes first)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.stream import VideoStream
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

from otflam.core import replacing
from otflam.data import Store
from otflam.report.style import INK, MARGIN, MUTED, PAPER, save_picture

TILE = 112
"""Side of one shown frame in pixels."""
CAPTION = 22
MIN_SIDE_PIXELS = 360
"""Pixels that the shorter side of a filmed episode gets at least about."""
ENCODER_OPTIONS = {"crf": "18", "preset": "veryfast", "x264-params": "colormatrix=smpte170m"}
"""Nearly without loss. The colours are those that ffmpeg converts to, which a browser would have to guess."""


def contact_sheet(store: Store, path: Path, title: str, episodes: int = 6, frames: int = 8) -> Path:
    """Draw evenly spaced frames of evenly spaced episodes, each row with what is known about its episode."""
    chosen = np.unique(np.linspace(0, len(store) - 1, episodes).round().astype(int))
    width = MARGIN + frames * (TILE + 4) + MARGIN
    sheet = Image.new("RGB", (width, 44 + len(chosen) * (TILE + CAPTION + MARGIN)), PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((MARGIN, 12), title, INK, ImageFont.load_default(17))
    for row, episode in enumerate(chosen):
        top = 44 + row * (TILE + CAPTION + MARGIN)
        times = np.linspace(0, store.lengths[episode] - 1, frames).round().astype(int)
        pen.text((MARGIN, top), _caption(store, int(episode), times), MUTED, ImageFont.load_default(13))
        for column, time in enumerate(times):
            pixels = np.asarray(store.episode(int(episode), "frames")[time])
            tile = Image.fromarray(pixels if pixels.shape[-1] == 3 else pixels[..., 0])
            scaled = tile.resize((TILE, TILE), Image.Resampling.NEAREST if tile.width <= TILE else Image.Resampling.BOX)
            sheet.paste(scaled.convert("RGB"), (MARGIN + column * (TILE + 4), top + CAPTION - 2))
    return save_picture(sheet, path)


def _caption(store: Store, index: int, times: np.ndarray) -> str:
    episode = store.episodes[index]
    facts = [f"episode {index}", f"frames {', '.join(map(str, times))}"]
    facts += [str(episode[key]) for key in ("policy", "motion_name", "source") if key in episode]
    if "return" in episode:
        facts.append(f"return {episode['return']:.1f}")
    return "  ·  ".join(facts)


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
                stream = container.add_stream("libx264", rate, options=ENCODER_OPTIONS)
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
    scale = max(1, round(MIN_SIDE_PIXELS / min(frames.shape[1:3])))
    with writing_video(path, rate) as add:
        for frame in frames:
            add(frame.repeat(scale, 0).repeat(scale, 1))
    return path
