"""Tokenizers by method, trained and loaded; and all codes of a data set, computed once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from einops import rearrange, reduce
from jaxtyping import Float32, UInt8, UInt16

from otflam.core import (
    IMPALA,
    SILENT,
    Batch,
    Feed,
    Hardware,
    Progress,
    TrainConfig,
    UserError,
    from_json,
    launch,
    load_model,
    read_release,
    release_hash,
    to_json,
    train_into,
)
from otflam.data import Beside, Clips, Column, Store, derive
from otflam.motion import motion_of_sequence
from otflam.tokenizer.config import FrameTokenizerConfig, TokenizerConfig
from otflam.tokenizer.frames import FrameTokenizer
from otflam.tokenizer.model import OTF, Monolithic, MotionAutoencoder

TOKENIZER_KIND, FRAMES_KIND = "tokenizer", "frame tokenizer"
TOKENIZER_VERSION, FRAMES_VERSION = 2, 3
"""Of motion and of frames. Bump one when training would give other weights: then nothing trained before is taken for
its result."""
METHODS: dict[str, type[MotionAutoencoder]] = {"otf": OTF, "monolithic": Monolithic}
CODES, TOKENS = "codes", "tokens"
BATCH = 256


def build_tokenizer(config: TokenizerConfig) -> MotionAutoencoder:
    return METHODS[config.method](config)


def load_tokenizer(folder: Path) -> MotionAutoencoder:
    """A trained tokenizer, ready to encode."""
    config = from_json(
        TokenizerConfig, read_release(folder, TOKENIZER_KIND)["model"], f"{folder / 'config.json'}: model"
    )
    return load_model(partial(build_tokenizer, config), folder).eval()


def motion_clips(store: Store, config: TokenizerConfig, episodes: Sequence[int] | np.ndarray | None = None) -> Clips:
    """The clips of a data set that a tokenizer needs; data it cannot read are refused."""
    channels = store.columns["frames"].shape[-1] if "frames" in store else 0
    if channels != config.channels:
        raise UserError(
            f"{store.path} has {channels} colour channels, the tokenizer {config.channels}", "use one for such data"
        )
    if store.columns["frames"].shape[0] != store.columns["frames"].shape[1]:
        raise UserError(f"{store.path} has frames that are not square", "import them with --fit crop or pad")
    return Clips(store, config.motion.offsets, episodes=episodes)


def train_tokenizer(
    store: Store,
    episodes: Sequence[int] | np.ndarray,
    model: TokenizerConfig,
    train: TrainConfig,
    hardware: Hardware,
    out: Path,
    progress: Progress = SILENT,
) -> MotionAutoencoder:
    """Train a tokenizer on some episodes into a run directory, or continue, or find it done."""
    clips, about = motion_clips(store, model, episodes), _about(TOKENIZER_KIND, store, episodes, model)
    return train_feed(clips, about, model, train, hardware, out, progress)


def train_feed(
    feed: Feed,
    about: dict[str, Any],
    model: TokenizerConfig,
    train: TrainConfig,
    hardware: Hardware,
    out: Path,
    progress: Progress,
) -> MotionAutoencoder:
    """Train a tokenizer on batches from anywhere; `about` is what the run directory belongs to."""
    if train.steps <= model.warmup:
        raise UserError(f"{train.steps} steps with a warm-up of {model.warmup}", "codes are learned only after it")
    fabric, load = launch(hardware), partial(load_tokenizer, out)
    torch.manual_seed(train.seed)
    return train_into(out, about, build_tokenizer(model), lambda: feed, train, fabric, load, progress)


def train_frame_tokenizer(
    store: Store,
    episodes: Sequence[int] | np.ndarray,
    model: FrameTokenizerConfig,
    train: TrainConfig,
    hardware: Hardware,
    out: Path,
    progress: Progress = SILENT,
) -> FrameTokenizer:
    """The same for a tokenizer of frames."""
    clips, fabric = frame_clips(store, model, episodes), launch(hardware)
    about, load = _about(FRAMES_KIND, store, episodes, model), partial(load_frame_tokenizer, out)
    torch.manual_seed(train.seed)
    return train_into(out, about, FrameTokenizer(model), lambda: clips, train, fabric, load, progress)


def frame_clips(
    store: Store, config: FrameTokenizerConfig, episodes: Sequence[int] | np.ndarray | None = None
) -> Clips:
    """Single frames; those that a frame tokenizer cannot read are refused."""
    height, width, channels = store.columns["frames"].shape if "frames" in store else (0, 0, 0)
    if channels != config.channels or height != width or not height or height % 2 ** len(IMPALA):
        raise UserError(
            f"{store.path} has frames of {height}×{width}×{channels}",
            f"the frame tokenizer needs squares of a multiple of {2 ** len(IMPALA)} with {config.channels} colours",
        )
    return Clips(store, (0,), episodes=episodes)


def load_frame_tokenizer(folder: Path) -> FrameTokenizer:
    """A trained tokenizer of frames, ready to encode."""
    config_json = read_release(folder, FRAMES_KIND)["model"]
    config = from_json(FrameTokenizerConfig, config_json, f"{folder / 'config.json'}: model")
    return load_model(partial(FrameTokenizer, config), folder).eval()


@torch.inference_mode()
def frame_error(tokenizer: FrameTokenizer, clips: Clips, count: int) -> float | None:
    """Squared error of redrawn frames over their variance, on evenly spaced ones; none if all are of one colour."""
    chosen = clips.evenly_spaced(count)
    error = total = squares = elements = 0.0
    for rows in np.array_split(chosen, -(-len(chosen) // 64)):
        images = clips.gather(rows).images(0)
        redrawn = tokenizer.decode(tokenizer.outside(tokenizer.numbers(images)))
        error += float((redrawn - images).square().sum())
        total, squares = total + float(images.sum()), squares + float(images.square().sum())
        elements += images.numel()
    variance = squares / elements - (total / elements) ** 2
    return error / elements / variance if variance > 0 else None


def _about(kind: str, store: Store, episodes: Sequence[int] | np.ndarray, model: Any) -> dict[str, Any]:
    """What the folder of a training belongs to."""
    version = FRAMES_VERSION if kind == FRAMES_KIND else TOKENIZER_VERSION
    about = {"kind": kind, "version": version, "model": to_json(model), "data": store.hash}
    return about | {"episodes": [int(index) for index in episodes]}


def collapse_warning(tokenizer: MotionAutoencoder, rows: list[dict[str, float]]) -> str | None:
    """One line if the codes say next to nothing, with what helps.

    Perplexity alone would not do: most patches of a quiet scene rightly share the code of stillness, and vectors that
    never change their codes can still use many.
    """
    codes, last = tokenizer.config.codebook.codes, rows[-1] if rows else {}
    if "active" not in last or (last["active"] >= codes / 8 and last["bits"] >= 0.02):
        return None
    return (
        f"the codebook has collapsed: {last['active']:.0f} of {codes} codes in use, {last['bits']:.3f} bits a token; "
        "lengthen --warmup, lower --patience, or check that the frames move at all"
    )


def encode_store(
    store: Store, folder: Path, progress: Progress = SILENT, episodes: Sequence[int] | None = None
) -> Store:
    """The column of codes that a trained tokenizer gives a data set, or some of its episodes: one for every patch.

    A row holds the codes of the motion that starts there; rows whose motion would leave the episode hold zeros, and no
    clip with the tokenizer's offsets ever reads them.
    """
    return encode_with(store, load_tokenizer(folder), release_hash(folder), progress, episodes)


def encode_data(store: Store, folder: str | Path, progress: Progress = SILENT) -> Beside:
    """The codes of a whole data set, as exports want them."""
    codes, offsets = encode_store(store, Path(folder), progress), load_tokenizer(Path(folder)).config.motion.offsets
    return Beside(codes, CODES, behind=-offsets[0], ahead=offsets[-1])


def encode_with(
    store: Store,
    tokenizer: MotionAutoencoder,
    tokenizer_hash: str,
    progress: Progress = SILENT,
    episodes: Sequence[int] | None = None,
) -> Store:
    """The same for a tokenizer that is loaded, or that another model contains."""
    motion_clips(store, tokenizer.config)  # refuses data that do not fit before anything is written
    patches = tokenizer.config.grid**2
    return derive(
        store,
        CODES,
        tokenizer_hash,
        Column(tokenizer.config.codebook.dtype, (patches,)),
        lambda index: encode_episode(tokenizer, store, index, patches),
        progress,
        episodes,
    )


@torch.inference_mode()
def encode_episode(tokenizer: MotionAutoencoder, store: Store, index: int, patches: int) -> np.ndarray:
    frames = store.episode(index, "frames")
    codes = np.zeros((len(frames), patches), tokenizer.config.codebook.dtype)
    offsets = tokenizer.config.motion.offsets
    before, span = -offsets[0], offsets[-1] - offsets[0]
    for first in range(0, len(frames) - span, BATCH):
        part = torch.from_numpy(np.array(frames[first : first + BATCH + span]))[:, None]
        images = tokenizer.resize(Batch(part, (0,), {}).images(0))
        signal = motion_of_sequence(tokenizer.config.motion, images)
        found = tokenizer.encode(signal, images[before : before + len(signal)])
        codes[first + before : first + before + len(found)] = found.numpy()
    return codes


class Seen(NamedTuple):
    """What a tokenizer finds in consecutive frames: n motions, on a grid of u × v patches."""

    codes: UInt8[np.ndarray, "n u v"] | UInt16[np.ndarray, "n u v"]
    energy: Float32[np.ndarray, "n u v"]
    """Of the motion in every patch."""
    error: Float32[np.ndarray, "n u v"]
    """Of what the codes draw otherwise there."""


@torch.inference_mode()
def watch(tokenizer: MotionAutoencoder, frames: UInt8[np.ndarray, "t h w c"]) -> Seen:
    """Codes of consecutive frames, and how well they redraw the motion."""
    images = tokenizer.resize(Batch(torch.from_numpy(frames)[:, None], (0,), {}).images(0))
    signal = motion_of_sequence(tokenizer.config.motion, images)
    before, patch = -tokenizer.config.motion.offsets[0], tokenizer.config.patch
    present = images[before : before + len(signal)]
    codes = tokenizer.encode(signal, present)
    redrawn = tokenizer.redraw(codes, present)
    error, energy = (
        reduce(part.square(), "n m (u i) (v j) -> n u v", "sum", i=patch, j=patch)
        for part in (redrawn - signal, signal)
    )
    found = rearrange(codes, "n (u v) -> n u v", u=energy.shape[1])
    return Seen(found.numpy().astype(tokenizer.config.codebook.dtype), energy.numpy(), error.numpy())


def encode_frames(
    store: Store,
    tokenizer: FrameTokenizer,
    tokenizer_hash: str,
    progress: Progress = SILENT,
    episodes: Sequence[int] | None = None,
) -> Store:
    """The column of tokens that a frame tokenizer gives every frame of a data set."""
    frame_clips(store, tokenizer.config)  # refuses data that do not fit before anything is written
    places = (store.columns["frames"].shape[0] // 2 ** len(IMPALA)) ** 2

    @torch.inference_mode()
    def compute(index: int) -> np.ndarray:
        frames = torch.from_numpy(np.array(store.episode(index, "frames")))[:, None]
        parts = [tokenizer.encode(Batch(part, (0,), {}).images(0)) for part in frames.split(BATCH)]
        return torch.cat(parts).numpy().astype(np.int16)

    return derive(store, TOKENS, tokenizer_hash, Column("int16", (places,)), compute, progress, episodes)
