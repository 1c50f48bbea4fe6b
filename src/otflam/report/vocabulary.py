"""Pictures of a motion vocabulary: what goes in, which codes come out, what each code means (paper D.1, D.2).

Axes: b samples, m h w motion, p patches, k codes.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import torch
from einops import rearrange
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont
from sklearn.manifold import TSNE
from torch import Tensor

from otflam.core import replacing
from otflam.data import Clips
from otflam.motion import TRANSFORMS, MotionConfig, motion
from otflam.report.palette import GAIN, colours_of, decoded_effects, name_code, show_codes, show_frame, show_motion
from otflam.report.style import INK, MARGIN, MUTED, PAPER, save_picture
from otflam.tokenizer import OTF, MotionAutoencoder

matplotlib.use("Agg")
TILE = 120


def draw_grid(rows: list[tuple[str, list[np.ndarray]]], heads: list[str], title: str, path: Path) -> Path:
    """A table of pictures of one shape with a name for each row and column."""
    left, top = 150, 62
    width = round(TILE * rows[0][1][0].shape[1] / rows[0][1][0].shape[0])
    sheet = Image.new("RGB", (left + len(heads) * (width + 4) + MARGIN, top + len(rows) * (TILE + 4) + MARGIN), PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((MARGIN, 10), title, INK, ImageFont.load_default(17))
    for column, head in enumerate(heads):
        pen.text((left + column * (width + 4), top - 20), head, MUTED, ImageFont.load_default(12))
    for row, (name, pictures) in enumerate(rows):
        pen.text((MARGIN, top + row * (TILE + 4) + TILE // 2 - 8), name, INK, ImageFont.load_default(13))
        for column, picture in enumerate(pictures):
            scaled = Image.fromarray(picture).resize((width, TILE), Image.Resampling.NEAREST)
            sheet.paste(scaled, (left + column * (width + 4), top + row * (TILE + 4)))
    return save_picture(sheet, path)


def draw_motion_inputs(clips: Clips, stride: int, path: Path, samples: int = 3) -> Path:
    """Figure D.1: every transform at both orders; `clips` must have the offsets (-stride, 0, stride)."""
    rows, heads = [], ["frame"]
    heads += [f"{name}, order {order}" for name in TRANSFORMS for order in (1, 2)]
    for index in np.linspace(0, len(clips) - 1, samples).astype(np.int64):
        batch = clips.gather(np.array([index]))
        frames = [batch.images(offset) for offset in (-stride, 0, stride)]
        pictures = [show_frame(frames[1][0])]
        for name in TRANSFORMS:
            pictures.append(show_motion(motion(MotionConfig(name, 1, stride), frames[1:])[0]))
            pictures.append(show_motion(motion(MotionConfig(name, 2, stride), frames)[0]))
        rows.append((f"clip {index}", pictures))
    return draw_grid(rows, heads, "Motion inputs: the transform comes before the difference", path)


@torch.inference_mode()
def draw_assignments(tokenizer: OTF, clips: Clips, path: Path, samples: int = 4) -> Path:
    """Frame, motion, patch embeddings and codes on the grid, for a few transitions."""
    colours, grid = colours_of(tokenizer), tokenizer.config.grid
    figure, axes = plt.subplots(samples, 4, figsize=(11, 2.7 * samples), dpi=90, squeeze=False)
    for row, index in enumerate(np.linspace(0, len(clips) - 1, samples).astype(np.int64)):
        frame, signal = tokenizer.observe(clips.gather(np.array([index])))
        tokens, codes = tokenizer.embed(signal)[0], tokenizer.encode(signal, frame)[0].numpy()
        places = TSNE(perplexity=min(20, len(tokens) // 4), random_state=0).fit_transform(tokens.numpy())
        axes[row, 0].imshow(show_frame(frame[0]))
        axes[row, 1].imshow(show_motion(signal[0]))
        axes[row, 2].scatter(places[:, 0], places[:, 1], s=9, c=colours[codes] / 255)
        axes[row, 3].imshow(show_codes(codes.reshape(grid, -1), tokenizer))
        axes[row, 3].set_xlabel(f"{len(np.unique(codes))} codes", fontsize=9)
    for axis, title in zip(axes[0], ("frame", "motion", "patch embeddings (t-SNE)", "codes"), strict=True):
        axis.set_title(title, fontsize=10)
    return save_figure(figure, axes, path)


def draw_codebook(tokenizer: OTF, path: Path) -> Path:
    """The learned codes on a plane (t-SNE), each with its number and colour."""
    vectors = tokenizer.codebook.vectors.numpy()
    places = TSNE(perplexity=min(15, len(vectors) - 1), random_state=0, init="random").fit_transform(vectors)
    figure, axis = plt.subplots(figsize=(5.6, 5), dpi=100)
    axis.scatter(places[:, 0], places[:, 1], s=90, c=colours_of(tokenizer) / 255)
    for number, (x, y) in enumerate(places):
        axis.annotate(str(number), (x, y), fontsize=6, ha="center", va="center", color="white")
    axis.set_title(f"The codebook's {len(vectors)} vectors (t-SNE)", fontsize=10)
    return save_figure(figure, np.array([axis]), path)


def save_figure(figure, axes: np.ndarray, path: Path) -> Path:
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    figure.tight_layout()
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png")
    plt.close(figure)
    return path


@torch.inference_mode()
def draw_strips(
    tokenizers: dict[str, MotionAutoencoder], clips: Clips, title: str, path: Path, samples: int = 5
) -> Path:
    """Current frame, target motion, and each tokenizer's redrawing of it."""
    rows: list[tuple[str, list[np.ndarray]]] = []
    chosen = np.linspace(0, len(clips) - 1, samples).astype(np.int64)
    first = next(iter(tokenizers.values()))
    frame, signal = first.observe(clips.gather(chosen))
    rows.append(("reference", [show_frame(picture) for picture in frame]))
    rows.append(("target motion", [show_motion(picture) for picture in signal]))
    for name, tokenizer in tokenizers.items():
        redrawn = tokenizer.redraw(tokenizer.encode(signal, frame), frame)
        rows.append((name, [show_motion(picture) for picture in redrawn]))
    return draw_grid(rows, [f"clip {index}" for index in chosen], title, path)


