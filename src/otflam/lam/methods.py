"""Latent action models by name: built from their parts, and loaded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from otflam.core.config import from_json, to_json
from otflam.core.errors import UserError, require_name
from otflam.core.nn import IMPALA
from otflam.core.release import load_model, read_release, release_hash
from otflam.data.store import Store
from otflam.lam.config import (
    DinoConfig,
    FlamConfig,
    FLapoConfig,
    HilamConfig,
    LamConfig,
    LapoConfig,
    MLapoConfig,
    OTFConfig,
    PixelConfig,
)
from otflam.lam.dino import DinoLAM
from otflam.lam.f_lapo import FactorisedLapo
from otflam.lam.features import Backbone
from otflam.lam.flam import Flam
from otflam.lam.hilam import Hilam
from otflam.lam.lapo import Lapo
from otflam.lam.m_lapo import MotionLapo
from otflam.lam.model import LAM, require_square
from otflam.lam.pixel import PixelLAM
from otflam.tokenizer.build import build_tokenizer, load_frame_tokenizer, load_tokenizer
from otflam.tokenizer.config import FrameTokenizerConfig, TokenizerConfig
from otflam.tokenizer.frames import FrameTokenizer
from otflam.tokenizer.model import MotionAutoencoder

KIND = "lam"
CONFIGS: dict[str, type] = {
    "otf-lam-pixel": PixelConfig,
    "otf-lam-dino": DinoConfig,
    "lapo-64": LapoConfig,
    "lapo-128": LapoConfig,
    "lapo-256": LapoConfig,
    "m-lapo": MLapoConfig,
    "f-lapo": FLapoConfig,
    "flam-4": FlamConfig,
    "flam-8": FlamConfig,
    "hilam": HilamConfig,
}
OPTIONS = {"transform": "--motion.transform", "order": "--motion.order", "stride": "--motion.stride"}
LAPOS: dict[type, type[Lapo]] = {LapoConfig: Lapo, MLapoConfig: MotionLapo, FLapoConfig: FactorisedLapo}


@dataclass(frozen=True)
class Parts:
    """What a model is made for and of, beside its own configuration."""

    frames: tuple[int, int, int]
    """Height, width and colours of the frames."""
    tokenizer: MotionAutoencoder | FrameTokenizer | None = None
    tokenizer_hash: str | None = None
    low: Lapo | None = None
    """The model whose latent actions another one works on."""
    low_hash: str | None = None
    backbone: Backbone | None = None
    width: int | None = None
    """Features of the backbone, which may itself be absent where they are stored."""


def build_lam(config: LamConfig, parts: Parts) -> LAM:
    if isinstance(config, LapoConfig):
        size = require_square(parts.frames[:2], 2 ** len(IMPALA), "LAPO")
        at_least_one(config, "reach", "stride", "frames", "scale", "latent")
        return LAPOS[type(config)](config, size, parts.frames[2])
    if isinstance(config, FlamConfig):
        return build_flam(config, parts)
    if isinstance(config, HilamConfig):
        return build_hilam(config, parts)
    size, tokenizer = require_square(parts.frames[:2], 1, "OTF-LAM"), check_tokenizer(config, parts)
    if isinstance(config, PixelConfig):
        if config.drawn < 1 or size % config.drawn:
            raise UserError(f"--drawn {config.drawn} for frames of {size} pixels", "choose a divisor")
        return PixelLAM(config, tokenizer, size, parts.frames[2])
    if parts.width is None:
        raise UserError("otf-lam-dino needs a DINOv2 backbone", "give --dino DIR (see 'otflam dino prepare --help')")
    return DinoLAM(config, tokenizer, parts.width, parts.backbone)


def at_least_one(config: LamConfig, *names: str) -> None:
    for name in names:
        if getattr(config, name) < 1:
            raise UserError(f"--{name} {getattr(config, name)}", "give at least 1")


def build_flam(config: FlamConfig, parts: Parts) -> Flam:
    size = require_square(parts.frames[:2], 2 ** len(IMPALA), "FLAM")
    if not isinstance(parts.tokenizer, FrameTokenizer):
        raise UserError(
            "FLAM needs a trained frame tokenizer", "give --tokenizer DIR (see 'otflam tokenizer train-frames')"
        )
    if parts.tokenizer.config.channels != parts.frames[2]:
        told = parts.tokenizer.config.channels
        raise UserError(
            f"a frame tokenizer of {told} colours for frames of {parts.frames[2]}", "give one for such frames"
        )
    at_least_one(config, "latent", "dim", "blocks", "heads", "mlp", "rounds", "slots", "stride")
    if config.latent % config.slots:
        raise UserError(f"a latent of {config.latent} for {config.slots} slots", "choose a multiple of the slots")
    if not 1 <= config.ahead < config.frames:
        raise UserError(
            f"{config.ahead} steps ahead in {config.frames} frames",
            "predict at least one step and fewer than there are frames",
        )
    return Flam(config, parts.tokenizer, (size // 2 ** len(IMPALA)) ** 2)


def build_hilam(config: HilamConfig, parts: Parts) -> Hilam:
    if parts.low is None:
        raise UserError("HiLAM needs a trained low-level model", "give --low DIR (see 'otflam lam train lapo-64')")
    if parts.low.latent != config.width:
        raise UserError(
            f"the low-level model has latent actions of {parts.low.latent} numbers, HiLAM expects {config.width}",
            f"give another model or set --width {parts.low.latent}",
        )
    at_least_one(config, "width", "skill", "dim", "blocks", "heads", "mlp")
    if config.window < 2 or min(config.chunks) < 2:
        raise UserError(f"a window of {config.window} with chunks of {config.chunks}", "each must be at least 2")
    return Hilam(config, parts.low)


def check_tokenizer(config: OTFConfig, parts: Parts) -> MotionAutoencoder:
    """The frozen tokenizer, which must be what the model was configured for."""
    if not isinstance(parts.tokenizer, MotionAutoencoder):
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


def find_parts(store: Store, config: LamConfig, base: Path | None, backbone: Backbone | None) -> Parts:
    """What a model is trained with; `base` is the tokenizer or low-level model that it works on."""
    if "frames" not in store:
        raise UserError(f"{store.path} has no frames", "give a data set")
    height, width, colours = store.columns["frames"].shape
    parts = Parts((height, width, colours), backbone=backbone, width=None if backbone is None else backbone.width)
    if base is None:
        return parts
    if isinstance(config, HilamConfig):
        return replace(parts, low=load_low(base, parts.frames), low_hash=release_hash(base))
    load = load_frame_tokenizer if isinstance(config, FlamConfig) else load_tokenizer
    return replace(parts, tokenizer=load(base), tokenizer_hash=release_hash(base))


def load_low(folder: Path, frames: tuple[int, int, int]) -> Lapo:
    """A trained model of LAPO's family for such frames."""
    model, parts = load_lam(folder)
    if not isinstance(model, Lapo):
        raise UserError(f"{folder} is not of LAPO's family", "give a model that 'otflam lam train lapo-64' has trained")
    check_frames(parts, frames)
    return model


