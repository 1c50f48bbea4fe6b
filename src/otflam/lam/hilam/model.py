"""HiLAM (paper E.3): skills over the latent actions of a frozen low-level model.

Its high level is a two-stage dynamic chunking of the sequence of low-level latent actions, trained to foresee the next
of them. What the innermost stage makes of a chunk of chunks is the skill; a latent action is the low-level one and the
skill it belongs to, side by side.

Axes: b transitions, t low-level latents of a window, m chunks, n skills, l low-level width, s skill, d features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import SMALL_DEVIATION, Batch, Block, Progress, Terms, UserError, gather_rows, place_of
from otflam.data import Clips, Column, Store, derive
from otflam.lam.hilam import HilamConfig
from otflam.lam.hilam.chunking import (
    Boundaries,
    BoundaryFinder,
    boundary_rate,
    put_together,
    ratio_loss,
    spread_out,
    take_chunks,
)
from otflam.lam.lapo.model import Lapo, Seen as LowSeen, signed
from otflam.lam.model import LAM, Latents, Parts, at_least_one, effective_rank, latent_stats

LOW = "low"
"""The stored column of low-level latent actions."""


class Seen(NamedTuple):
    low: LowSeen
    """What the low-level model has seen of the transition."""
    sequence: Float[Tensor, "b t l"]
    """Low-level latents up to this transition's, which is the last."""


class Stages(NamedTuple):
    """What the high level makes of a sequence."""

    guess: Float[Tensor, "b t l"]
    """The next latent, after each, in normal units."""
    skills: Float[Tensor, "b t s"]
    """The skill that each belongs to."""
    chunks: Boundaries
    bundles: Boundaries
    """Where skills begin, among the chunks."""
    rates: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]
    """For both stages how often something begins, and how likely that was."""


