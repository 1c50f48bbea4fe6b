"""Latent action models by name: built from their parts, and loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from otflam.core import UserError, from_json, load_model, read_release, release_hash, to_json
from otflam.lam.features import Backbone
from otflam.lam.method import METHODS, ModelConfig, find_method
from otflam.lam.model import LAM, Parts
from otflam.tokenizer import (
    FrameTokenizer,
    FrameTokenizerConfig,
    TokenizerConfig,
    build_tokenizer,
    load_frame_tokenizer,
    load_tokenizer,
)

LAM_KIND = "lam"
Frames = tuple[int, int, int]


@dataclass(frozen=True)
class BaseKind:
    """How the trained models of a kind that others stand on are loaded, remembered and built again."""

    key: str
    """Under which a release remembers it."""
    load: Callable[[Path, Frames], nn.Module]
    remember: Callable[[Any], dict[str, Any]]
    rebuild: Callable[[dict[str, Any], Frames, str], nn.Module]
    """From what is remembered; weights are those in the release of the model that stands on it."""


def remember_config(model: Any) -> dict[str, Any]:
    return {"model": to_json(model.config)}


def load_low(folder: Path, frames: Frames) -> LAM:
    model, parts = load_lam(folder)
    parts.check_frames(frames)
    return model


def remember_low(model: Any) -> dict[str, Any]:
    method = next(method for method in METHODS.values() if method.config is type(model.config))
    return {"method": method.name} | remember_config(model)


def rebuild_low(known: dict[str, Any], frames: Frames, where: str) -> LAM:
    method = find_method(known["method"])
    return build_lam(method.name, from_json(method.config, known["model"], where), Parts(frames))


BASES = {
    "motion tokenizer": BaseKind(
        "tokenizer",
        lambda folder, frames: load_tokenizer(folder),
        remember_config,
        lambda known, frames, where: build_tokenizer(from_json(TokenizerConfig, known["model"], where)),
    ),
    "frame tokenizer": BaseKind(
        "tokenizer",
        lambda folder, frames: load_frame_tokenizer(folder),
        remember_config,
        lambda known, frames, where: FrameTokenizer(from_json(FrameTokenizerConfig, known["model"], where)),
    ),
    "latent action model": BaseKind("low", load_low, remember_low, rebuild_low),
}


def build_lam(method: str, config: ModelConfig, parts: Parts) -> LAM:
    """A fresh model."""
    return find_method(method).load().build(config, parts)


def find_parts(method: str, frames: Frames, base: Path | None, backbone: Backbone | None) -> Parts:
    """What a model is trained with; `base` is the folder of what it stands on."""
    parts = Parts(frames, backbone=backbone, width=None if backbone is None else backbone.width)
    kind = find_method(method).base
    if base is None or kind is None:
        return parts
    return replace(parts, base=BASES[kind].load(base, parts.frames), base_hash=release_hash(base))


def describe_parts(method: str, parts: Parts) -> dict[str, Any]:
    """What a run must remember to be loaded or continued."""
    found: dict[str, Any] = {"frames": list(parts.frames), "tokenizer": None, "backbone": None}
    if parts.base is not None:
        kind = BASES[find_method(method).base or ""]
        found[kind.key] = kind.remember(parts.base) | {"hash": parts.base_hash}
    if parts.backbone is not None:
        facts = ("name", "hash", "size", "width")
        found["backbone"] = {name: getattr(parts.backbone, name) for name in facts}
    return found


def load_lam(folder: Path, backbone: Backbone | None = None) -> tuple[LAM, Parts]:
    """A trained model, ready to use, and its parts; without its backbone it works on stored features only."""
    about, where = read_release(folder, LAM_KIND), f"{folder / 'config.json'}"
    method = find_method(about["method"])
    config, wanted = from_json(method.config, about["model"], f"{where}: model"), about["backbone"]
    if wanted is not None and backbone is not None and backbone.hash != wanted["hash"]:
        raise UserError(
            f"{folder} was trained with {wanted['name']} at {wanted['size']} pixels, not {backbone.name} at "
            f"{backbone.size}",
            "give the same backbone",
        )
    height, width, colours = about["frames"]
    parts = Parts((height, width, colours), backbone=backbone, width=None if wanted is None else wanted["width"])
    kind = None if method.base is None else BASES[method.base]
    known = None if kind is None else about.get(kind.key)

    def make() -> LAM:
        nonlocal parts
        if kind is not None and known is not None:
            base = kind.rebuild(known, parts.frames, f"{where}: {kind.key}")
            parts = replace(parts, base=base, base_hash=known["hash"])
        return build_lam(method.name, config, parts)

    model = load_model(make, folder)
    return model.eval(), parts
