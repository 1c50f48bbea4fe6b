"""What exports share: what models say beside the data, rates and tasks, and a folder that is there when it is whole."""

from __future__ import annotations

import io
import math
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from otflam.core import UserError, disk_errors, lock_folder
from otflam.data.formats.format import Report
from otflam.data.store import Store

FPS = 30.0
"""Of data that say no rate, if none is asked for."""
UNKNOWN = "unknown"
"""The task of data that say none."""


@dataclass(frozen=True)
class Beside:
    """A column that a model gave a data set, and in which rows of an episode it says something."""

    column: Store
    name: str
    """Of the column in its store."""
    behind: int = 0
    """So many first rows of every episode hold zeros, because the model looks back so far."""
    ahead: int = 0
    """And so many last rows."""

    def rows(self, index: int) -> np.ndarray:
        """Those of an episode of the data set."""
        if index not in self.column.places:
            raise UserError(
                f"{self.column.path} has no {self.name} of episode {index}", "compute them for all episodes"
            )
        return self.column.episode(self.column.places[index], self.name)


@contextmanager
def new_folder(out: Path) -> Generator[Path]:
    """A folder that must be new: it is written under another name, and gets its own when all is done."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is there already", "choose another folder or delete this one")
    part = out.with_name(f".{out.name}.part")
    with disk_errors(part):
        part.mkdir(parents=True, exist_ok=True)
        held = lock_folder(part)
        try:
            for left in part.iterdir():  # of an export that was killed
                if left.is_dir():
                    shutil.rmtree(left)
                elif left.name != ".lock":
                    left.unlink()
            yield part
            (part / ".lock").unlink()
            out.rmdir() if out.is_dir() else None
            part.rename(out)
        finally:
            os.close(held)
            shutil.rmtree(part, ignore_errors=True)


def check_colours(store: Store, whose: str) -> None:
    """Refuse frames that are no bytes of three colours, as those of a format must be."""
    store["frames"]  # if it is missing, that is told
    spec = store.columns["frames"]
    if spec.dtype != "uint8" or len(spec.shape) != 3 or spec.shape[2] != 3:
        raise UserError(f"{store.path} has frames {spec.dtype}{list(spec.shape)}", f"{whose} have three colours")


def rate_of(store: Store, asked: float | None, report: Report) -> Fraction:
    """Frames a second, of which a folder has one."""
    told = {float(episode["fps"]) for episode in store.episodes if episode.get("fps")}
    if asked is not None:
        told = {asked}
    elif not told:
        report(f"the data say no rate: {FPS:g} frames a second are written; --fps gives another")
        told = {FPS}
    if len(told) > 1:
        raise UserError(f"{store.path} has episodes of {min(told):g} and {max(told):g} fps", "choose one with --fps")
    (rate,) = told
    if not 0 < rate < math.inf:
        raise UserError(f"--fps {rate}", "give a number above 0")
    return Fraction(rate).limit_denominator(1001)


def tasks_of(store: Store, index: int, task: str | None) -> list[str]:
    """What is done in every frame of an episode, in words."""
    length, known, told = int(store.lengths[index]), store.meta.get("tasks"), store.episodes[index].get("tasks")
    words = str(store.meta.get("task") or store.config.get("world", {}).get("task") or UNKNOWN)
    if task is not None:
        return [task] * length
    if isinstance(known, list) and "task_index" in store:
        places = store.episode(index, "task_index")
        return [str(known[place]) if 0 <= place < len(known) else words for place in places]
    return [str(told[0]) if isinstance(told, list) and told else words] * length


def png(frame: UInt8[np.ndarray, "h w 3"]) -> bytes:
    """A frame without loss."""
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, "png")
    return buffer.getvalue()
