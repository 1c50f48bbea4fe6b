"""Moments of videos side by side: a sheet of their frames, and a page on which they move.

Axes: t h w c frames of a moment.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from markupsafe import Markup, escape
from PIL import Image, ImageDraw, ImageFont

from otflam.core import write_text
from otflam.report.explorer import as_uri
from otflam.report.style import INK, MARGIN, MUTED, PAPER, hexed, save_picture

TILE, CAPTION, SHOWN = 112, 22, 8
"""Pixels along a frame and above it, and frames of a moment that a sheet shows."""
SIDE = 160
"""Pixels along a moving picture."""
MAX_FILMED = 40
"""Frames of a moving picture at most."""


@dataclass(frozen=True)
class Shot:
    """A part of a video that is shown."""

    name: str
    frames: UInt8[np.ndarray, "t h w c"]
    rate: float
    episode: int
    """Of the data set; below 0: of none."""
    begin: float
    """Seconds of its video before it."""
    distance: float = 0.0

    @property
    def place(self) -> str:
        """Where it is from."""
        return f"{self.name} at {clock(self.begin)} to {clock(self.begin + len(self.frames) / self.rate)}"


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    minutes, rest = divmod(round(float(seconds), 2), 60)
    return f"{int(minutes)}:{rest:05.2f}"


def captions(query: Shot, found: Sequence[Shot]) -> list[str]:
    return [f"like this: {query.place}", *(
        f"{rank}. {shot.place}, distance {shot.distance:.3f}" for rank, shot in enumerate(found, 1)
    )]  # fmt: skip


def draw_shots(query: Shot, found: Sequence[Shot], title: str, path: Path) -> Path:
    """A row of frames for the moment that was asked for and for each that was found."""
    shots = [query, *found]
    size = (2 * MARGIN + SHOWN * (TILE + 4), 44 + len(shots) * (TILE + CAPTION + MARGIN))
    sheet = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((MARGIN, 12), title, INK, ImageFont.load_default(17))
    for row, (shot, caption) in enumerate(zip(shots, captions(query, found), strict=True)):
        top = 44 + row * (TILE + CAPTION + MARGIN)
        pen.text((MARGIN, top), caption, INK if row == 0 else MUTED, ImageFont.load_default(13))
        times = np.unique(np.linspace(0, len(shot.frames) - 1, SHOWN).round().astype(int))
        for column, time in enumerate(times):
            tile = as_picture(shot.frames[time]).resize((TILE, TILE), Image.Resampling.BICUBIC)
            sheet.paste(tile, (MARGIN + column * (TILE + 4), top + CAPTION - 2))
    return save_picture(sheet, path)


def write_shots(query: Shot, found: Sequence[Shot], title: str, path: Path) -> Path:
    """The same as a page that holds its moving pictures."""
    items = [
        Markup('<figure><img src="{}" alt=""><figcaption>{}</figcaption></figure>').format(film(shot), caption)
        for shot, caption in zip([query, *found], captions(query, found), strict=True)
    ]
    look = (
        f"body{{font:14px sans-serif;background:{hexed(PAPER)};color:{hexed(INK)};margin:24px}}"
        f"figure{{display:inline-block;width:{SIDE}px;margin:0 14px 14px 0;vertical-align:top}}"
        f"img{{width:{SIDE}px;height:{SIDE}px}}figcaption{{font-size:12px}}"
    )
    head = Markup("<!doctype html><html lang=en><meta charset=utf-8><title>{}</title>").format(title)
    body = Markup("<style>{}</style><h1>{}</h1>{}</html>").format(Markup(look), escape(title), Markup("").join(items))
    write_text(path, str(head + body))
    return path


def film(shot: Shot) -> str:
    """A moment as an image that moves, without end."""
    step = -(-len(shot.frames) // MAX_FILMED)
    pictures = [as_picture(frame).resize((SIDE, SIDE), Image.Resampling.BICUBIC) for frame in shot.frames[::step]]
    buffer, pause = io.BytesIO(), max(20, round(1000 * step / shot.rate))
    pictures[0].save(buffer, "WEBP", save_all=True, append_images=pictures[1:], duration=pause, loop=0, quality=70)
    return as_uri("image/webp", buffer.getvalue())


def as_picture(frame: UInt8[np.ndarray, "h w c"]) -> Image.Image:
    pixels = np.asarray(frame)
    return Image.fromarray(pixels if pixels.shape[-1] == 3 else pixels[..., 0]).convert("RGB")


def as_png(picture: Image.Image) -> str:
    """A picture as a page holds it."""
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return as_uri("image/png", buffer.getvalue())
