"""How well vocabularies redraw the motion of one's own videos, with nothing written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from otflam.core import SILENT, Progress, UserError
from otflam.data import Store, read_frames
from otflam.evaluate import Tally, reconstruction, stillness
from otflam.experiments.general import CLIPS, tested
from otflam.experiments.tokenize import watch_frames
from otflam.tokenizer import OTF, MotionAutoencoder, find_tokenizer, load_tokenizer


@dataclass(frozen=True)
class Redrawn:
    """What a vocabulary's codes lose of the motion of a video or a data set; drawing nothing scores 1."""

    nmse: float
    still_nmse: float
    """Of still patches alone."""
    moving: float
    """Share of the patches that move; not known of data sets."""


def redraw_all(
    sources: Sequence[Path], vocabularies: Sequence[str | Path], progress: Progress = SILENT
) -> Iterator[tuple[Path, list[Redrawn]]]:
    """Every source with what each vocabulary makes of it."""
    models = [load_tokenizer(find_tokenizer(folder)) for folder in vocabularies]
    progress.start(0, len(sources) * len(models))
    for source in sources:
        found = []
        for model, folder in zip(models, vocabularies, strict=True):
            found.append(redraw_data(source, model) if is_data(source) else redraw_video(source, model, folder))
            progress.advance()
        yield source, found


def is_data(source: Path) -> bool:
    return (source / "meta.json").exists()


def redraw_data(source: Path, model: MotionAutoencoder) -> Redrawn:
    """As cells of `otflam reproduce general` are measured, on all episodes."""
    store = Store(source)
    clips = tested(store, model.config, range(len(store)))
    return Redrawn(reconstruction(model, clips, CLIPS, transfer=True)["nmse"], stillness(model, clips, CLIPS), math.nan)


def redraw_video(source: Path, model: MotionAutoencoder, folder: str | Path) -> Redrawn:
    """As `otflam tokenize` tells it: of all frames, in the video's own aspect."""
    if not isinstance(model, OTF):
        raise UserError(
            f"{folder} is monolithic and reads squares only", "import the videos: otflam data import videos"
        )
    config, tally = model.config, Tally(model)
    frames = read_frames(source, config.grid * config.patch, config.patch, cuts=True)
    for _ in watch_frames(model, tally, chain([next(frames)], frames)):
        pass
    if not tally.patches:
        raise UserError(f"{source} is too short", "its motion needs a few frames without a cut between them")
    return Redrawn(1 - tally.redrawn, tally.still_error, tally.moving)
