"""Any video as motion codes, with the tokenizer that comes with the package or another.

Frames are passed on as they are decoded: the memory does not grow with the video.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from otflam.core import SILENT, Progress, UserError, replacing, windows, write_text
from otflam.data import HEADER, Column, Frame, count_frames, read_frames
from otflam.evaluate import Tally
from otflam.report import Sampler, draw_clip_sheet, overlay, sheet_tile, writing_video
from otflam.tokenizer import OTF, find_tokenizer, load_tokenizer, watch

CHUNK_BYTES = 1 << 26
"""Of frames that are worked on at once."""
MAX_CHUNK_FRAMES = 32
"""Their largest number."""
MAX_SIDE_PIXELS = 3840
"""Longer side of the overlay at most; a video that is larger is shown smaller."""
DEFAULT_FPS = Fraction(10)
"""Frames a second of a source that has no rate."""
USABLE_SHARE = 0.5
"""Share of the motion from which on codes are worth using as they are."""


@dataclass(frozen=True)
class Tokenized:
    """What was made of a video, and how good it is."""

    paths: tuple[Path, ...]
    redrawn: float
    """1 - nMSE: the share of the motion's energy that its codes draw again; below 0 they draw worse than nothing."""
    moving: float
    """Share of the patches that move."""
    still_error: float = math.nan
    """nMSE of the others alone."""


class CodedFrame(NamedTuple):
    """A frame, its codes, and how strongly each of its patches moves, from 0 to 1."""

    picture: Image.Image
    codes: UInt8[np.ndarray, "u v"]
    strength: Float[np.ndarray, "u v"]


def tokenize_video(
    video: Path, out: Path, folder: Path | None, progress: Progress = SILENT, cuts: bool = True
) -> Tokenized:
    """Write codes.npy (frame, row, column), overlay.mp4 and sheet.png; the grid follows the video's aspect.

    Rows whose motion would span a cut hold zeros; shots.csv tells the shots, where there are several.
    """
    tokenizer = video_tokenizer(folder)
    size, patch, offsets = tokenizer.config.grid, tokenizer.config.patch, tokenizer.config.motion.offsets
    shots = [0]
    frames = note_cuts(read_frames(video, size * patch, patch, cuts), shots)
    first, span = next(frames), offsets[-1] - offsets[0]
    total, tally = count_frames(video) - span, Tally(tokenizer)
    moments = watch_frames(tokenizer, tally, chain([first], frames))
    if (begun := next(moments, None)) is None:
        raise UserError(f"{video} has too few frames", f"its motion needs at least {span + 1}")
    sampler: Sampler[CodedFrame] = Sampler()
    grid = Column(begun.codes.dtype.name, begun.codes.shape)
    paths = tuple(out / name for name in ("codes.npy", "overlay.mp4", "sheet.png"))
    with replacing(paths[0]) as temporary, temporary.open("wb") as file:
        file.write(bytes(HEADER))  # its place, for only the end knows how many rows there are
        with writing_video(paths[1], first.fps or DEFAULT_FPS) as add:
            for number, moment in enumerate(chain([begun], moments), start=1):
                file.write(moment.codes.tobytes())
                add(np.asarray(overlay(moment.picture, moment.codes, moment.strength, tokenizer)))
                sampler.offer(lambda now=moment: now._replace(picture=sheet_tile(now.picture)))
                progress.reach(number, max(total, number))
        file.seek(0)
        file.write(grid.header(number))
        if not tally.patches:
            raise UserError(
                f"{video} has no shot that is long enough", f"motion needs {span + 1} frames; see --no-cuts"
            )
    if len(shots) > 1:
        paths = (*paths, write_shots(shots, number + span, first.fps, out / "shots.csv"))
    redrawn = tally.redrawn
    title = f"{video.name}: its codes redraw {percent(redrawn)} of the motion"
    shown = [(number - offsets[0], *moment) for number, moment in sampler.chosen()]
    draw_clip_sheet(tokenizer, shown, tally.codes, title, paths[2])
    return Tokenized(paths, redrawn, tally.moving, tally.still_error)


