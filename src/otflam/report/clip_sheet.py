"""A video under its motion codes: the overlay of a frame, and a sheet of some frames with a legend of the codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw, ImageFont

from otflam.report.palette import GAIN, colours_of, decoded_effects, name_code, show_codes, show_motion
from otflam.report.style import INK, MARGIN, MUTED, PAPER, save_picture
from otflam.tokenizer import OTF

T = TypeVar("T")
Shown = tuple[int, Image.Image, UInt8[np.ndarray, "u v"], Float[np.ndarray, "u v"]]
"""Number of a frame, the frame, its codes, and how strongly each patch moves."""
OPACITY = 0.6
"""How much of a frame its codes cover where it moves most."""
COLUMNS = 6
MAX_WIDTH, MAX_HEIGHT = 420, 280
"""Pixels of a frame on the sheet at most."""
LEFT, TOP, GAP = 90, 62, 4
ENTRY, TILE = 118, 26
"""Width of an entry of the legend, and height of its picture."""


class Sampler(Generic[T]):
    """Keeps evenly spaced items of a stream whose end is not known: whenever it has too many, it drops every second."""

    def __init__(self) -> None:
        self.step, self.seen = 1, 0
        self.kept: list[tuple[int, T]] = []

    def offer(self, make: Callable[[], T]) -> None:
        """The item is made only if it is kept."""
        if self.seen % self.step == 0:
            self.kept.append((self.seen, make()))
        if len(self.kept) > 4 * COLUMNS:
            self.kept, self.step = self.kept[::2], 2 * self.step
        self.seen += 1

    def chosen(self) -> list[tuple[int, T]]:
        places = np.linspace(0, len(self.kept) - 1, min(COLUMNS, len(self.kept))).round().astype(int)
        return [self.kept[place] for place in places]


def overlay(
    picture: Image.Image,
    codes: UInt8[np.ndarray, "u v"] | np.ndarray,
    strength: Float[np.ndarray, "u v"],
    tokenizer: OTF,
) -> Image.Image:
    """A frame under a film of its codes' colours, as strong as the motion; what stands still stays clear."""
    film = Image.fromarray(show_codes(codes, tokenizer)).resize(picture.size, Image.Resampling.NEAREST)
    mask = Image.fromarray((255 * OPACITY * strength).astype(np.uint8)).resize(picture.size, Image.Resampling.NEAREST)
    return Image.composite(film, picture, mask)


def draw_clip_sheet(
    tokenizer: OTF, shown: list[Shown], counts: Float[np.ndarray, " k"], title: str, path: Path
) -> Path:
    """Frames, their codes and both together, above the codes that occur where something moves."""
    width, height = shown[0][1].size
    across = max(LEFT + len(shown) * (width + GAP), LEFT + 6 * ENTRY) + MARGIN
    used = [int(code) for code in np.argsort(-counts, kind="stable") if counts[code] > 0]
    per = (across - MARGIN - LEFT) // ENTRY
    below = TOP + 3 * (height + GAP) + 2 * MARGIN
    sheet = Image.new("RGB", (across, below + 30 + -(-len(used) // per) * (TILE + 8) + MARGIN), PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((MARGIN, 10), title, INK, ImageFont.load_default(17))
    for row, name in enumerate(("frame", "codes", "overlay")):
        pen.text((MARGIN, TOP + row * (height + GAP) + height // 2 - 8), name, INK, ImageFont.load_default(13))
    for column, (number, picture, codes, strength) in enumerate(shown):
        x = LEFT + column * (width + GAP)
        pen.text((x, TOP - 20), f"frame {number}", MUTED, ImageFont.load_default(12))
        blank = Image.new("RGB", (width, height), PAPER)
        film = Image.fromarray(show_codes(codes, tokenizer)).resize((width, height), Image.Resampling.NEAREST)
        mask = Image.fromarray((255 * strength).astype(np.uint8)).resize((width, height), Image.Resampling.NEAREST)
        pictures = (picture, Image.composite(film, blank, mask), overlay(picture, codes, strength, tokenizer))
        for row, tile in enumerate(pictures):
            sheet.paste(tile, (x, TOP + row * (height + GAP)))
    _draw_legend(sheet, tokenizer, counts, used, (LEFT, below, per))
    return save_picture(sheet, path)


@torch.inference_mode()
def _draw_legend(
    sheet: Image.Image, tokenizer: OTF, counts: np.ndarray, used: list[int], place: tuple[int, int, int]
) -> None:
    (left, top, per), pen, colours = place, ImageDraw.Draw(sheet), colours_of(tokenizer)
    heading = "codes where something moves: colour, number, share, and what it draws on gray (with full contrast)"
    pen.text((left, top), heading if used else "nothing moves", MUTED, ImageFont.load_default(12))
    effects = decoded_effects(tokenizer)
    for entry, code in enumerate(used):
        x, y = left + entry % per * ENTRY, top + 24 + entry // per * (TILE + 8)
        pen.rectangle((x, y, x + 12, y + TILE), tuple(colours[code].tolist()))
        pen.text((x + 18, y - 1), name_code(tokenizer, code), INK, ImageFont.load_default(13))
        pen.text((x + 18, y + 14), f"{100 * counts[code] / counts.sum():.1f} %", MUTED, ImageFont.load_default(10))
        effect = effects[code]
        drawn = show_motion(effect / effect.abs().max().clamp_min(1e-6) * 0.5 / GAIN)
        sheet.paste(Image.fromarray(drawn).resize((TILE, TILE), Image.Resampling.NEAREST), (x + 60, y))


def sheet_tile(picture: Image.Image) -> Image.Image:
    """A frame as the sheet shows it: as it is, shrunk to fit, or a small one enlarged by a whole number."""
    scale = min(MAX_WIDTH / picture.width, MAX_HEIGHT / picture.height)
    size = [max(1, round(side * (int(scale) if scale >= 1 else scale))) for side in picture.size]
    return picture.resize((size[0], size[1]), Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.LANCZOS)
