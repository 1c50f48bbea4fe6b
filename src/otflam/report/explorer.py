"""What the explorer of the report shows: frames, motion, codes and predictions of a few episodes, ready for a page.

Pictures become sprite sheets, one for each episode and kind, and everything else numbers in JSON. Nothing is written:
codes are computed anew for the few frames that are shown.

Axes: n frames, h w pixels, p patches, i j pixels of a patch.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from einops import rearrange, reduce
from jaxtyping import Float, UInt8, UInt16
from PIL import Image
from torch import Tensor

from otflam.core import SILENT, Batch, Progress, UserError
from otflam.data import Clips, Store, has_distractors
from otflam.lam import LAM
from otflam.report.canvas import Sketch
from otflam.report.runs import ShownData
from otflam.report.vocabulary import colours_of, make_atlas, name_code, show_frame, show_motion
from otflam.tokenizer import OTF, motion_clips

MAX_DATA_SETS, MAX_EPISODES, MAX_FRAMES = 2, 2, 120
"""How much is shown at most: data sets, episodes of each, frames of each."""
MAX_SIDE_PIXELS = 96
"""Pixels of a shown frame at most: a page must stay small."""
WEBP_QUALITY = 90
"""Of the pictures; 100 is the best."""
PATCHES_PER_CODE = 6
"""Motion patches that stand for a code."""
LOUD_QUANTILE = 0.98
"""Share of the patches that move less than what is shown as full motion."""
Pictures = UInt8[np.ndarray, "n h w 3"]


@dataclass(frozen=True)
class Figure:
    """A picture or a film with its caption, as one image inside the page."""

    name: str
    caption: str
    src: str
    still: str = ""
    """The first picture of a film."""
    width: int = 0
    height: int = 0
    """Pixels, where they are known before it is drawn."""
    parts: tuple[str, ...] = ()
    """Titles of what a film shows side by side."""


def as_figure(name: str, sketch: Sketch) -> Figure:
    """A drawn figure with its size, so that nothing moves when it is seen first."""
    width, height = (round(96 * side) for side in sketch.figure.get_size_inches())
    return Figure(name, sketch.caption, as_uri("image/svg+xml", sketch.svg()), "", width, height)


@dataclass(frozen=True)
class Sprite:
    """Pictures of one size in rows, as one image inside the page."""

    src: str
    columns: int
    width: int
    height: int


@dataclass(frozen=True)
class Prediction:
    """What a method draws for every frame, and how wrong it is."""

    method: str
    stride: int
    """Steps from the frame to what is predicted."""
    pictures: Sprite
    errors: list[float]


@dataclass(frozen=True)
class Episode:
    """Consecutive frames of an episode."""

    number: int
    first: int
    """Time of the first frame in the episode."""
    count: int
    held_out: bool
    frames: Sprite
    """As many as `count`, and those that come after, up to the farthest that is predicted."""
    motion: Sprite
    codes: str
    """For every frame the code of every patch, row by row: bytes in base64."""
    movement: str
    """The same for how much moves there, 255 being much."""
    predictions: list[Prediction]
    copied: dict[int, list[float]]
    """Errors of predicting no change, by stride."""


@dataclass(frozen=True)
class Atlas:
    """A row of pictures for each code: its nearest patches, then its effect."""

    pictures: Sprite
    shares: list[float]
    known: list[int]
    """How many patches each code has to show."""


@dataclass(frozen=True)
class DataSet:
    name: str
    about: str
    grid: int
    stride: int
    """Steps over which motion is seen."""
    colours: list[str]
    names: list[str]
    """Of the codes."""
    atlas: Atlas
    episodes: list[Episode]


def make_explorer(found: Iterable[ShownData], progress: Progress = SILENT) -> list[tuple[ShownData, DataSet]]:
    """The first data sets that can be shown, with what is shown of them."""
    sets: list[tuple[ShownData, DataSet]] = []
    for each in found:
        name = each.store.path.name
        progress.note(f"{name}: {', '.join(each.models) or 'codes only'}")
        try:
            sets.append((each, show_data_set(each)))
        except UserError as error:
            progress.note(f"left out {name}: {error.problem}")
        if len(sets) == MAX_DATA_SETS:
            break
    return sets


@torch.inference_mode()
def show_data_set(found: ShownData) -> DataSet:
    store, tokenizer = found.store, found.tokenizer
    atlas = show_atlas(tokenizer, motion_clips(store, tokenizer.config))
    held = found.held_out[:MAX_EPISODES]
    episodes = [show_episode(found, index, bool(held)) for index in held or range(min(MAX_EPISODES, len(store)))]
    colours = [f"#{bytes(colour).hex()}" for colour in colours_of(tokenizer)]
    names = [name_code(tokenizer, code) for code in range(tokenizer.codes)]
    config = tokenizer.config
    return DataSet(store.path.name, describe(store), config.grid, config.motion.stride, colours, names, atlas, episodes)


def describe(store: Store) -> str:
    """A data set in a few words."""
    world, height = store.config.get("world"), store.columns["frames"].shape[0]
    facts = [f"{len(store)} episode{'s'[: len(store) != 1]}", f"{height} pixels"]
    if world is not None:
        facts.insert(0, "distractors" if has_distractors(store) else "no distractors")
        if world.get("rival"):
            facts.insert(0, f"beside {world['rival']}")
        facts.insert(0, world["task"])
    return ", ".join(facts)


def show_atlas(tokenizer: OTF, clips: Clips) -> Atlas:
    entries = make_atlas(tokenizer, clips, shown=PATCHES_PER_CODE)
    blank = np.full_like(entries[0].effect, 127)
    rows = [[*entry.nearest, *[blank] * (PATCHES_PER_CODE - len(entry.nearest)), entry.effect] for entry in entries]
    pictures = np.stack([picture for row in rows for picture in row])
    sheet = as_sprite(pictures, PATCHES_PER_CODE + 1, exact=True)
    return Atlas(sheet, [round(entry.share, 5) for entry in entries], [len(entry.nearest) for entry in entries])


def show_episode(found: ShownData, index: int, held_out: bool) -> Episode:
    """The middle of an episode, as far as all models can see around every frame."""
    store, tokenizer = found.store, found.tokenizer
    wanted = {0, *tokenizer.config.motion.offsets, *(at for model in found.models.values() for at in model.offsets)}
    clips = Clips(store, sorted(wanted), (), [index])
    count = min(MAX_FRAMES, len(clips))
    begin = (len(clips) - count) // 2
    first = begin - min(wanted)
    batch = clips.gather(np.arange(begin, begin + count))
    frames = np.array(store.episode(index, "frames")[first : first + count + max(wanted)])
    frame, signal = tokenizer.observe(batch)
    size, strides = tokenizer.config.patch, {model.stride for model in found.models.values()}
    return Episode(
        index,
        first,
        count,
        held_out,
        as_sprite(np.broadcast_to(frames, (*frames.shape[:3], 3))),
        as_sprite(np.stack([show_motion(picture) for picture in signal])),
        as_text(tokenizer.encode(signal, frame).numpy().astype("<u2")),
        as_text(movement(signal, size)),
        [predict(name, model, batch) for name, model in found.models.items()],
        {stride: errors(batch.images(0), batch.images(stride)) for stride in sorted(strides)},
    )


def movement(signal: Float[Tensor, "n m h w"], patch: int) -> UInt8[np.ndarray, "n p"]:
    """How much moves in every patch, beside what moves much in this episode."""
    power = reduce(signal.square(), "n m (u i) (v j) -> n u v", "mean", i=patch, j=patch).sqrt()
    loud = np.quantile(power.numpy(), LOUD_QUANTILE)
    return rearrange((255 * power / max(float(loud), 1e-6)).clamp(0, 255).byte(), "n u v -> n (u v)").numpy()


def predict(name: str, model: LAM, batch: Batch) -> Prediction:
    """The future of every transition, with the latent action that the model itself names it by."""
    seen = model.observe(batch)
    drawn = model.predict_future(seen, model.infer_latent(seen))
    pictures = np.stack([show_frame(picture) for picture in drawn.clamp(0, 1)])
    return Prediction(name, model.stride, as_sprite(pictures), errors(drawn, model.future(batch)))


def errors(guess: Float[Tensor, "n c h w"], truth: Float[Tensor, "n c h w"]) -> list[float]:
    """Mean squared error of each frame, as the tables have it over many."""
    return [float(f"{error:.4g}") for error in (guess - truth).square().mean((1, 2, 3)).tolist()]


def as_sprite(pictures: Pictures, columns: int | None = None, exact: bool = False) -> Sprite:
    """One image of many; those that must keep every pixel are `exact`."""
    columns = columns or math.ceil(len(pictures) ** 0.5)
    height, width = pictures.shape[1:3]
    if max(height, width) > MAX_SIDE_PIXELS:
        scale = MAX_SIDE_PIXELS / max(height, width)
        height, width = round(scale * height), round(scale * width)
        small = [Image.fromarray(picture).resize((width, height), Image.Resampling.BOX) for picture in pictures]
        pictures = np.stack([np.asarray(picture) for picture in small])
    blank = np.zeros((-len(pictures) % columns, height, width, 3), np.uint8)
    rows = rearrange(np.concatenate([pictures, blank]), "(r c) h w k -> (r h) (c w) k", c=columns)
    kind, options = ("PNG", {"optimize": True}) if exact else ("WEBP", {"quality": WEBP_QUALITY, "method": 4})
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(rows)).save(stream, kind, **options)
    return Sprite(as_uri(f"image/{kind.lower()}", stream.getvalue()), columns, width, height)


def as_uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def as_text(values: UInt8[np.ndarray, "n p"] | UInt16[np.ndarray, "n p"]) -> str:
    return base64.b64encode(values.tobytes()).decode()
