"""What every latent action model is: a transition in, a latent action between, the future out.

Axes: b transitions, d latent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import SILENT, Batch, Progress, Terms, UserError, place_of, require_square
from otflam.data import Clips, Store
from otflam.lam.features import Backbone
from otflam.lam.method import ModelConfig

Latents = Float[Tensor, "b d"]
BATCH = 128
"""Transitions that are labelled at once."""


@dataclass(frozen=True)
class Parts:
    """What a latent action model is made for and of, beside its own configuration."""

    frames: tuple[int, int, int]
    """Height, width and colours of the frames."""
    base: nn.Module | None = None
    """The trained model that this one stands on."""
    base_hash: str | None = None
    backbone: Backbone | None = None
    width: int | None = None
    """Features of the backbone, which may itself be absent where they are stored."""

    def square(self, multiple: int, what: str) -> int:
        """The side of square frames, which must be a multiple of something."""
        return require_square(self.frames[:2], multiple, what)

    def check_frames(self, shape: tuple[int, ...]) -> None:
        """Refuse frames of another size than the model was trained on."""
        if tuple(shape) != self.frames:
            seen, wanted = ("×".join(map(str, sizes)) for sizes in (shape, self.frames))
            raise UserError(f"frames of {seen} for a model trained on {wanted}", "scale them or train on such frames")


class LAM(nn.Module, ABC):
    """One method, in one shape."""

    latent: int
    """Width of a latent action."""
    stride: int
    """Steps from the current frame to the future one."""
    offsets: tuple[int, ...]
    """Frames that naming a transition needs, relative to the current one."""
    training_offsets: tuple[int, ...]
    """Frames that a training step needs."""
    transient: tuple[str, ...] = ()
    """Parts of its state that only its training needs."""
    label_head: nn.Module
    """What reads actions from latents in training, where labels are heard."""
    since_start: tuple[str, ...] = ()
    """Stored columns that cannot stand for what was before an episode, where its first frame is repeated."""

    @classmethod
    @abstractmethod
    def build(cls, config: ModelConfig, parts: Parts) -> LAM:
        """A fresh model; a configuration that does not fit its parts is refused."""

    @abstractmethod
    def observe(self, batch: Batch) -> Any:
        """All that the model makes of its input before latent actions come in; in training once for both halves."""

    @abstractmethod
    def infer_latent(self, seen: Any) -> Latents:
        """The inverse half: the latent action of what was seen."""

    @abstractmethod
    def predict_future(self, seen: Any, latent: Latents) -> Tensor:
        """The forward half: the future, in the space the model predicts in."""

    @abstractmethod
    def present(self, seen: Any) -> Tensor:
        """What the forward half knows before a latent action comes in."""

    def current(self, batch: Batch) -> Tensor:
        """The present in that space, by default that of frames: what copying would predict."""
        return batch.images(0)

    def future(self, batch: Batch) -> Tensor:
        """The future that came."""
        return batch.images(self.stride)

    def predict_all(self, seen: Any, latent: Latents) -> dict[int, Tensor]:
        """All that is predicted, by its time relative to the present."""
        return {self.stride: self.predict_future(seen, latent)}

    def inner_health(self, seen: Any) -> dict[str, float]:
        """What else tells whether a model of this kind is healthy."""
        return {}

    def codes_used(self, batch: Batch, seen: Any) -> Float[Tensor, " k"] | None:
        """The share of each code, where a latent is made of codes."""
        return None

    def columns(
        self,
        parts: Parts,
        store: Store,
        episodes: Sequence[int] | np.ndarray | None,
        progress: Progress = SILENT,
        online: bool = False,
    ) -> dict[str, Store]:
        """What frozen networks say about the episodes, computed once; `online` leaves out what is large."""
        return {} if parts.base_hash is None else self.base_columns(store, parts.base_hash, progress)

    def base_columns(
        self, store: Store, key: str, progress: Progress, episodes: Sequence[int] | None = None
    ) -> dict[str, Store]:
        """What the model that this one stands on says about all or some episodes; `key` is that model's hash."""
        return {}

    def label(self, store: Store, index: int, columns: dict[str, Store]) -> Float[np.ndarray, "t d"]:
        """The latent action of every transition of an episode; zeros where it would leave the episode."""
        return self.each_transition(self.infer, self.latent, store, index, columns)

    @torch.inference_mode()
    def each_transition(
        self, compute: Callable[[Batch], Tensor], width: int, store: Store, index: int, columns: dict[str, Store]
    ) -> Float[np.ndarray, "t w"]:
        """A vector for every transition of an episode, each from its own clip."""
        rows = np.zeros((int(store.lengths[index]), width), np.float32)
        if len(rows) <= self.offsets[-1]:
            return rows
        clips, place = Clips(store, self.offsets, (), [index], columns, pad=True), place_of(self)
        always = {name: column for name, column in columns.items() if name not in self.since_start}
        early = 0 if len(always) == len(columns) else -self.offsets[0]
        for first, last, known in ((0, early, always), (early, len(clips), columns)):
            part = clips if known is columns else Clips(store, self.offsets, (), [index], known, pad=True)
            for start in range(first, min(last, len(clips)), BATCH):
                chosen = np.arange(start, min(start + BATCH, last, len(clips)))
                rows[chosen] = compute(part.gather(chosen).to(place)).cpu().numpy()
        return rows

    def infer(self, batch: Batch) -> Latents:
        """Name what turned the current frame into the future one."""
        return self.infer_latent(self.observe(batch))

    def predict(self, batch: Batch, latent: Latents) -> Tensor:
        """The future from the current observation and a latent action."""
        return self.predict_future(self.observe(batch), latent)

    def forward(self, batch: Batch) -> Terms:
        """Predict the future from a latent action that has seen it."""
        seen = self.observe(batch)
        latent = self.infer_latent(seen)
        return Terms({"next": F.mse_loss(self.predict_future(seen, latent), self.future(batch))}, latent_stats(latent))


def latent_stats(latent: Latents) -> dict[str, Tensor]:
    """How much of its width a batch of latents uses."""
    with torch.no_grad():
        return {"latent_std": latent.float().std(0).mean(), "latent_rank": effective_rank(latent.float())}


def effective_rank(latent: Latents) -> Float[Tensor, ""]:
    """(Σλ)² / Σλ² of the covariance's eigenvalues λ: the number of directions that are really used."""
    centred = latent - latent.mean(0)
    gram = centred @ centred.T if len(centred) < latent.shape[1] else centred.T @ centred
    return gram.trace().square() / gram.square().sum().clamp_min(1e-12)


def at_least_one(config: Any, *names: str) -> None:
    for name in names:
        if getattr(config, name) < 1:
            raise UserError(f"--{name} {getattr(config, name)}", "give at least 1")
