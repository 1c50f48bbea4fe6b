"""Two bodies on the report's page: a film with codes and masks, and which codes fire on whom.

Axes: n frames, h w pixels, u v patches, k codes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float
from PIL import Image

from otflam.core import Progress, UserError
from otflam.data import MASKS, Store, mask_column
from otflam.report.explorer import Figure, as_figure
from otflam.report.figures_models import chart_codes
from otflam.report.films import FILM_PARTS, FILM_SIDE, join_columns, middle_of, seen_codes
from otflam.report.runs import RIVAL, find_films
from otflam.tokenizer import OTF

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
            f"{store.path.name}: a held-out episode, the codes of its motion, stronger where more moves, and whose "
            "every pixel is (dark: the agent's, blue: the rival's)."
        )
        owners = masks.episode(masks.places[index], MASKS)
        shown, columns = middle_of(store.episode(index, "frames"), tokenizer)
        masked = [Image.fromarray(TINTS[owners[frame]]) for frame in shown]
        columns.append([each.resize((FILM_SIDE, FILM_SIDE), Image.Resampling.NEAREST) for each in masked])
        figures.append(join_columns(columns).figure(f"film-{len(figures) + 1}", caption, *FILM_PARTS, "Whose pixels"))
        counts = count_codes(store, tokenizer, masks, index)
        chart = chart_codes(counts, store.path.name)
        figures.append(as_figure(f"bodies-{len(figures) + 1}", chart))
        if len(figures) >= 2 * MAX_FILMS:
            break
    return figures


def count_codes(store: Store, tokenizer: OTF, masks: Store, index: int) -> Float[np.ndarray, "k 2"]:
    """How often each code fires where something moves, on the agent and on the rival: by their pixels in its patch."""
    first, codes, strength = seen_codes(store.episode(index, "frames"), tokenizer)
    owners = masks.episode(masks.places[index], MASKS)[first : first + len(codes)]
    grid = tokenizer.config.grid
    # Patches need not end where pixels do: every patch takes the pixels whose centres it holds.
    pool = np.eye(grid)[((np.arange(owners.shape[1]) + 0.5) * grid // owners.shape[1]).astype(int)]
    counts = np.zeros((tokenizer.codes, 2))
    for body in (1, 2):
        shares = (pool.T @ (owners == body) @ pool) * (strength >= MOVING)
        counts[:, body - 1] = np.bincount(codes.ravel(), shares.ravel(), tokenizer.codes)
    return counts
