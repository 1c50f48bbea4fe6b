"""Games on the report's page: films of a held-out level, with codes, and with everything that the game knows of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from otflam.core import Progress
from otflam.data import Store
from otflam.report.bodies import MAX_FILMS
from otflam.report.explorer import Figure
from otflam.report.films import FILM_PARTS, FILM_SIDE, join_columns, middle_of
from otflam.report.runs import THINGS, find_films
from otflam.report.style import INK, SERIES, hexed

COLOURS = {
    "agent": hexed(INK),
    **dict(zip(("enemy", "projectile", "shot", "item", "hazard"), SERIES, strict=False)),
}
"""Of boxes, by kind; walls and particles have none."""
PALE = 0.55
"""How much of a frame's own colour is left under the boxes."""


def game_figures(runs: Path | None, progress: Progress) -> list[Figure]:
    """A film of each game's data set with a vocabulary of its own, under `runs`."""
    figures: list[Figure] = []
    for store, tokenizer, index in find_films(runs, THINGS, progress) if runs is not None and runs.is_dir() else ():
        progress.note(f"film of {store.path.name}")
        shown, columns = middle_of(store.episode(index, "frames"), tokenizer)
        columns.append([boxed(store, index, frame) for frame in shown])
        caption = (
            f"{store.path.name}: a held-out level; the codes of its motion, the stronger the more it moves; and what "
            f"the game knows: {', '.join(COLOURS)}, each as large as it is."
        )
        film = join_columns(columns)
        figures.append(film.figure(f"game-{len(figures) + 1}", caption, *FILM_PARTS, "What the game knows"))
        if len(figures) == MAX_FILMS:
            break
    return figures


def boxed(store: Store, index: int, frame: int) -> Image.Image:
    """A pale frame with a box around everything in sight, by kind."""
    picture = 255 - PALE * (255.0 - store.episode(index, "frames")[frame])
    large = Image.fromarray(picture.astype(np.uint8)).resize((FILM_SIDE, FILM_SIDE), Image.Resampling.NEAREST)
    x0, y0, width = store.episode(index, "view")[frame].tolist()
    scale, draw, kinds = FILM_SIDE / width, ImageDraw.Draw(large), store.meta["thing_kinds"]
    for kind, x, y, _, _, rx, ry in store.episode(index, THINGS)[frame].tolist():
        name = kinds[int(kind)] if kind >= 0 else ""
        if name in COLOURS:
            across, down = FILM_SIDE / 2 + scale * (x - x0), FILM_SIDE / 2 - scale * (y - y0)
            box = (across - scale * rx, down - scale * ry, across + scale * rx, down + scale * ry)
            draw.rectangle(box, outline=COLOURS[name], width=2)
    return large
