"""Trained weights to hand on: `model.safetensors` beside a `config.json`, the layout of model hubs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import load_file, save_file
from torch import nn

from otflam.core.errors import UserError
from otflam.core.files import read_json, replacing

WEIGHTS = "model.safetensors"


def save_weights(model: nn.Module, folder: Path) -> None:
    """Write all of a model's state but what only its training needs, which it names in `transient`."""
    state = {name: tensor for name, tensor in model.state_dict().items() if name not in _transient(model)}
    with replacing(folder / WEIGHTS) as temporary:
        save_file({name: tensor.detach().contiguous() for name, tensor in state.items()}, temporary)


def _transient(model: nn.Module) -> tuple[str, ...]:
    names = getattr(model, "transient", ())
    return names if isinstance(names, tuple) else ()


def load_weights(model: nn.Module, folder: Path) -> None:
    """Fill a model with released weights; anything missing, surplus or of another shape is named."""
    file = folder / WEIGHTS
    try:
        missing, surplus = model.load_state_dict(load_file(file), strict=False)
    except (safetensors.SafetensorError, OSError, RuntimeError) as error:
        raise UserError(
            f"{file} cannot be loaded ({str(error).splitlines()[0]})", "copy it again or train anew"
        ) from None
    missing = [name for name in missing if name not in _transient(model)]
    if missing or surplus:
        raise UserError(f"{file} has other weights ({', '.join([*missing, *surplus][:3])})", "it is of another version")


def read_release(folder: Path, kind: str) -> dict[str, Any]:
    """The configuration of a finished training of the given kind."""
    config = read_json(folder / "config.json", f"give the folder of a trained {kind}")
    if not isinstance(config, dict) or config.get("kind") != kind:
        raise UserError(f"{folder} is no {kind}", f"give the folder of a trained {kind}")
    if not (folder / WEIGHTS).exists():
        raise UserError(f"{folder} is not finished", "run the command that was training it again")
    return config


def release_hash(folder: Path) -> str:
    """Names a trained model by its weights and configuration."""
    digest = hashlib.blake2b(digest_size=16)
    for name in ("config.json", WEIGHTS):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()
