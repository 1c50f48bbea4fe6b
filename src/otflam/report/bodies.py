"""Two bodies on the report's page: a film with codes and masks, and which codes fire on whom.

Axes: n frames, h w pixels, u v patches, k codes.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from PIL import Image

from otflam.core import Progress, UserError
from otflam.data import MASKS, Clips, Store, mask_column
from otflam.report.clip_sheet import overlay
from otflam.report.explorer import Figure, as_uri, movement
from otflam.report.figures_models import chart_codes
from otflam.report.runs import RIVAL, find_films
from otflam.tokenizer import OTF

FILM_FRAMES, FILM_SIDE, FILM_MS = 60, 192, 60
"""Frames of a film, pixels of each of its pictures, and how long one is seen."""
MAX_FILMS = 2
TINTS = np.array([[235, 235, 230], [40, 40, 45], [60, 120, 190]], np.uint8)
"""Colours of the background, the agent and the rival in the picture of masks."""
MOVING = 64
"""Of 255: patches that move less are not counted."""


def body_figures(runs: Path | None, progress: Progress) -> list[Figure]:
    """A film and a chart of each data set with a rival and a vocabulary of its own, under `runs`."""
    figures: list[Figure] = []
    for store, tokenizer, index in find_films(runs, RIVAL, progress) if runs is not None and runs.is_dir() else ():
        try:
            masks = mask_column(store, episodes=[index])
        except UserError as error:
            progress.note(f"left out {store.path.name}: {error.problem}")
            continue
        progress.note(f"film of {store.path.name}")
        caption = (
            f"{store.path.name}: a held-out episode; the codes of its motion, as strong as it moves; and whose every "
            "pixel is (dark: the agent's, blue: the rival's)."
        )
        owners = masks.episode(masks.places[index], MASKS)
        film = film_of(store, tokenizer, index, lambda frame, owners=owners: Image.fromarray(TINTS[owners[frame]]))
        figures.append(Figure(f"film-{len(figures) + 1}", caption, film))
        counts = count_codes(store, tokenizer, masks, index)
        chart = chart_codes(counts, store.path.name)
        figures.append(Figure(f"bodies-{len(figures) + 1}", chart.caption, as_uri("image/svg+xml", chart.svg())))
        if len(figures) >= 2 * MAX_FILMS:
            break
    return figures


@torch.inference_mode()
def seen_codes(
    store: Store, tokenizer: OTF, index: int
) -> tuple[int, Int64[np.ndarray, "n u v"], UInt8[np.ndarray, "n u v"]]:
    """The first frame that has codes, the codes from there on, and how much moves in every patch."""
    offsets = sorted({0, *tokenizer.config.motion.offsets})
    clips = Clips(store, offsets, (), [index])
    _, signal = tokenizer.observe(clips.gather(np.arange(len(clips))))
    side = (len(clips), tokenizer.config.grid, tokenizer.config.grid)
    codes = tokenizer.encode(signal).numpy().astype(np.int64).reshape(side)
    return -min(offsets), codes, movement(signal, tokenizer.config.patch).reshape(side)


def film_of(store: Store, tokenizer: OTF, index: int, truth: Callable[[int], Image.Image]) -> str:
    """The middle of an episode, for a page: frames, codes over them, and a picture of what is true, side by side."""
    first, codes, strength = seen_codes(store, tokenizer, index)
    count = min(FILM_FRAMES, len(codes))
    begin = (len(codes) - count) // 2
    pictures = []
    for place in range(begin, begin + count):
        frame = Image.fromarray(np.array(store.episode(index, "frames")[first + place]))
        large = frame.resize((FILM_SIDE, FILM_SIDE), Image.Resampling.NEAREST)
        coded = overlay(large, codes[place].astype(np.uint8), strength[place] / 255.0, tokenizer.codes)
        known = truth(first + place).resize(large.size, Image.Resampling.NEAREST)
        wide = Image.new("RGB", (3 * FILM_SIDE + 8, FILM_SIDE), (255, 255, 255))
        for column, each in enumerate((large, coded, known)):
            wide.paste(each, (column * (FILM_SIDE + 4), 0))
        pictures.append(wide)
    film = io.BytesIO()
    more = {"save_all": True, "append_images": pictures[1:], "duration": FILM_MS, "loop": 0}
    pictures[0].save(film, "WEBP", quality=70, method=2, **more)
    return as_uri("image/webp", film.getvalue())


def count_codes(store: Store, tokenizer: OTF, masks: Store, index: int) -> Float[np.ndarray, "k 2"]:
    """How often each code fires where something moves, on the agent and on the rival: by their pixels in its patch."""
    first, codes, strength = seen_codes(store, tokenizer, index)
    owners = masks.episode(masks.places[index], MASKS)[first : first + len(codes)]
    grid = tokenizer.config.grid
    # Patches need not end where pixels do: every patch takes the pixels whose centres it holds.
    pool = np.eye(grid)[((np.arange(owners.shape[1]) + 0.5) * grid // owners.shape[1]).astype(int)]
    counts = np.zeros((tokenizer.codes, 2))
    for body in (1, 2):
        shares = (pool.T @ (owners == body) @ pool) * (strength >= MOVING)
        counts[:, body - 1] = np.bincount(codes.ravel(), shares.ravel(), tokenizer.codes)
    return counts