class Entry(NamedTuple):
    """What a code means."""

    share: float
    """Of all patches."""
    nearest: list[UInt8[np.ndarray, "i j 3"]]
    """The motion patches nearest to it, if any have it."""
    effect: UInt8[np.ndarray, "i j 3"]
    """What it makes of a plain gray frame, with full contrast."""


@torch.inference_mode()
def make_atlas(tokenizer: OTF, clips: Clips, samples: int = 300, shown: int = 6) -> list[Entry]:
    """For each code: how often it occurs, the patches nearest to it, and what it makes of a plain gray frame."""
    tokens, patches, codes = _collect_patches(tokenizer, clips, samples)
    entries = []
    for code, effect in enumerate(decoded_effects(tokenizer)):
        members = np.flatnonzero(codes == code)
        distance = np.square(tokens[members] - tokenizer.codebook.vectors[code].numpy()).sum(1)
        nearest = [show_motion(patches[i]) for i in members[np.argsort(distance)[:shown]]]
        strongest = effect.abs().max().clamp_min(1e-6)  # codes of faint motion would look blank
        entries.append(Entry(len(members) / len(codes), nearest, show_motion(effect / strongest * 0.5 / GAIN)))
    return entries


def draw_atlas(tokenizer: OTF, clips: Clips, path: Path, samples: int = 300, shown: int = 6) -> Path:
    """The atlas of all codes as one picture, the most frequent first."""
    entries = make_atlas(tokenizer, clips, samples, shown)
    tile, columns = 34, 4
    width = (shown + 1) * (tile + 2) + 92
    per = -(-tokenizer.codes // columns)
    sheet = Image.new("RGB", (columns * width + MARGIN, 60 + per * (tile + 6) + MARGIN), PAPER)
    pen, colours = ImageDraw.Draw(sheet), colours_of(tokenizer)
    pen.text((MARGIN, 10), "Atlas of codes, the most frequent first", INK, ImageFont.load_default(17))
    pen.text(
        (MARGIN, 34),
        "code · share of patches · its nearest motion patches · its effect on gray, with full contrast",
        MUTED,
        ImageFont.load_default(12),
    )
    for place, code in enumerate(np.argsort([-entry.share for entry in entries])):
        x, y, entry = MARGIN + place // per * width, 60 + place % per * (tile + 6), entries[code]
        pen.rectangle((x, y, x + 8, y + tile), tuple(colours[code].tolist()))
        pen.text((x + 14, y + 2), name_code(tokenizer, int(code)), INK, ImageFont.load_default(13))
        pen.text((x + 14, y + 18), f"{100 * entry.share:.1f} %", MUTED, ImageFont.load_default(11))
        for slot, picture in [*enumerate(entry.nearest), (shown, entry.effect)]:
            scaled = Image.fromarray(picture).resize((tile, tile), Image.Resampling.NEAREST)
            sheet.paste(scaled, (x + 62 + slot * (tile + 2) + (6 if slot == shown else 0), y))
    return save_picture(sheet, path)


def _collect_patches(tokenizer: OTF, clips: Clips, samples: int) -> tuple[np.ndarray, Tensor, np.ndarray]:
    tokens, patches, codes, size = [], [], [], tokenizer.config.patch
    for rows in np.array_split(np.linspace(0, len(clips) - 1, samples).astype(np.int64), -(-samples // 64)):
        frame, signal = tokenizer.observe(clips.gather(rows))
        tokens.append(tokenizer.embed(signal).flatten(0, 1).numpy())
        patches.append(rearrange(signal, "b m (u i) (v j) -> (b u v) m i j", i=size, j=size))
        codes.append(tokenizer.encode(signal, frame).flatten().numpy())
    return np.concatenate(tokens), torch.cat(patches), np.concatenate(codes)