class Hilam(LAM):
    since_start = (LOW,)

    def __init__(self, config: HilamConfig, low: Lapo) -> None:
        super().__init__()
        self.config, self.latent, self.stride = config, config.width + config.skill, low.stride
        past = tuple(-step * low.stride for step in range(config.window - 1, 0, -1))
        self.past, self.low = past, low.requires_grad_(False).eval()
        # Where the past is not stored, it is named from frames.
        seen = {offset + at for offset in (*past, 0) for at in low.offsets}
        self.offsets = self.training_offsets = tuple(sorted(seen))
        sizes = (config.dim, config.heads, config.mlp, config.blocks)
        self.enter = nn.Linear(config.width, config.dim)
        self.outer_in, self.outer_out, self.inner_in, self.inner_out, self.main = (Causal(*sizes) for _ in range(5))
        self.times = nn.Parameter(SMALL_DEVIATION * torch.randn(3, config.window, config.dim))
        self.outer_cut, self.inner_cut = BoundaryFinder(config.dim), BoundaryFinder(config.dim)
        self.skill, self.unfold = nn.Linear(config.dim, config.skill), nn.Linear(config.skill, config.dim)
        self.outer_skip, self.inner_skip = nn.Linear(config.dim, config.dim), nn.Linear(config.dim, config.dim)
        for skip in (self.outer_skip, self.inner_skip):
            nn.init.zeros_(skip.weight)
            nn.init.zeros_(skip.bias)
        self.leave = nn.Sequential(nn.LayerNorm(config.dim), nn.Linear(config.dim, config.width))
        # Low-level latents have any scale: the first batch decides the units of the errors.
        self.centre, self.unit = nn.Buffer(torch.zeros(config.width)), nn.Buffer(torch.ones(config.width))
        self.started = nn.Buffer(torch.zeros((), dtype=torch.bool))

    @classmethod
    def build(cls, config: HilamConfig, parts: Parts) -> Hilam:
        low = parts.base
        if low is None:
            raise UserError("HiLAM needs a trained low-level model", "give --low DIR (see 'otflam lam train lapo-64')")
        if not isinstance(low, Lapo):
            raise UserError(
                "the low-level model is not of LAPO's family", "give one that 'otflam lam train lapo-64' has trained"
            )
        if low.latent != config.width:
            raise UserError(
                f"the low-level model has latent actions of {low.latent} numbers, HiLAM expects {config.width}",
                f"give another model or set --width {low.latent}",
            )
        at_least_one(config, "width", "skill", "dim", "blocks", "heads", "mlp")
        if config.window < 2 or min(config.chunks) < 2:
            raise UserError(f"a window of {config.window} with chunks of {config.chunks}", "each must be at least 2")
        return cls(config, low)

    def base_columns(
        self, store: Store, key: str, progress: Progress, episodes: Sequence[int] | None = None
    ) -> dict[str, Store]:
        """The latent actions of the low-level model."""
        width = self.low.latent

        def compute(index: int) -> np.ndarray:
            return self.low.label(store, index, {})

        return {LOW: derive(store, LOW, key, Column("float32", (width,)), compute, progress.part(LOW), episodes)}

    @torch.inference_mode()
    def label(self, store: Store, index: int, columns: dict[str, Store]) -> Float[np.ndarray, "t d"]:
        """Window by window from the start of an episode: what one window names together belongs together."""
        rows = np.zeros((int(store.lengths[index]), self.latent), np.float32)
        if len(rows) <= self.offsets[-1]:
            return rows
        clips = Clips(store, self.offsets, (), [index], columns, pad=True)
        for phase in range(self.stride):
            anchors = np.arange(phase, len(clips), self.stride)
            for start in range(0, len(anchors), self.config.window):
                part = anchors[start : start + self.config.window]
                # A window that the episode does not fill begins earlier, or before the episode with its first frame.
                use = clips if part[-1] + self.offsets[0] >= 0 else Clips(store, self.offsets, (), [index], pad=True)
                seen = self.observe(use.gather(part[-1:]).to(place_of(self)))
                rows[part] = self.name_all(seen)[0, -len(part) :].cpu().numpy()
        return rows

    def train(self, mode: bool = True) -> Hilam:
        super().train(mode)
        self.low.eval()
        return self

    def observe(self, batch: Batch) -> Seen:
        """The past as stored, if it is; this transition always from its frames."""
        with torch.no_grad():
            seen = self._low_at(batch, 0)
            if LOW in batch.columns:
                past = [batch.at(LOW, offset) for offset in self.past]
            else:
                past = [self.low.infer_latent(self._low_at(batch, offset)) for offset in self.past]
            return Seen(seen, torch.stack([*past, self.low.infer_latent(seen)], 1))

    def _low_at(self, batch: Batch, offset: int) -> LowSeen:
        frames = self.low.config.frames
        now, ahead = (signed(batch.stack(offset + more, frames)) for more in (0, self.low.stride))
        return self.low.see(now, ahead)

    def stages(self, sequence: Float[Tensor, "b t l"]) -> Stages:
        times = sequence.shape[1]
        everything = torch.ones(sequence.shape[:2], dtype=torch.bool, device=sequence.device)
        outer = self.outer_in(self.enter(self.normal(sequence)) + self.times[0, :times])
        chunks = self.outer_cut(outer, everything)
        taken, real = take_chunks(outer, chunks.begins)
        inner = self.inner_in(taken + self.times[1, : taken.shape[1]])
        bundles = self.inner_cut(inner, real)
        kept, kept_real = take_chunks(inner, bundles.begins)
        # Of one scale, like the low-level latents beside them: a policy must not overlook them.
        skills = F.layer_norm(self.skill(self.main(kept + self.times[2, : kept.shape[1]])), (self.config.skill,))
        inner_back = put_together(self.unfold(skills), bundles, kept_real) + self.inner_skip(inner)
        outer_back = put_together(self.inner_out(inner_back), chunks, real) + self.outer_skip(outer)
        shown = spread_out(spread_out(skills, bundles), chunks)
        rates = (boundary_rate(chunks, everything), boundary_rate(bundles, real))
        return Stages(self.leave(self.outer_out(outer_back)), shown, chunks, bundles, rates)

    def infer_latent(self, seen: Seen) -> Latents:
        return self.name_all(seen)[:, -1]

    def name_all(self, seen: Seen) -> Float[Tensor, "b t d"]:
        """The latents of a whole window: those of one segment share their skill."""
        return torch.cat([self.normal(seen.sequence), self.stages(seen.sequence).skills], -1)

    def normal(self, sequence: Float[Tensor, "*b l"]) -> Float[Tensor, "*b l"]:
        return (sequence - self.centre) / self.unit

    def low_of(self, latent: Latents) -> Float[Tensor, "b l"]:
        return latent[:, : self.config.width] * self.unit + self.centre

    def predict_future(self, seen: Seen, latent: Latents) -> Float[Tensor, "b c h w"]:
        """The frozen forward model knows low-level latents only: a skill tells what will be done, not what was."""
        return self.low.predict_future(seen.low, self.low_of(latent))

    def predict_all(self, seen: Seen, latent: Latents) -> dict[int, Tensor]:
        return self.low.predict_all(seen.low, self.low_of(latent))

    def present(self, seen: Seen) -> Tensor:
        return self.low.present(seen.low)

    def forward(self, batch: Batch) -> Terms:
        seen = self.observe(batch)
        if self.training and not self.started:
            rows = gather_rows(seen.sequence.flatten(0, 1))
            if rows.std() == 0:
                raise UserError("the low-level latent actions do not vary", "train the low-level model longer")
            self.centre.copy_(rows.mean(0))
            self.unit.copy_(rows.std(0).clamp_min(1e-3 * rows.std()))
            self.started.fill_(True)
        stages = self.stages(seen.sequence)
        guess, truth = stages.guess[:, :-1], self.normal(seen.sequence)[:, 1:]
        foreseen = guess[:, -1] * self.unit + self.centre
        predicted = self.low.predict_future(seen.low, foreseen)
        (begun, likely), (begun_inside, likely_inside) = stages.rates
        ratio = ratio_loss(begun, likely, self.config.chunks[0])
        ratio = ratio + ratio_loss(begun_inside, likely_inside, self.config.chunks[1])
        losses = {"latent": F.l1_loss(guess, truth), "rec": F.mse_loss(predicted, self.future(batch)), "ratio": ratio}
        metrics = {"begun": begun, "begun_inside": begun_inside, **latent_stats(stages.skills[:, -1])}
        return Terms(losses, {name: value.detach() for name, value in metrics.items()})

    def inner_health(self, seen: Seen) -> dict[str, float]:
        """How often chunks and skills begin, how long they last, and whether the next latent is foreseen."""
        stages, normal = self.stages(seen.sequence), self.normal(seen.sequence)
        chunks, skills = (float(begun) for begun, _ in stages.rates)
        return {
            "chunk_rate": chunks,
            "skill_rate": skills,
            "chunk_rate_wanted": 1 / self.config.chunks[0],
            "skill_rate_wanted": 1 / self.config.chunks[1],
            "skill_steps": self.stride / (chunks * skills),
            "skill_rank": float(effective_rank(stages.skills[:, -1])),
            "next_latent": float(F.l1_loss(stages.guess[:, :-1], normal[:, 1:])),
            "next_latent_repeated": float(F.l1_loss(normal[:, :-1], normal[:, 1:])),
        }


class Causal(nn.Sequential):
    """Layers over a sequence, none of which looks ahead."""

    def __init__(self, dim: int, heads: int, mlp: int, blocks: int) -> None:
        super().__init__(*(Block(dim, heads, mlp, 0.0, causal=True) for _ in range(blocks)))
