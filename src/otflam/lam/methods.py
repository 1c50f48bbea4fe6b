"""Latent action models by name: built, trained, loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from otflam.core.config import from_json, to_json
from otflam.core.errors import UserError, require_name
from otflam.core.files import write_json
from otflam.core.nn import IMPALA
from otflam.core.provenance import versions
from otflam.core.release import load_weights, read_release, release_hash, save_weights
from otflam.core.run import Run
from otflam.core.train import check_batch, fit, launch
from otflam.core.training import Hardware, TrainConfig
from otflam.data.clips import Clips
from otflam.data.store import Store
from otflam.lam.config import DinoConfig, FLapoConfig, LamConfig, LapoConfig, MLapoConfig, OTFConfig, PixelConfig
from otflam.lam.dino import DinoLAM
from otflam.lam.f_lapo import FactorisedLapo
from otflam.lam.features import Backbone, store_features
from otflam.lam.health import check_health, verdict
from otflam.lam.lapo import Lapo
from otflam.lam.m_lapo import MotionLapo
from otflam.lam.model import LAM, CodeLAM, require_square
from otflam.lam.pixel import PixelLAM
from otflam.tokenizer.build import build_tokenizer, load_tokenizer
from otflam.tokenizer.config import TokenizerConfig
from otflam.tokenizer.encode import encode_with
from otflam.tokenizer.model import MotionAutoencoder

KIND = "lam"
VERSION = 1
"""Bump when training would give other weights: then nothing trained before is taken for its result."""
CONFIGS: dict[str, type] = {
    "otf-lam-pixel": PixelConfig,
    "otf-lam-dino": DinoConfig,
    "lapo-128": LapoConfig,
    "lapo-256": LapoConfig,
    "m-lapo": MLapoConfig,
    "f-lapo": FLapoConfig,
}
OPTIONS = {"transform": "--motion.transform", "order": "--motion.order", "stride": "--motion.stride"}
LAPOS: dict[type, type[Lapo]] = {LapoConfig: Lapo, MLapoConfig: MotionLapo, FLapoConfig: FactorisedLapo}


@dataclass(frozen=True)
class Parts:
    """What a model is made for and of, beside its own configuration."""

    frames: tuple[int, int, int]
    """Height, width and colours of the frames."""
    tokenizer: MotionAutoencoder | None = None
    tokenizer_hash: str | None = None
    backbone: Backbone | None = None
    width: int | None = None
    """Features of the backbone, which may itself be absent where they are stored."""


def build_lam(config: LamConfig, parts: Parts) -> LAM:
    if isinstance(config, LapoConfig):
        size = require_square(parts.frames[:2], 2 ** len(IMPALA), "LAPO")
        for name in ("reach", "stride", "frames", "scale", "latent"):
            if getattr(config, name) < 1:
                raise UserError(f"--{name} {getattr(config, name)}", "give at least 1")
        return LAPOS[type(config)](config, size, parts.frames[2])
    size, tokenizer = require_square(parts.frames[:2], 1, "OTF-LAM"), check_tokenizer(config, parts)
    if isinstance(config, PixelConfig):
        if config.drawn < 1 or size % config.drawn:
            raise UserError(f"--drawn {config.drawn} for frames of {size} pixels", "choose a divisor")
        return PixelLAM(config, tokenizer, size, parts.frames[2])
    if parts.width is None:
        raise UserError("otf-lam-dino needs a DINOv2 backbone", "give --dino DIR (see 'otflam dino prepare --help')")
    return DinoLAM(config, tokenizer, parts.width, parts.backbone)


def check_tokenizer(config: OTFConfig, parts: Parts) -> MotionAutoencoder:
    """The frozen tokenizer, which must be what the model was configured for."""
    if parts.tokenizer is None:
        raise UserError("this method needs a trained tokenizer", "give --tokenizer DIR (see 'otflam tokenizer train')")
    trained = parts.tokenizer.config
    wanted: dict[str, Any] = {"method": "otf", "channels": parts.frames[2], "grid": config.grid}
    found: dict[str, Any] = {name: getattr(trained, name) for name in wanted}
    wanted |= to_json(config.motion)
    found |= to_json(trained.motion)
    for name, value in wanted.items():
        if found[name] != value:
            raise UserError(
                f"the tokenizer was trained with {name} {found[name]}, the model expects {value}",
                f"give another tokenizer or set {OPTIONS.get(name, '--' + name)} {found[name]}",
            )
    if config.grid % config.cell:
        raise UserError(f"cells of {config.cell} patches on a grid of {config.grid}", "choose a divisor of the grid")
    if isinstance(config, DinoConfig) and parts.backbone is not None:
        parts.backbone.check_grid(config.side)
    return parts.tokenizer


def check_frames(parts: Parts, shape: tuple[int, ...]) -> None:
    """Refuse frames of another size than the model was trained on."""
    if tuple(shape) != parts.frames:
        seen, wanted = ("×".join(map(str, sizes)) for sizes in (shape, parts.frames))
        raise UserError(f"frames of {seen} for a model trained on {wanted}", "scale them or train on such frames")


def stored_columns(
    model: LAM,
    parts: Parts,
    store: Store,
    episodes: Sequence[int] | np.ndarray | None,
    on_part: Callable[[str], Callable[[int, int], None]],
    online: bool = False,
) -> dict[str, Store]:
    """What the model's frozen networks say about the episodes, computed once; `online` leaves out what is large."""
    columns = {}
    if isinstance(model, CodeLAM) and parts.tokenizer_hash is not None:
        columns["codes"] = encode_with(store, model.tokenizer, parts.tokenizer_hash, on_part("codes"))
    if isinstance(model, DinoLAM) and parts.backbone is not None and not online:
        columns["features"] = store_features(store, parts.backbone, episodes, on_part("DINO features"))
    return columns


