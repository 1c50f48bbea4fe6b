"""OTF-LAM-DINO (paper §4.3, C.3): latent actions that predict the future in the feature space of a frozen DINOv2.

Axes: b transitions, p patches, n tokens, s features, d latent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from otflam.core import SILENT, Batch, Progress, UserError
from otflam.data import Store
from otflam.lam.features import Backbone, store_features
from otflam.lam.model import Latents, Parts
from otflam.lam.otf_lam import DinoConfig
from otflam.lam.otf_lam.codes import ActionAbstraction, CodeLAM, TokenPredictor, check_tokenizer
from otflam.tokenizer import MotionAutoencoder


class Seen(NamedTuple):
    codes: Int64[Tensor, "b p"]
    state: Float[Tensor, "b n s"]


class DinoLAM(CodeLAM):
    def __init__(self, config: DinoConfig, tokenizer: MotionAutoencoder, width: int, backbone: Backbone | None) -> None:
        """Without a `backbone` the model works on stored features only."""
        super().__init__(config, tokenizer)
        self.backbone = backbone
        tokens, code = config.side**2, tokenizer.config.codebook.dim * config.cell**2
        self.abstraction = ActionAbstraction(config.abstraction, width, code, tokens)
        self.predictor = TokenPredictor(config.predictor, width, config.abstraction.latent, tokens)
        self.leave = nn.Linear(config.predictor.dim, width)

    @classmethod
    def build(cls, config: DinoConfig, parts: Parts) -> DinoLAM:
        parts.square(1, "OTF-LAM")
        tokenizer = check_tokenizer(config, parts)
        if parts.width is None:
            raise UserError(
                "otf-lam-dino needs a DINOv2 backbone", "give --dino DIR (see 'otflam dino prepare --help')"
            )
        if parts.backbone is not None:
            parts.backbone.check_grid(config.side)
        return cls(config, tokenizer, parts.width, parts.backbone)

    def columns(
        self,
        parts: Parts,
        store: Store,
        episodes: Sequence[int] | np.ndarray | None,
        progress: Progress = SILENT,
        online: bool = False,
    ) -> dict[str, Store]:
        columns = super().columns(parts, store, episodes, progress)
        if parts.backbone is not None and not online:
            columns["features"] = store_features(store, parts.backbone, episodes, progress.part("DINO features"))
        return columns

    def observe(self, batch: Batch) -> Seen:
        return Seen(self.codes(batch), self.current(batch))

    def predict_future(self, seen: Seen, latent: Latents) -> Float[Tensor, "b n s"]:
        return self.leave(self.predictor(seen.state, latent))

    def current(self, batch: Batch) -> Float[Tensor, "b n s"]:
        return self.features(batch, 0)

    def future(self, batch: Batch) -> Float[Tensor, "b n s"]:
        return self.features(batch, self.stride)

    def features(self, batch: Batch, offset: int) -> Float[Tensor, "b n s"]:
        """The frozen backbone's view of a frame: stored features if the batch has them."""
        if "features" in batch.columns:
            return batch.at("features", offset).to(torch.float32)
        if self.backbone is None:
            raise UserError("the data have no stored features and no backbone is loaded", "give --dino DIR")
        return self.backbone(batch.frames[:, batch.offsets.index(offset)]).to(batch.frames.device)
