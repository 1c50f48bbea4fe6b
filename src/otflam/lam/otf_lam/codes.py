"""What both OTF-LAMs share: they read the codes of a frozen motion tokenizer.

Axes: b transitions, p patches, n tokens, s state features.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from otflam.core import Batch, UserError, to_json
from otflam.data import Store
from otflam.lam.model import LAM, Latents, OnPart, Parts
from otflam.lam.otf_lam import OTFConfig
from otflam.lam.otf_lam.tokens import ActionAbstraction, merge_cells
from otflam.tokenizer import MotionAutoencoder, code_weights, encode_with

OPTIONS = {"transform": "--motion.transform", "order": "--motion.order", "stride": "--motion.stride"}


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

    def base_columns(self, store: Store, key: str, on_part: OnPart) -> dict[str, Store]:
        return {"codes": encode_with(store, self.tokenizer, key, on_part("codes"))}

    def codes_used(self, batch: Batch, seen: OverCodes) -> Tensor:
        return code_weights(seen.codes, self.tokenizer.config.codebook.codes).mean(0)

    def codes(self, batch: Batch) -> Tensor:
        """The code of every patch: stored ones if the batch has them."""
        if "codes" in batch.columns:
            return batch.at("codes", 0).long()
        with torch.no_grad():
            return self.tokenizer.encode(self.tokenizer.observe(batch)[1])

    def present(self, seen: OverCodes) -> Tensor:
        return seen.state

    def infer_latent(self, seen: OverCodes) -> Latents:
        vectors = self.tokenizer.codebook.vectors[seen.codes]
        return self.abstraction(seen.state, merge_cells(vectors, self.config.side, self.config.cell))


def check_tokenizer(config: OTFConfig, parts: Parts) -> MotionAutoencoder:
    """The frozen tokenizer, which must be what the model was configured for."""
    if not isinstance(parts.base, MotionAutoencoder):
        raise UserError("this method needs a trained tokenizer", "give --tokenizer DIR (see 'otflam tokenizer train')")
    trained = parts.base.config
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
    return parts.base
