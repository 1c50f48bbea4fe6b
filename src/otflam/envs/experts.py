"""Trained experts of the control suite.

They are evaluated with numpy in double precision and rounded to float32 at the end, so that workers start without
torch and the differences between processors' matrix kernels do not reach the recorded actions.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors
from jaxtyping import Float32, Float64
from safetensors.numpy import load_file, save_file

from otflam.core import UserError, digest_file, first_line, replacing
from otflam.envs.environment import Facts
from otflam.envs.rollout import Observation

WEIGHTS = resources.files("otflam.envs") / "weights"
OBSERVATION_LIMIT = 10.0
"""Normalised observations are clipped here, in our experts and in published PPO ones."""


@dataclass(frozen=True)
class Expert:
    """A multi-layer perceptron on normalised simulator states."""

    mean: Float64[np.ndarray, " s"]
    std: Float64[np.ndarray, " s"]
    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    """Weight [out, in] and bias of every linear layer."""
    activation: Literal["relu", "tanh"]
    squash: bool
    """Whether the output passes through tanh; else it is clipped to the bounds when executed."""
    digest: str | None = None
    """Names the content of its file."""

    def act(self, observation: Observation, rng: np.random.Generator) -> Float32[np.ndarray, " a"]:
        return self.action(observation.state)

    def action(self, state: Float32[np.ndarray, " s"]) -> Float32[np.ndarray, " a"]:
        x = np.clip((state - self.mean) / self.std, -OBSERVATION_LIMIT, OBSERVATION_LIMIT)
        for weight, bias in self.layers[:-1]:
            x = weight @ x + bias
            x = np.maximum(x, 0) if self.activation == "relu" else np.tanh(x)
        weight, bias = self.layers[-1]
        x = weight @ x + bias
        return (np.tanh(x) if self.squash else x).astype(np.float32)

    def save(self, path: Path, about: Mapping[str, Any]) -> None:
        """Write float32 weights with a description of where they come from."""
        tensors = {"mean": self.mean, "std": self.std}
        for number, (weight, bias) in enumerate(self.layers):
            tensors |= {f"layers.{number}.weight": weight, f"layers.{number}.bias": bias}
        # One entry, because safetensors writes several in random order and equal experts should be equal files.
        rounded = {name: np.ascontiguousarray(tensor, np.float32) for name, tensor in tensors.items()}
        facts = {"activation": self.activation, "squash": self.squash, "digest": tensor_digest(rounded), **about}
        with replacing(path) as temporary:
            save_file(rounded, temporary, {"about": json.dumps(facts, sort_keys=True)})


def check_expert(mean: np.ndarray, std: np.ndarray, layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> str | None:
    """Why these numbers make no expert, if they do not: its layers must fit each other."""
    inputs = mean.size
    if not mean.shape == std.shape == (inputs,):
        return f"mean and deviation have the shapes {mean.shape} and {std.shape}"
    for number, (weight, bias) in enumerate(layers):
        if weight.ndim != 2 or weight.shape[1] != inputs or bias.shape != weight.shape[:1]:
            return f"layer {number} has weights {weight.shape} and biases {bias.shape} for {inputs} inputs"
        inputs = bias.size
    if not all(np.isfinite(part).all() for part in (mean, std, *itertools.chain(*layers))):
        return "some of its numbers are not finite"
    return None if (std > 0).all() else "a deviation is not above 0"


def packaged_experts() -> dict[str, Path]:
    """The experts that come with the package, by task."""
    return {Path(str(file)).stem: Path(str(file)) for file in WEIGHTS.iterdir() if file.name.endswith(".safetensors")}


def load_expert(task: str, file: str | None = None) -> Expert:
    """The packaged expert of a task, or one from a file: ours (.safetensors) or a LAOM/CleanRL PPO checkpoint."""
    packaged = packaged_experts()
    if file is None and task not in packaged:
        raise UserError(
            f"no packaged expert for {task!r} (there is one for {', '.join(sorted(packaged))})",
            f"train one with 'otflam expert train {task}', or use --mix random=1",
        )
    path = packaged[task] if file is None else Path(file)
    if not path.is_file():
        raise UserError(f"no expert file at {path}", "check the path given to --expert")
    expert = _load_safetensors(path) if path.suffix == ".safetensors" else _load_ppo(path)
    return replace(expert, digest=digest_file(path))


def fitting_expert(facts: Facts, file: str | None) -> Expert:
    """The expert of a task, if it is for as many states and actions as the task has."""
    loaded = load_expert(facts.task, file)
    if (len(loaded.mean), len(loaded.layers[-1][1])) != (facts.state_size, facts.actions.size):
        raise UserError(
            f"the expert {file or facts.task} is for {len(loaded.mean)} states and {len(loaded.layers[-1][1])} actions",
            f"{facts.task} has {facts.state_size} and {facts.actions.size}: use the expert of this task",
        )
    return loaded


def _load_safetensors(path: Path) -> Expert:
    cure = "it must come from 'otflam expert train'"
    try:
        tensors, about = load_file(path), expert_about(path)
        layers = []
        while f"layers.{len(layers)}.weight" in tensors:
            number = len(layers)
            weight, bias = (tensors[f"layers.{number}.{part}"].astype(np.float64) for part in ("weight", "bias"))
            layers.append((weight, bias))
        if about["activation"] not in ("relu", "tanh") or not layers:
            raise KeyError("layers")
        mean, std = (tensors[name].astype(np.float64) for name in ("mean", "std"))
        if about.get("digest") not in (None, tensor_digest(tensors)):  # those of older versions have none
            raise ValueError("its weights were altered")
        activation, squash = "relu" if about["activation"] == "relu" else "tanh", bool(about["squash"])
        if (problem := check_expert(mean, std, layers)) is not None:
            raise ValueError(problem)
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise UserError(f"{path} is not an expert ({error})", cure) from None
    return Expert(mean, std, tuple(layers), activation, squash)


def tensor_digest(tensors: Mapping[str, np.ndarray]) -> str:
    """Names the content of tensors."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name}{tensors[name].shape}".encode() + np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()