def describe_parts(parts: Parts) -> dict[str, Any]:
    """What a run must remember to be loaded or continued."""
    found: dict[str, Any] = {"frames": list(parts.frames), "tokenizer": None, "backbone": None}
    if parts.tokenizer is not None:
        found["tokenizer"] = {"model": to_json(parts.tokenizer.config), "hash": parts.tokenizer_hash}
    if parts.low is not None:  # not named otherwise, so that runs of all other methods remain what they are
        method = next(name for name, kind in CONFIGS.items() if kind is type(parts.low.config))
        found["low"] = {"method": method, "model": to_json(parts.low.config), "hash": parts.low_hash}
    if parts.backbone is not None:
        facts = ("name", "hash", "size", "width")
        found["backbone"] = {name: getattr(parts.backbone, name) for name in facts}
    return found


def load_lam(folder: Path, backbone: Backbone | None = None) -> tuple[LAM, Parts]:
    """A trained model, ready to use, and its parts; without its backbone it works on stored features only."""
    about = read_release(folder, KIND)
    kind = CONFIGS[require_name("method", about["method"], CONFIGS)]
    config: Any = from_json(kind, about["model"], f"{folder / 'config.json'}: model")
    told, under, wanted = about["tokenizer"], about.get("low"), about["backbone"]
    if wanted is not None and backbone is not None and backbone.hash != wanted["hash"]:
        raise UserError(
            f"{folder} was trained with {wanted['name']} at {wanted['size']} pixels, not {backbone.name} at "
            f"{backbone.size}",
            "give the same backbone",
        )
    height, width, colours = about["frames"]
    frames, where = (height, width, colours), f"{folder / 'config.json'}"
    parts = Parts(frames, backbone=backbone, width=None if wanted is None else wanted["width"])

    def make() -> LAM:
        nonlocal parts
        if told is not None:
            tokenizer = _retold_tokenizer(config, told["model"], f"{where}: tokenizer")
            parts = replace(parts, tokenizer=tokenizer, tokenizer_hash=told["hash"])
        if under is not None:
            parts = replace(parts, low=_retold_low(frames, under, f"{where}: low"), low_hash=under["hash"])
        return build_lam(config, parts)

    model = load_model(make, folder)
    return model.eval(), parts


def _retold_tokenizer(config: LamConfig, told: Any, where: str) -> MotionAutoencoder | FrameTokenizer:
    """A tokenizer of the shape that a model remembers, which also holds its weights."""
    if isinstance(config, FlamConfig):
        return FrameTokenizer(from_json(FrameTokenizerConfig, told, where))
    return build_tokenizer(from_json(TokenizerConfig, told, where))


def _retold_low(frames: tuple[int, int, int], told: Any, where: str) -> Lapo:
    config: Any = from_json(CONFIGS[require_name("method", told["method"], CONFIGS)], told["model"], where)
    low = build_lam(config, Parts(frames))
    assert isinstance(low, Lapo)
    return low
