"""Frozen configuration objects as JSON: written whole, read back strictly, hashed for reuse; and how to train.

What was written outlives the classes that wrote it. A field that joins a class later has the metadata ADDED: older
files lack it and mean its default, and while it has its default it is in neither JSON nor hashes. A field that gets
another name has the metadata `renamed` and keeps its old one in files. Classes may move and be renamed freely: files do
not name them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import platform
import types
import typing
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Literal, TypeVar

from otflam.core.errors import UserError, unknown_name

T = TypeVar("T")


ADDED = {"added": True}
"""Metadata of a field that older files do not have: they mean its default."""


def renamed(old: str) -> dict[str, str]:
    """Metadata of a field that files know by its old name."""
    return {"json": old}


def to_json(config: Any) -> Any:
    """A configuration as plain JSON values: every field but those added later that have their default."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {
            _key(f): to_json(getattr(config, f.name)) for f in dataclasses.fields(config) if not _omitted(f, config)
        }
    if isinstance(config, tuple | list):
        return [to_json(item) for item in config]
    if isinstance(config, dict):
        return {str(key): to_json(value) for key, value in config.items()}
    return config


def from_json(cls: type[T], values: Any, where: str = "config") -> T:
    """Rebuild a configuration; an unknown, missing or mistyped field is an error that names it."""
    if not isinstance(values, dict):
        raise UserError(f"{where} is not a JSON object", "was the file edited by hand?")
    hints = typing.get_type_hints(cls)
    fields = {_key(each): each for each in dataclasses.fields(cls)}  # ty: ignore[invalid-argument-type]
    for name in values:
        if name not in fields:
            raise unknown_name(f"field in {where}", name, fields)
    for name, known in fields.items():
        if name not in values and not known.metadata.get("added"):
            raise UserError(f"{where} has no field {name!r}", "it was written by another version of otflam")
    found = {fields[name].name: (name, value) for name, value in values.items()}
    return cls(**{name: _convert(hints[name], value, f"{where}.{key}") for name, (key, value) in found.items()})


def _key(field: dataclasses.Field) -> str:
    """The name of a field in files."""
    return field.metadata.get("json", field.name)


def _omitted(field: dataclasses.Field, config: Any) -> bool:
    """Whether a file says nothing of a field."""
    if not field.metadata.get("added"):
        return False
    default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    return getattr(config, field.name) == default


def _fits(kind: Any, names: set[str]) -> bool:
    """Whether the fields of a class are those of an object in a file."""
    fields = dataclasses.fields(kind)
    return {_key(f) for f in fields if not f.metadata.get("added")} <= names <= {_key(f) for f in fields}


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _convert(arguments[0], value, where)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_json(hint, value, where)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        kinds = [argument for argument in arguments if argument is not type(None)]
        if len(kinds) > 1:  # configurations that differ in their fields
            kinds = [kind for kind in kinds if isinstance(value, dict) and _fits(kind, set(value))]
        if len(kinds) != 1:
            raise UserError(f"{where} fits none of its kinds", "it was written by another version of otflam")
        return _convert(kinds[0], value, where)
    if origin is tuple and isinstance(value, list):
        inner = [arguments[0]] * len(value) if arguments[-1] is ... else arguments
        if len(inner) != len(value):
            raise UserError(f"{where} has {len(value)} values", f"expected {len(inner)}")
        return tuple(_convert(kind, item, where) for kind, item in zip(inner, value, strict=True))
    if origin is dict and isinstance(value, dict):
        number = arguments[0] is int  # JSON's keys are text
        return {int(key) if number else key: _convert(arguments[1], item, where) for key, item in value.items()}
    if origin is typing.Literal:
        if value in arguments:
            return value
        raise unknown_name(f"value of {where}", str(value), map(str, arguments))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise UserError(f"{where} is {value!r}", f"expected {getattr(hint, '__name__', hint)}")


def stable_hash(value: Any) -> str:
    """A short name for a JSON value or configuration, the same in every process and on every machine."""
    text = json.dumps(to_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def versions(*packages: str) -> dict[str, str]:
    """Installed versions of otflam, Python and the named packages: what else can change the bits of a result."""
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in ("otflam", *packages)}


SMALLER_STEPS = "train with a smaller --lr into another --out (a checkpoint that is here is from before)"
"""A folder belongs to its settings, and nothing that is not finite is ever written to it."""
COUNT_LIMIT = 2**63
"""More than any count; what random generators take as a seed is below."""


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class TrainConfig:
    steps: int = 2000
    """Gradient steps."""
    batch: int = 128
    """Samples per step, over all processes."""
    optimiser: Literal["adamw", "adam"] = "adamw"
    """Which form of Adam."""
    lr: float = 3e-4
    """Step size."""
    weight_decay: float = 0.0
    """Decay of the weights."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the step size falls to zero, if it does."""
    ramp: int = 0
    """Steps over which the step size first rises from zero."""
    clip: float = 1.0
    """Largest norm of a gradient; 0 leaves it alone."""
    seed: int = 0
    """Decides weights, batches and dropout."""
    log_every: int = 25
    """Steps between two lines of metrics."""
    save_every: int = 250
    """Steps between two checkpoints."""
    weights: dict[str, float] = field(default_factory=dict)
    """Weight of each of the model's losses; the names must be exactly the model's."""

    def __post_init__(self) -> None:
        """Refuse what no training can be made with."""
        for name, least in {"steps": 1, "batch": 1, "ramp": 0, "seed": 0, "log_every": 1, "save_every": 1}.items():
            if not least <= getattr(self, name) < COUNT_LIMIT:
                raise UserError(f"{_option(name)} {getattr(self, name)}", f"give a whole number from {least} on")
        if not 0 < self.lr < math.inf:
            raise UserError(f"{_option('lr')} {self.lr}", "give a number above 0, such as 1e-3")
        for name in ("weight_decay", "clip"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"{_option(name)} {getattr(self, name)}", "give 0 or a number above it")
        for name, weight in self.weights.items():
            if not math.isfinite(weight):
                raise UserError(f"--weights.{name} {weight}", "give a finite number")


Logger = Literal["tensorboard", "wandb", "trackio", "none"]


@dataclass(frozen=True)
class Hardware:
    devices: int = 1
    """Processes (CPU) or GPUs per machine."""
    nodes: int = 1
    """Machines."""
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    """What to train on."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Numbers to compute in: by default bfloat16 on a GPU and float32 on a CPU, where bfloat16 is slower."""
    compile: bool = False
    """Compile the model first: minutes that pay in long trainings on a GPU; on a CPU it needs a C++ compiler."""
    parts: int = 1
    """Work every batch off in so many parts, one after the other, where memory is short (gradient accumulation)."""
    recompute: bool = False
    """Keep nothing inside Transformer and residual blocks between the two passes, and compute it again: less memory,
    more time."""
    logger: Logger = field(default="tensorboard", metadata=ADDED)
    """Where curves are shown while it trains, beside metrics.jsonl; wandb and trackio are extras."""

    def __post_init__(self) -> None:
        for name in ("devices", "nodes", "parts"):
            if getattr(self, name) < 1:
                raise UserError(f"{_option(name)} {getattr(self, name)}", "give at least 1")