def expert_about(path: Path) -> dict[str, Any]:
    """Where an expert comes from."""
    with safetensors.safe_open(path, "np") as file:
        return dict(json.loads((file.metadata() or {})["about"]))


def _load_ppo(path: Path) -> Expert:
    """Read a CleanRL-style PPO agent: `actor_mean.N` layers with tanh and a running mean and variance of the states."""
    import torch  # late: the packaged experts and the workers do not need it

    cure = "it must be the state dict of a PPO agent with actor_mean.N layers and running observation statistics"
    try:
        # weights_only reads tensors and plain containers and refuses to run anything else the pickle asks for.
        with warnings.catch_warnings(action="ignore"):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds over a damaged file
        raise UserError(f"{path} cannot be read as a checkpoint ({first_line(error)})", cure) from None
    for key in ("model", "agent", "state_dict"):
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
    if not isinstance(loaded, dict):
        raise UserError(f"{path} holds a {type(loaded).__name__}", cure)
    found = {str(name): value for name, value in loaded.items() if isinstance(value, torch.Tensor)}
    if odd := [name for name, value in found.items() if value.layout != torch.strided or value.is_complex()]:
        raise UserError(f"{path}: {odd[0]} is no plain tensor of numbers", cure)
    tensors = {name: value.detach().double().numpy() for name, value in found.items()}
    numbers = sorted(int(m[1]) for k in tensors if (m := re.fullmatch(r"(?:.*\.)?actor_mean\.(\d+)\.weight", k)))
    prefix = next((k.split("actor_mean.")[0] for k in tensors if "actor_mean." in k), "")
    names = [[f"{prefix}actor_mean.{number}.{part}" for part in ("weight", "bias")] for number in numbers]
    if missing := [name for pair in names for name in pair if name not in tensors]:
        raise UserError(f"{path} has no {missing[0]}", cure)
    layers = tuple((tensors[weight], tensors[bias]) for weight, bias in names)
    statistics = {
        part: [v.ravel() for k, v in tensors.items() if re.search(rf"(^|[._]){part}$", k) and "actor" not in k]
        for part in ("mean", "var")
    }
    if not layers or any(len(found) != 1 for found in statistics.values()):
        raise UserError(f"{path} has the wrong tensors ({', '.join(list(tensors)[:6]) or 'none'} …)", cure)
    mean, variance = statistics["mean"][0], statistics["var"][0]
    if (variance < 0).any():
        raise UserError(f"{path} has negative variances", cure)
    deviation = np.sqrt(variance + 1e-8)
    if (problem := check_expert(mean, deviation, layers)) is not None:
        raise UserError(f"{path} is not an expert ({problem})", cure)
    return Expert(mean, deviation, layers, "tanh", squash=False)
