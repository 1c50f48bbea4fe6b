"""A store becomes recordings of Rerun, one for each episode: frames, codes as a picture, all other numbers as curves.

rerun comes with `otflam[rerun]`; this is imported only when something is exported. Axes: t frames, n numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import rerun as rr
from jaxtyping import Shaped
from rerun import blueprint

from otflam.core import Progress, UserError
from otflam.data.formats.exports import Beside, check_colours, new_folder, png, rate_of, tasks_of
from otflam.data.formats.rerun import RerunExport
from otflam.data.store import Store

FRAMES, CODES, TASK = "frames", "codes", "task"


@dataclass(frozen=True)
class Rows:
    """What is shown of an episode beside its frames."""

    values: Shaped[np.ndarray, "t n"]
    first: int = 0
    """The frame of the first row."""
    names: list[str] | None = None

    def is_picture(self, name: str) -> bool:
        """Whether they are codes of the patches of a square frame."""
        return name == CODES and math.isqrt(self.values.shape[1]) ** 2 == self.values.shape[1]


def export_rerun(
    store: Store,
    out: Path,
    options: RerunExport,
    beside: Mapping[str, Beside],
    report: Callable[[str], None],
    progress: Progress,
) -> None:
    """Write a store's episodes into a folder that must be new."""
    check_colours(store, "Rerun's")
    if not 0 <= options.episodes <= len(store):
        raise UserError(f"--episodes {options.episodes}", f"{store.path} has {len(store)}")
    fps, count = rate_of(store, options.fps, report), options.episodes or len(store)
    left_out = [name for name, spec in store.columns.items() if len(spec.shape) > 1 and name != FRAMES]
    if left_out:
        report(f"left out, for their rows are no vectors: {', '.join(left_out)}")
    bar, width = progress.part(f"write {out.name}"), len(str(len(store) - 1))
    bar.start(0, count)
    with new_folder(out) as folder:
        for index in range(count):
            _record(store, index, fps, beside, folder / f"episode-{index:0{width}}.rrd")
            bar.reach(index + 1, count)


def _record(store: Store, index: int, fps: Fraction, beside: Mapping[str, Beside], file: Path) -> None:
    """Write an episode."""
    shown, frames = dict(_shown(store, index, beside)), store.episode(index, FRAMES)
    recording = rr.RecordingStream(f"otflam {store.path.name}", recording_id=f"{store.hash}-{index}")
    recording.save(file, default_blueprint=_view(shown))
    recording.send_recording_name(file.stem)
    recording.log(TASK, rr.TextDocument(", ".join(dict.fromkeys(tasks_of(store, index, None)))), static=True)
    images = rr.EncodedImage.columns(blob=[png(frame) for frame in frames], media_type=["image/png"] * len(frames))
    recording.send_columns(FRAMES, _times(0, len(frames), fps), images)
    for name, rows in shown.items():
        if rows.names is not None:
            recording.log(name, rr.SeriesLines(names=rows.names), static=True)
        columns = _pictures(rows) if rows.is_picture(name) else rr.Scalars.columns(scalars=rows.values.astype(float))
        recording.send_columns(name, _times(rows.first, len(rows.values), fps), columns)
    recording.disconnect()  # which waits for what is not written yet


def _shown(store: Store, index: int, beside: Mapping[str, Beside]) -> Iterator[tuple[str, Rows]]:
    """The numbers of an episode, and what models say of it in those frames of which they say something."""
    named = store.meta.get("names")
    names = {"actions": store.meta.get("action_names")} | (named if isinstance(named, dict) else {})
    for name, spec in store.columns.items():
        if name != FRAMES and len(spec.shape) <= 1:
            values = store.episode(index, name).reshape(int(store.lengths[index]), -1)
            told = names.get(name)
            yield name, Rows(values, names=told if isinstance(told, list) and len(told) == values.shape[1] else None)
    for name, found in beside.items():
        values = found.rows(index)
        yield name, Rows(values[found.behind : len(values) - found.ahead], found.behind)


def _times(first: int, count: int, fps: Fraction) -> list[rr.TimeColumn]:
    """Frames by their numbers and by seconds: the viewer shows either."""
    frames = np.arange(first, first + count)
    return [rr.TimeColumn("frame", sequence=frames), rr.TimeColumn("time", duration=frames / float(fps))]


def _pictures(rows: Rows) -> Any:
    """Codes as pictures, a pixel for each patch."""
    side, values = math.isqrt(rows.values.shape[1]), rows.values.astype(np.uint16)
    form = rr.components.ImageFormat(width=side, height=side, color_model="L", channel_datatype="U16")
    return rr.SegmentationImage.columns(buffer=[row.tobytes() for row in values], format=[form] * len(values))


def _view(shown: Mapping[str, Rows]) -> Any:
    """Pictures on the left, curves on the right."""
    drawn = [FRAMES, *(name for name, rows in shown.items() if rows.is_picture(name))]
    pictures = [blueprint.Spatial2DView(origin=name, name=name) for name in drawn]
    curves = [blueprint.TimeSeriesView(origin=name, name=name) for name in shown if name not in drawn]
    return blueprint.Blueprint(blueprint.Horizontal(blueprint.Vertical(*pictures), blueprint.Vertical(*curves)))
