"""LAPO with the agent's mask: a channel more for every observation, and a loss that looks at the agent only.

Masks are the simulator's, drawn once for a data set (data/masks.py). Only naming a transition needs them: a policy that
imitates latent actions sees frames alone.

Axes: b transitions, k c stacked frames and their colours, h w pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import SILENT, Batch, Progress, Terms, UserError
from otflam.data import BODIES, MASKS, Store, mask_column
from otflam.lam.lapo import LapoConfig
from otflam.lam.lapo.model import Lapo, Seen, Stacked
from otflam.lam.mask_lapo import MaskLapoConfig
from otflam.lam.model import LAM, Latents, Parts, latent_stats


class MaskLapo(Lapo):
    config: MaskLapoConfig

    def make_inverse(self, widths: list[int], stacked: int) -> nn.Module:
        return self.inverse_of(2 * (stacked + 1), widths)

    def columns(
        self,
        parts: Parts,
        store: Store,
        episodes: Sequence[int] | np.ndarray | None,
        progress: Progress = SILENT,
        online: bool = False,
    ) -> dict[str, Store]:
        return {MASKS: mask_column(store, progress, episodes)}

    @classmethod
    def build(cls, config: LapoConfig, parts: Parts) -> Stacked:
        if config.reach != 1:
            raise UserError(f"--reach {config.reach}", "mask-lapo sees what it is to draw: give 1")
        return super().build(config, parts)

    def observe(self, batch: Batch) -> Seen:
        seen = super().observe(batch)
        return seen._replace(motion=torch.cat([self.agent_at(batch, 0), self.agent_at(batch, self.stride)], 1))

    def agent_at(self, batch: Batch, offset: int) -> Float[Tensor, "b 1 h w"]:
        if MASKS not in batch.columns:
            raise UserError("mask-lapo on frames without masks", "give a data set of the simulator, which draws them")
        return (batch.at(MASKS, offset) == BODIES["agent"]).float()[:, None]

    def infer_latent(self, seen: Seen) -> Latents:
        assert seen.motion is not None
        return self.inverse(torch.cat([seen.now, seen.ahead, seen.motion], 1))

    def label(self, store: Store, index: int, columns: dict[str, Store]) -> Float[np.ndarray, "t d"]:
        return LAM.label(self, store, index, columns)  # the short way shows no masks

    def forward(self, batch: Batch) -> Terms:
        seen = self.observe(batch)
        latent = self.infer_latent(seen)
        assert seen.motion is not None
        # The agent before and after: where it was, something else is to be drawn.
        counts = seen.motion.amax(1, keepdim=True).clamp_min(self.config.outside)
        errors = (self.predict_stack(seen, latent) - seen.ahead).square().mean(1, keepdim=True)
        error = (counts * errors).sum() / counts.sum().clamp_min(1)
        return Terms({"next": error}, latent_stats(latent))