def video_tokenizer(folder: Path | None) -> OTF:
    """A tokenizer that gives codes to places of colour frames; by default the packaged one."""
    tokenizer = load_tokenizer(find_tokenizer(folder))
    if not isinstance(tokenizer, OTF) or tokenizer.config.channels != 3:
        raise UserError(
            f"{folder} does not give codes to places of colour frames", "use a factorised tokenizer for video"
        )
    return tokenizer


def watch_frames(tokenizer: OTF, tally: Tally, frames: Iterator[Frame]) -> Iterator[CodedFrame]:
    """Frames with their codes, a few at a time; what they have in common is counted."""
    offsets = tokenizer.config.motion.offsets
    first, span = next(frames), offsets[-1] - offsets[0]
    held = max(1, min(MAX_CHUNK_FRAMES, CHUNK_BYTES // (3 * first.whole.width * first.whole.height)))
    for part in windows(chain([first], frames), span, held):
        for frame, (codes, strong) in zip(part[-offsets[0] :], watch_part(tokenizer, tally, part, span), strict=False):
            yield CodedFrame(shrink(frame.whole), codes, strong)


def watch_part(tokenizer: OTF, tally: Tally, part: list[Frame], span: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Codes and strengths of all motions that begin in some frames; those that would span a cut are blank."""
    patch, (height, width, _) = tokenizer.config.patch, part[0].small.shape
    blank = np.zeros((height // patch, width // patch), tokenizer.config.codebook.dtype)
    edges = [0, *(place for place in range(1, len(part)) if part[place].cut), len(part)]
    for begin, end in pairwise(edges):
        if end - begin > span:
            seen = watch(tokenizer, np.stack([frame.small for frame in part[begin:end]]))
            yield from zip(seen.codes, tally.add(seen), strict=True)
        for _ in range(max(begin, end - span), min(end, len(part) - span)):
            yield blank, blank.astype(np.float32)


def note_cuts(frames: Iterator[Frame], shots: list[int]) -> Iterator[Frame]:
    """Pass frames on, and add the numbers of those with which a shot begins."""
    for number, frame in enumerate(frames):
        if frame.cut:
            shots.append(number)
        yield frame


def write_shots(shots: list[int], count: int, fps: Fraction | None, path: Path) -> Path:
    """The first and the last frame of every shot, and when it begins, where the video has a rate."""
    lines = ["shot,first,last,seconds"]
    for number, (first, end) in enumerate(pairwise([*shots, count])):
        lines.append(f"{number},{first},{end - 1},{f'{float(first / fps):.3f}' if fps else ''}")
    write_text(path, "\n".join(lines) + "\n")
    return path


def shrink(picture: Image.Image) -> Image.Image:
    """A picture of a size that a video may have."""
    if max(picture.size) > MAX_SIDE_PIXELS:
        picture.thumbnail((MAX_SIDE_PIXELS, MAX_SIDE_PIXELS), Image.Resampling.BILINEAR)
    return picture


def percent(share: float) -> str:
    return "nothing" if share <= 0 else f"{100 * share:.0f} %"


def verdict(found: Tokenized, video: Path, own: bool) -> str:
    """How much the codes of a video can be trusted, and what to do."""
    if not found.moving:
        return "hardly anything moves in this video, so that its codes say nothing"
    score = f"redrawn motion: {percent(found.redrawn)} (nMSE {1 - found.redrawn:.2f}; drawing nothing scores 1)"
    if not math.isnan(found.still_error):
        score = f"{percent(1 - found.moving)} of the patches are still (nMSE there {found.still_error:.2f})\n{score}"
    if found.redrawn >= USABLE_SHARE:
        return score
    worse = "worse than drawing nothing: do not use these codes" if found.redrawn <= 0 else "much of it is lost"
    if own:
        return f"{score}: {worse}; train this tokenizer longer, or on more videos like this one"
    folder = video if video.is_dir() else video.parent
    return (
        f"{score}: {worse}; the packaged vocabulary has not seen such motion, so train your own on such videos:\n"
        f"  otflam data import videos {folder} --out data/mine\n"
        "  otflam tokenizer train data/mine --out runs/mine/tokenizer\n"
        f"  otflam tokenize {video} --tokenizer runs/mine/tokenizer --out codes"
    )
