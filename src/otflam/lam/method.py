"""What a method declares of itself: by its name, without loading torch.

A method is a file or a folder whose declaration calls `register_method`; the model is named by a string and imported
when it is needed. Packages add their own through the entry-point group `otflam.methods`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from otflam.core import TrainConfig, import_name, load_plugins, register, require_name

GROUP = "otflam.methods"
BUILT_IN = ("otf_lam", "lapo", "flam", "hilam", "fast", "laom", "bottlenecks", "mask_lapo")
"""Folders beside this file; their order is that of help, plans and tables."""

ModelConfig = Any
"""A frozen dataclass: the configuration of a method's model."""
Base = Literal["motion tokenizer", "frame tokenizer", "latent action model"]
"""Trained models that a method may stand on."""


@dataclass(frozen=True)
class Size:
    """A method in one of the presets."""

    model: ModelConfig
    train: TrainConfig


@dataclass(frozen=True)
class Method:
    name: str
    summary: str
    """One line for help and documents, that goes on after 'Train'."""
    config: type
    """Its configuration, whose defaults are the paper's values."""
    model: str
    """The class of its model, as 'module:name'; a `LAM` of otflam.lam.model."""
    sizes: Mapping[str, Size] = field(default_factory=dict)
    """By preset."""
    base: Base | None = None
    """What it stands on."""
    low: str | None = None
    """The method of the latent action model under it, which is trained for it only."""
    features: bool = False
    """Whether it predicts features of a frozen backbone, which are costly and stored."""
    draws: bool = False
    """Whether it predicts frames."""
    shows: Literal["slots", "skills"] | None = None
    """What is inside that can be drawn."""
    costly: bool = False
    """Whether it is left out where it would only be a control."""
    paper: str = ""
    """Where the paper has it."""
    varies: str | None = None
    """The method that this is a variant of; studies of the paper leave variants out."""
    colour: str = ""
    """In figures, as #rrggbb; without one it is grey."""

    def load(self) -> Any:
        """The class of its model."""
        return import_name(self.model)


METHODS: dict[str, Method] = {}
"""All methods by name, complete once `otflam.lam` is imported."""


def register_method(method: Method) -> Method:
    """Make a method known by its name."""
    return register(METHODS, method.name, method, "method")


def find_method(name: str) -> Method:
    return METHODS[require_name("method", name, METHODS)]


def load_methods() -> None:
    """Import the declarations of all methods: ours, then those of installed packages."""
    for family in BUILT_IN:
        import_module(f"otflam.lam.{family}")
    load_plugins(GROUP, "method")


def low_level() -> set[str]:
    """Methods that are trained for others only."""
    return {method.low for method in METHODS.values() if method.low}
