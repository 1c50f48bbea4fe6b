"""Trained weights to hand on: `model.safetensors` beside a `config.json`, the layout of model hubs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import safetensors
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from otflam.core.errors import UserError, first_line
from otflam.core.files import digest_file, read_json, replacing, write_json

M = TypeVar("M", bound=nn.Module)
WEIGHTS, CONFIG, DIGEST = "model.safetensors", "config.json", "digest.json"
DIGESTED = (CONFIG, "health.json")
"""What else a release says, where it says it."""


def save_weights(model: nn.Module, folder: Path) -> None:
    """Write all of a model's state but what only its training needs, which it names in `transient`, and its digest."""
    state = {name: tensor for name, tensor in model.state_dict().items() if name not in _transient(model)}
    if (broken := first_not_finite(state)) is not None:
        raise UserError(f"{broken} is not finite: {folder / WEIGHTS} is not written", "train with a smaller --lr")
    with replacing(folder / WEIGHTS) as temporary:
        save_file({name: tensor.detach().contiguous() for name, tensor in state.items()}, temporary)
        digest = digest_file(temporary)
        (folder / DIGEST).unlink(missing_ok=True)  # weights never lie beside the digest of others
    digests = {name: digest_file(folder / name) for name in DIGESTED if (folder / name).exists()}
    write_json(folder / DIGEST, {WEIGHTS: digest, **digests})


def first_not_finite(tensors: dict[str, Any]) -> str | None:
    """The name of the first tensor that holds an infinite number or none at all."""
    tensors = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
    found = [tensor.isfinite().all() for tensor in tensors.values()]
    if not found or bool(torch.stack([flag.to(found[0].device) for flag in found]).all()):
        return None
    return next(name for name, flag in zip(tensors, found, strict=True) if not flag)


def check_digest(folder: Path, names: tuple[str, ...] = (WEIGHTS, *DIGESTED)) -> None:
    """Refuse files that are not those that were saved; releases of older versions have digests of fewer, or none."""
    if not (folder / DIGEST).exists():
        return
    digests = read_json(folder / DIGEST, f"delete it if you trust {WEIGHTS}")
    for name in names:
        wanted = digests.get(name) if isinstance(digests, dict) else ""
        if not (wanted is None and name in DIGESTED) and wanted != digest_file(folder / name):
            raise UserError(
                f"{folder / name} is not what was saved: its digest is not that of {DIGEST}",
                "copy all again or train anew",
            )


def _transient(model: nn.Module) -> tuple[str, ...]:
    names = getattr(model, "transient", ())
    return names if isinstance(names, tuple) else ()


def load_weights(model: nn.Module, folder: Path) -> None:
    """Fill a model with released weights; anything missing, surplus or of another shape is named."""
    file = folder / WEIGHTS
    try:
        check_digest(folder, (WEIGHTS,))
        missing, surplus = model.load_state_dict(load_file(file), strict=False)
    except (safetensors.SafetensorError, OSError, RuntimeError) as error:
        raise UserError(f"{file} cannot be loaded ({first_line(error)})", "copy it again or train anew") from None
    missing = [name for name in missing if name not in _transient(model)]
    if missing or surplus:
        raise UserError(f"{file} has other weights ({', '.join([*missing, *surplus][:3])})", "it is of another version")


def load_model(make: Callable[[], M], folder: Path) -> M:
    """Make a model and fill it with released weights; what its configuration asks for must fit them first.

    A configuration that was altered may ask for more memory than there is: shapes cost none.
    """
    try:
        with torch.device("meta"):
            wanted = {name: tuple(tensor.shape) for name, tensor in make().state_dict().items()}
        with safetensors.safe_open(folder / WEIGHTS, "pt") as file:
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - no dict
    except (ArithmeticError, AssertionError, IndexError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(
            f"{folder} describes no model that can be made ({first_line(error)})", "copy it again or train anew"
        ) from None
    except safetensors.SafetensorError as error:
        raise UserError(f"{folder / WEIGHTS} cannot be loaded ({error})", "copy it again or train anew") from None
    for name in wanted.keys() & found.keys():
        if wanted[name] != found[name]:
            raise UserError(
                f"{folder}: {name} is {found[name]} in {WEIGHTS} and {wanted[name]} by config.json",
                "copy both again or train anew",
            )
    model = make()
    load_weights(model, folder)
    return model


def read_release(folder: Path, kind: str) -> dict[str, Any]:
    """The configuration of a finished training of the given kind; fields that others rely on are what they must be."""
    file = folder / "config.json"
    config = read_json(file, f"give the folder of a trained {kind}")
    if not isinstance(config, dict) or config.get("kind") != kind:
        raise UserError(f"{folder} is no {kind}", f"give the folder of a trained {kind}")
    if not (folder / WEIGHTS).exists():
        raise UserError(f"{folder} is not finished", "run the command that was training it again")
    for name in NEEDED.get(kind, ()):
        if name not in config:
            raise UserError(f"{file} has no field {name!r}", "it was written by another version of otflam")
    checks = FIELDS | {"episodes": _two_lists if kind == "lam" else _indices}
    for name in config.keys() & checks.keys():
        if not checks[name](config[name]):
            raise UserError(f"{file}: {name} is {str(config[name])[:60]!r}", "copy it again or train anew")
    check_digest(folder, DIGESTED)  # last: what cannot be is named
    return config


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31


def _indices(value: Any) -> bool:
    return isinstance(value, list) and all(_count(index + 1) if isinstance(index, int) else False for index in value)


def _two_lists(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_indices, value))


def _object(**fields: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(name in value and fields[name](value[name]) for name in fields)


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


FIELDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("model", "actor", "made_from"), _object()),
    **dict.fromkeys(("decoder", "world"), _or_none(_object())),
    **dict.fromkeys(("data", "method", "column"), _text),
    **dict.fromkeys(("outputs", "latent", "actions"), _count),
    "frames": lambda value: isinstance(value, list) and len(value) == 3 and all(map(_count, value)),
    "tokenizer": _or_none(_object(model=_object(), hash=_text)),
    "low": _object(method=_text, model=_object(), hash=_text),
    "backbone": _or_none(_object(name=_text, hash=_text, size=_count, width=_count)),
}
"""What fields of a release's config.json must be, whatever its kind."""
NEEDED = {
    "tokenizer": ("model",),
    "frame tokenizer": ("model",),
    "lam": ("method", "model", "data", "episodes", "frames", "tokenizer", "backbone"),
    "clone": ("model", "data", "episodes", "frames", "column", "outputs"),
    "agent": ("actor", "frames", "decoder", "latent", "world", "actions"),
}
"""Fields without which a release of a kind cannot be used."""


def release_hash(folder: Path) -> str:
    """Names a trained model by its weights and configuration."""
    digest = hashlib.blake2b(digest_size=16)
    for name in ("config.json", WEIGHTS):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()
