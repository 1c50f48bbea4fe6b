"""Contact sheets: a few episodes of a data set at a glance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from otflam.core import replacing
from otflam.data import Store
from otflam.report.style import INK, MARGIN, MUTED, PAPER

TILE = 112
"""Side of one shown frame in pixels."""
CAPTION = 22


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
    with replacing(path) as temporary:
        sheet.save(temporary, "PNG")
    return path


def _caption(store: Store, index: int, times: np.ndarray) -> str:
    episode = store.episodes[index]
    facts = [f"episode {index}", f"frames {', '.join(map(str, times))}"]
    facts += [str(episode[key]) for key in ("policy", "motion_name", "source") if key in episode]
    if "return" in episode:
        facts.append(f"return {episode['return']:.1f}")
    return "  ·  ".join(facts)
