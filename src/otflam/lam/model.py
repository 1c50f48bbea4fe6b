"""What every latent action model is: a transition in, a latent action between, the future out.

Axes: b transitions, d latent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from otflam.core.batch import Batch
from otflam.core.errors import UserError
from otflam.core.terms import Terms
from otflam.lam.abstraction import ActionAbstraction, merge_cells
from otflam.lam.config import OTFConfig
from otflam.tokenizer.model import MotionAutoencoder

Latents = Float[Tensor, "b d"]


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

    @abstractmethod
    def look(self, batch: Batch) -> Any:
        """All that the model makes of its input before latent actions come in; in training once for both halves."""

    @abstractmethod
    def name(self, seen: Any) -> Latents:
        """The inverse half: the latent action of what was seen."""

    @abstractmethod
    def imagine(self, seen: Any, latent: Latents) -> Tensor:
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

    def imagine_all(self, seen: Any, latent: Latents) -> dict[int, Tensor]:
        """All that is imagined, by its time relative to the present."""
        return {self.stride: self.imagine(seen, latent)}

    def vitals(self, seen: Any) -> dict[str, float]:
        """What else tells whether a model of this kind is healthy."""
        return {}

    def infer(self, batch: Batch) -> Latents:
        """Name what turned the current frame into the future one."""
        return self.name(self.look(batch))

    def predict(self, batch: Batch, latent: Latents) -> Tensor:
        """The future from the current observation and a latent action."""
        return self.imagine(self.look(batch), latent)

    def forward(self, batch: Batch) -> Terms:
        """Predict the future from a latent action that has seen it."""
        seen = self.look(batch)
        latent = self.name(seen)
        return Terms({"next": F.mse_loss(self.imagine(seen, latent), self.future(batch))}, spread(latent))


def spread(latent: Latents) -> dict[str, Tensor]:
    """How much of its width a batch of latents uses."""
    with torch.no_grad():
        return {"latent_std": latent.float().std(0).mean(), "latent_rank": effective_rank(latent.float())}


def effective_rank(latent: Latents) -> Float[Tensor, ""]:
    """(Σλ)² / Σλ² of the covariance's eigenvalues λ: the number of directions that are really used."""
    centred = latent - latent.mean(0)
    gram = centred @ centred.T if len(centred) < latent.shape[1] else centred.T @ centred
    return gram.trace().square() / gram.square().sum().clamp_min(1e-12)


@runtime_checkable
class OverCodes(Protocol):
    """What a code-reading model has seen, whatever else that is."""

    @property
    def codes(self) -> Int64[Tensor, "b p"]: ...

    @property
    def state(self) -> Float[Tensor, "b n s"]: ...


class CodeLAM(LAM):
    """A model that reads the codes of a frozen tokenizer, which is part of it and never changes."""

    transient = ("tokenizer.recent",)
    abstraction: ActionAbstraction

    def __init__(self, config: OTFConfig, tokenizer: MotionAutoencoder) -> None:
        super().__init__()
        self.config, self.latent, self.stride = config, config.abstraction.latent, config.motion.stride
        self.offsets = self.training_offsets = config.motion.offsets
        self.tokenizer = tokenizer.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        self.tokenizer.eval()
        return self

    def codes(self, batch: Batch) -> Tensor:
        """The code of every patch: stored ones if the batch has them."""
        if "codes" in batch.columns:
            return batch.at("codes", 0).long()
        with torch.no_grad():
            return self.tokenizer.encode(self.tokenizer.observe(batch)[1])

    def present(self, seen: OverCodes) -> Tensor:
        return seen.state

    def name(self, seen: OverCodes) -> Latents:
        vectors = self.tokenizer.codebook.vectors[seen.codes]
        return self.abstraction(seen.state, merge_cells(vectors, self.config.side, self.config.cell))


def require_square(size: tuple[int, int], multiple: int, what: str) -> int:
    """The side of square frames, which must be a multiple of something."""
    if size[0] != size[1] or size[0] % multiple:
        more = f" with a side of a multiple of {multiple} pixels" if multiple > 1 else ""
        raise UserError(f"frames of {size[0]}×{size[1]} pixels for {what}", f"it needs square ones{more}")
    return size[0]
