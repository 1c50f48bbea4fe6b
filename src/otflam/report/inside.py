"""What happens inside of models, on the report's page: slots and skills."""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from otflam.core import Progress, UserError
from otflam.lam import METHODS
from otflam.report.explorer import WEBP_QUALITY, Figure, as_uri
from otflam.report.predictions import draw_inside
from otflam.report.runs import find_divided

SLOT_FRAMES, MAX_PICTURES = 8, 6
"""Frames that slots are shown on, and pictures of slots or skills, at most."""
INSIDE_CAPTIONS = {
    "slots": "{}: frames of a held-out episode, which slot owns which place most, and what each slot sees of them.",
    "skills": "{}: a held-out episode, its skills (alike in colour where they are alike), and how likely a chunk "
    "begins at each step; triangles: a skill begins.",
}


def inside_figures(runs: Path | None, progress: Progress) -> list[Figure]:
    """What slots see and how skills follow each other, of the models under `runs`."""
    figures: list[Figure] = []
    for store, release in find_divided(runs) if runs is not None and runs.is_dir() else ():
        name = f"{release.config['method']} on {store.path.name}"
        try:
            with TemporaryDirectory() as folder:
                drawn = draw_inside(store, release.folder, SLOT_FRAMES, None, Path(folder) / "inside.png")
                picture = io.BytesIO()
                with Image.open(drawn) as seen:
                    size = seen.size
                    seen.save(picture, "WEBP", quality=WEBP_QUALITY, method=4)  # a fifth of the bytes
        except UserError as error:
            progress.note(f"left out {name}: {error.problem}")
            continue
        progress.note(name)
        about = METHODS[release.config["method"]].shows or ""
        caption, src = INSIDE_CAPTIONS[about].format(name), as_uri("image/webp", picture.getvalue())
        figures.append(Figure(f"inside-{len(figures) + 1}", caption, src, "", *size))
        if len(figures) == MAX_PICTURES:
            break
    return figures
