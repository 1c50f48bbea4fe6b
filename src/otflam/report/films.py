"""Films on the report's page: pictures side by side as one animated image.

Axes: n frames, h w pixels, u v patches.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from PIL import Image

from otflam.core import clip_batches
from otflam.report.clip_sheet import overlay
from otflam.report.explorer import Figure, as_uri, movement
from otflam.tokenizer import OTF

FILM_FRAMES, FILM_SIDE, FILM_MS = 60, 192, 60
"""Frames of a film, pixels of each of its pictures, and how long one is seen."""
FILM_QUALITY = 70
FILM_PARTS = ("Video", "Its motion codes")
"""Titles of the first columns."""
GAP = 4
"""Pixels between pictures, which show the page."""


@dataclass(frozen=True)
class Film:
    """An animated image, and its first picture for those who want nothing to move."""

    src: str
    still: str
    width: int
    height: int

    def figure(self, name: str, caption: str, *parts: str) -> Figure:
        """The film with its caption; `parts` are the titles of its columns."""
        return Figure(name, caption, self.src, self.still, self.width, self.height, parts)


def join_columns(columns: Sequence[Sequence[Image.Image]]) -> Film:
    """Columns of pictures of one size as a film."""
    side = columns[0][0].size
    pictures = []
    for row in zip(*columns, strict=True):
        wide = Image.new("RGBA", (len(row) * (side[0] + GAP) - GAP, side[1]))
        for place, each in enumerate(row):
            wide.paste(each, (place * (side[0] + GAP), 0))
        pictures.append(wide)
    film, still = io.BytesIO(), io.BytesIO()
    more: dict[str, Any] = {"save_all": True, "append_images": pictures[1:], "duration": FILM_MS, "loop": 0}
    pictures[0].save(film, "WEBP", quality=FILM_QUALITY, method=2, **more)
    pictures[0].save(still, "WEBP", quality=FILM_QUALITY, method=4)
    sources = [as_uri("image/webp", stream.getvalue()) for stream in (film, still)]
    return Film(sources[0], sources[1], *pictures[0].size)


@torch.inference_mode()
def seen_codes(
    frames: UInt8[np.ndarray, "t h w c"], tokenizer: OTF
) -> tuple[int, Int64[np.ndarray, "n u v"], UInt8[np.ndarray, "n u v"]]:
    """The first frame that has codes, the codes from there on, and how much moves in every patch."""
    seen = [tokenizer.observe(batch) for batch in clip_batches(frames, tokenizer.config.motion.offsets)]
    frame, signal = (torch.cat(parts) for parts in zip(*seen, strict=True))
    side = (len(signal), tokenizer.config.grid, tokenizer.config.grid)
    codes = tokenizer.encode(signal, frame).numpy().astype(np.int64).reshape(side)
    first = -min(0, *tokenizer.config.motion.offsets)
    return first, codes, movement(signal, tokenizer.config.patch).reshape(side)


def middle_of(frames: UInt8[np.ndarray, "t h w c"], tokenizer: OTF) -> tuple[range, list[list[Image.Image]]]:
    """Which frames of an episode are shown, its middle; these, enlarged; and the same under their codes."""
    first, codes, strength = seen_codes(frames, tokenizer)
    begin = max(0, (len(codes) - FILM_FRAMES) // 2)
    shown = range(begin, min(begin + FILM_FRAMES, len(codes)))
    plain = [enlarge(frames[first + place]) for place in shown]
    coded = [cover(picture, codes[at], strength[at], tokenizer) for picture, at in zip(plain, shown, strict=True)]
    return range(first + shown.start, first + shown.stop), [plain, coded]


def enlarge(frame: UInt8[np.ndarray, "h w c"]) -> Image.Image:
    picture = Image.fromarray(np.array(frame) if frame.shape[-1] == 3 else np.repeat(frame, 3, -1))
    return picture.resize((FILM_SIDE, FILM_SIDE), Image.Resampling.NEAREST)


def cover(
    picture: Image.Image, codes: Int64[np.ndarray, "u v"], strength: UInt8[np.ndarray, "u v"], tokenizer: OTF
) -> Image.Image:
    return overlay(picture, codes, (strength / 255.0) ** 2, tokenizer)