def train_lam(
    method: str,
    store: Store,
    split: tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray],
    config: LamConfig,
    train: TrainConfig,
    hardware: Hardware,
    out: Path,
    tokenizer: Path | None = None,
    backbone: Backbone | None = None,
    online: bool = False,
    on_part: Callable[[str], Callable[[int, int], None]] = lambda name: lambda done, total: None,
    on_start: Callable[[int, int], None] = lambda done, total: None,
    on_step: Callable[[int], None] = lambda count: None,
    on_log: Callable[[dict[str, float]], None] = lambda row: None,
) -> LAM:
    """Train on the first part of a `split` and watch the model's health on the second; or continue, or find it done."""
    require_name("method", method, CONFIGS)
    parts = find_parts(store, tokenizer, backbone)
    fabric = launch(hardware)
    torch.manual_seed(train.seed)
    model = build_lam(config, parts)
    used = np.concatenate([np.asarray(episodes) for episodes in split])
    about = {"kind": KIND, "version": VERSION, "method": method, "model": to_json(config), "train": to_json(train)}
    about |= {"data": store.hash, "episodes": [[int(index) for index in episodes] for episodes in split]}
    about |= describe_parts(parts) | {"online": online, "versions": versions("torch", "numpy")}
    for episodes in split:
        Clips(store, model.training_offsets, (), episodes)  # refuses data that do not fit before anything is written
    check_batch(train, fabric)
    run = Run(out, about, writes=fabric.global_rank == 0)
    if run.finished:
        return load_lam(out, backbone)[0]
    if backbone is not None:
        backbone.to(fabric.device)
    columns = stored_columns(model, parts, store, used, on_part, online)
    clips = Clips(store, model.training_offsets, (), split[0], columns)
    held_out = Clips(store, model.training_offsets, (), split[1], columns)
    # More than once a training: whether the latent matters shows early, and is what one wants to know.
    check = partial(check_health, model, held_out, batches=2)
    fit(model, clips, train, run, fabric, on_start, on_step, on_log, check)
    if fabric.global_rank == 0:
        health = check_health(model, held_out)
        write_json(out / "health.json", {**health, "verdict": verdict(health)})
        save_weights(model, out)
    fabric.barrier()
    return model.cpu().eval()


def find_parts(store: Store, tokenizer: Path | None, backbone: Backbone | None) -> Parts:
    if "frames" not in store:
        raise UserError(f"{store.path} has no frames", "give a data set")
    height, width, colours = store.columns["frames"].shape
    loaded = None if tokenizer is None else load_tokenizer(tokenizer)
    named = None if tokenizer is None else release_hash(tokenizer)
    return Parts((height, width, colours), loaded, named, backbone, None if backbone is None else backbone.width)


def describe_parts(parts: Parts) -> dict[str, Any]:
    """What a run must remember to be loaded or continued."""
    found: dict[str, Any] = {"frames": list(parts.frames), "tokenizer": None, "backbone": None}
    if parts.tokenizer is not None:
        found["tokenizer"] = {"model": to_json(parts.tokenizer.config), "hash": parts.tokenizer_hash}
    if parts.backbone is not None:
        facts = ("name", "hash", "size", "width")
        found["backbone"] = {name: getattr(parts.backbone, name) for name in facts}
    return found


def load_lam(folder: Path, backbone: Backbone | None = None) -> tuple[LAM, Parts]:
    """A trained model, ready to use, and its parts; without its backbone it works on stored features only."""
    about = read_release(folder, KIND)
    kind = CONFIGS[require_name("method", about["method"], CONFIGS)]
    config: Any = from_json(kind, about["model"], f"{folder / 'config.json'}: model")
    tokenizer, told = None, about["tokenizer"]
    if told is not None:
        tokenizer = build_tokenizer(from_json(TokenizerConfig, told["model"], f"{folder / 'config.json'}: tokenizer"))
    wanted = about["backbone"]
    if wanted is not None and backbone is not None and backbone.hash != wanted["hash"]:
        raise UserError(
            f"{folder} was trained with {wanted['name']} at {wanted['size']} pixels, not {backbone.name} at "
            f"{backbone.size}",
            "give the same backbone",
        )
    height, width, colours = about["frames"]
    parts = Parts(
        (height, width, colours), tokenizer, None if told is None else told["hash"], backbone,
        None if wanted is None else wanted["width"],
    )  # fmt: skip
    model = build_lam(config, parts)
    load_weights(model, folder)
    return model.eval(), parts
