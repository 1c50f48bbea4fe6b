"""FLAM (paper E.2): a scene is a few slots, each with its own latent action, which predicts its own next slot.

Works on the vectors of a frozen frame tokenizer. One inverse and one forward model serve all slots: a slot's action is
read from all current slots and from its own next one, and its next slot is predicted from all current slots and its own
action. An aggregator puts the predicted slots together into the change of the features.

Axes: b clips, t frames, p places, k slots, d slot features, c features, a action of a slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import (
    CODE_DEVIATION,
    IMPALA,
    QUERY_GAIN,
    SMALL_DEVIATION,
    Attention,
    Batch,
    Block,
    Progress,
    Terms,
    UserError,
    gather_rows,
    start_orthogonal,
)
from otflam.data import Store
from otflam.lam.flam import FlamConfig
from otflam.lam.model import LAM, Latents, Parts, at_least_one, latent_stats
from otflam.tokenizer import TOKENS, Codebook, CodebookConfig, FrameTokenizer, encode_frames

IMAGINED = "imagined"
"""A column of features that were predicted, in place of those of frames."""
CODES = 16
"""Codes of the discrete bottleneck."""
START_LOGVAR = -4.0
"""Logarithm of the variance that actions start with: as noise they would be unlearned before they could be of use."""
LEAST_USED_SHARE = 0.01
"""Least share of all places that a slot in use owns."""
SHARE_FLOOR = 1e-6
"""Added to the share of every slot, so that one which owns nothing has a mean."""


class Seen(NamedTuple):
    features: Float[Tensor, "b t p c"]
    slots: Float[Tensor, "b t k d"]
    shares: Float[Tensor, "b t k p"]
    """How much of every place each slot owns."""


class Flam(LAM):
    def __init__(self, config: FlamConfig, tokenizer: FrameTokenizer, places: int) -> None:
        super().__init__()
        self.config, self.latent, self.stride = config, config.latent, config.stride
        self.action = config.latent // config.slots
        # The last transition of a sub-trajectory is the one that is named.
        self.offsets = tuple(range((2 - config.frames) * config.stride, config.stride + 1, config.stride))
        self.training_offsets = self.offsets
        self.tokenizer = tokenizer.requires_grad_(False).eval()
        sizes, width = (config.dim, config.heads, config.mlp, config.blocks), tokenizer.config.dim
        self.enter = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, config.dim))
        self.places = nn.Parameter(CODE_DEVIATION * torch.randn(places, config.dim))
        self.factorise = Factorizer(config.dim, config.slots, *sizes[1:], config.rounds, config.frames)
        self.pair, self.inverse = nn.Linear(2 * config.dim, config.dim), Consult(*sizes)
        self.actions = nn.Linear(config.dim, 2 * self.action)
        self.codebook = Codebook(CodebookConfig(codes=CODES, dim=self.action)) if config.bottleneck == "vq16" else None
        self.act, self.dynamics = nn.Linear(config.dim + self.action, config.dim), Consult(*sizes)
        self.next_slot = nn.Linear(config.dim, config.dim)
        self.seat = nn.Linear(2 * config.dim, config.dim)
        self.redraw_enter = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, config.dim))
        self.redraw_places = nn.Parameter(SMALL_DEVIATION * torch.randn(places, config.dim))
        self.mix = Consult(*sizes)
        last = nn.Linear(config.dim, width)
        self.leave = nn.Sequential(nn.LayerNorm(config.dim), last)
        self.step = nn.Buffer(torch.zeros((), dtype=torch.int64))
        # From torch's own start every slot owned the same share of every place for hundreds of steps (docs/log.md).
        start_orthogonal(self, but=tokenizer)
        with torch.no_grad():
            self.factorise.share_out.query.weight.mul_(QUERY_GAIN)
            self.actions.bias[self.action :] = START_LOGVAR
            last.weight.zero_()  # the first prediction is that nothing changes

    @classmethod
    def build(cls, config: FlamConfig, parts: Parts) -> Flam:
        size, tokenizer = parts.square(2 ** len(IMPALA), "FLAM"), parts.base
        if not isinstance(tokenizer, FrameTokenizer):
            raise UserError(
                "FLAM needs a trained frame tokenizer", "give --tokenizer DIR (see 'otflam tokenizer train-frames')"
            )
        if tokenizer.config.channels != parts.frames[2]:
            raise UserError(
                f"a frame tokenizer of {tokenizer.config.channels} colours for frames of {parts.frames[2]}",
                "give one for such frames",
            )
        at_least_one(config, "latent", "dim", "blocks", "heads", "mlp", "rounds", "slots", "stride")
        if config.latent % config.slots:
            raise UserError(f"a latent of {config.latent} for {config.slots} slots", "choose a multiple of the slots")
        if not 1 <= config.ahead < config.frames:
            raise UserError(
                f"{config.ahead} steps ahead in {config.frames} frames",
                "predict at least one step and fewer than there are frames",
            )
        return cls(config, tokenizer, (size // 2 ** len(IMPALA)) ** 2)

    def base_columns(
        self, store: Store, key: str, progress: Progress, episodes: Sequence[int] | None = None
    ) -> dict[str, Store]:
        return {TOKENS: encode_frames(store, self.tokenizer, key, progress.part(TOKENS), episodes)}

    def train(self, mode: bool = True) -> Flam:
        super().train(mode)
        self.tokenizer.eval()
        return self

    def observe(self, batch: Batch) -> Seen:
        features = torch.stack([self.features(batch, offset) for offset in self.offsets], 1)
        return Seen(features, *self.factorise(self.enter(features) + self.places))

    @torch.no_grad()
    def features(self, batch: Batch, offset: int) -> Float[Tensor, "b p c"]:
        """What the frozen tokenizer says of a frame, from its stored token if there is one; or what was imagined."""
        if IMAGINED in batch.columns:
            return batch.at(IMAGINED, offset)
        if TOKENS in batch.columns:
            return self.tokenizer.vectors(batch.at(TOKENS, offset).long())
        return self.tokenizer.vectors(self.tokenizer.encode(batch.images(offset)))

    def posterior(self, now: Float[Tensor, "b k d"], after: Float[Tensor, "b k d"]) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the variance of every slot's action; a slot sees no other slot's future."""
        mean, logvar = self.actions(self.inverse(self.pair(torch.cat([now, after], -1)), now)).chunk(2, -1)
        return mean, logvar.clamp(-10, 10)

    def infer_latent(self, seen: Seen) -> Latents:
        """Means in place of samples, or the nearest codes."""
        actions = self.posterior(seen.slots[:, -2], seen.slots[:, -1])[0]
        if self.codebook is not None:
            actions = self.codebook.vectors[self.codebook.nearest(actions.flatten(0, 1))].view_as(actions)
        return actions.flatten(1)

    def advance(self, slots: Float[Tensor, "b k d"], actions: Float[Tensor, "b k a"]) -> Float[Tensor, "b k d"]:
        """The next slots; an action changes its own slot only."""
        return slots + self.next_slot(self.dynamics(self.act(torch.cat([slots, actions], -1)), slots))

    def redraw(
        self, features: Float[Tensor, "b p c"], slots: Float[Tensor, "b k d"], after: Float[Tensor, "b k d"]
    ) -> Float[Tensor, "b p c"]:
        """What features become when slots change: each place looks at the new slots and at how they changed."""
        places = self.redraw_enter(features) + self.redraw_places
        seats = self.seat(torch.cat([after, after - slots], -1))
        return features + self.leave(self.mix(places, seats))

    def predict_future(self, seen: Seen, latent: Latents) -> Float[Tensor, "b p c"]:
        actions = rearrange(latent, "b (k a) -> b k a", k=self.config.slots)
        slots = seen.slots[:, -2]
        return self.redraw(seen.features[:, -2], slots, self.advance(slots, actions))

    def present(self, seen: Seen) -> Tensor:
        return torch.cat([seen.slots[:, -2].flatten(1), seen.features[:, -2].flatten(1)], 1)

    def current(self, batch: Batch) -> Float[Tensor, "b p c"]:
        return self.features(batch, 0)

    def future(self, batch: Batch) -> Float[Tensor, "b p c"]:
        return self.features(batch, self.stride)

    def forward(self, batch: Batch) -> Terms:
        """Name the transitions of a sub-trajectory and predict its features from one frame on."""
        seen = self.observe(batch)
        if self.training:
            self.step += 1
        # Which frame comes first is drawn anew in every step, so that actions with little and with much past are used.
        first = int(torch.randint(0, self.config.frames - self.config.ahead, ()))
        span = range(first, first + self.config.ahead)
        now, after = (torch.cat([seen.slots[:, time + more] for time in span]) for more in (0, 1))
        mean, logvar = self.posterior(now, after)
        actions, kl, commit = self.squeeze(mean, logvar)
        features, slots = seen.features[:, first], seen.slots[:, first]
        errors = []
        for time, action in zip(span, actions.chunk(self.config.ahead), strict=True):
            before, slots = slots, self.advance(slots, action)
            features = self.redraw(features, before, slots)
            # The squared norm of a place's vector, as the loss is written: the weight of the prior is meant for it.
            errors.append(features.shape[-1] * F.mse_loss(features, seen.features[:, time + 1]))
        grown = (self.step / max(1, self.config.annealed)).clamp(max=1.0)
        losses = {"next": torch.stack(errors).mean(), "kl": grown * kl, "commit": commit}
        with torch.no_grad():
            owned = seen.shares.mean((0, 1, 3))
            metrics = {"first": errors[0], "kl_full": kl, "slots_used": (owned > LEAST_USED_SHARE).float().sum()}
        return Terms(losses, metrics | latent_stats(mean.flatten(1)))

    def squeeze(self, mean: Float[Tensor, "n k a"], logvar: Float[Tensor, "n k a"]) -> tuple[Tensor, Tensor, Tensor]:
        """Actions that passed the bottleneck, their divergence from the prior, and their distance from codes."""
        nothing = mean.new_zeros(())
        if self.codebook is None:
            kl = 0.5 * (mean.square() + logvar.exp() - 1 - logvar).sum((1, 2)).mean()
            sample = mean + (0.5 * logvar).exp() * torch.randn_like(mean) if self.training else mean
            return sample, kl, nothing
        flat = mean.flatten(0, 1)
        if self.training and self.step == 1:
            self.codebook.start_from(gather_rows(flat.detach().float()))
        quantised = self.codebook(flat)
        return quantised.tokens.view_as(mean), nothing, quantised.distance

    def inner_health(self, seen: Seen) -> dict[str, float]:
        owned = seen.shares[:, -2].mean((0, 2))
        used = float((owned > LEAST_USED_SHARE).sum())
        return {"slots": float(self.config.slots), "slots_used": used, "smallest_slot": float(owned.min())}


class SlotAttention(nn.Module):
    """Slots compete for places: every place is shared out among them, and each slot moves to the mean of its share.

    Each slot starts from its own learned vector, so that the same slot means the same thing in every frame.
    """

    def __init__(self, dim: int, slots: int, mlp: int, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.start = nn.Parameter(torch.randn(slots, dim) / dim**0.5)
        self.place_norm, self.slot_norm, self.think_norm = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query, self.key, self.value = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.update = nn.GRUCell(dim, dim)
        self.think = nn.Sequential(nn.Linear(dim, mlp), nn.GELU(), nn.Linear(mlp, dim))

    def forward(self, places: Float[Tensor, "b p d"]) -> tuple[Float[Tensor, "b k d"], Float[Tensor, "b k p"]]:
        """The slots, and the share of every place that each of them owns."""
        seen = self.place_norm(places)
        key, value = self.key(seen), self.value(seen)
        slots = self.start.expand(len(places), -1, -1)
        shares = torch.empty(0)
        for _ in range(self.rounds):
            query = self.query(self.slot_norm(slots))
            shares = (query @ key.mT / key.shape[-1] ** 0.5).softmax(1)
            mean = (shares + SHARE_FLOOR) / (shares + SHARE_FLOOR).sum(-1, keepdim=True)
            moved = self.update((mean @ value).flatten(0, 1), slots.flatten(0, 1)).view_as(slots)
            slots = moved + self.think(self.think_norm(moved))
        return slots, shares


class Factorizer(nn.Module):
    """Slots of every frame; then each slot looks back at its own past, and only there."""

    def __init__(self, dim: int, slots: int, heads: int, mlp: int, blocks: int, rounds: int, frames: int) -> None:
        super().__init__()
        self.share_out = SlotAttention(dim, slots, mlp, rounds)
        self.times = nn.Parameter(SMALL_DEVIATION * torch.randn(frames, dim))
        self.remember = nn.Sequential(*(Block(dim, heads, mlp, 0.0, causal=True) for _ in range(blocks)))

    def forward(self, places: Float[Tensor, "b t p d"]) -> tuple[Float[Tensor, "b t k d"], Float[Tensor, "b t k p"]]:
        count, times = places.shape[:2]
        slots, shares = self.share_out(places.flatten(0, 1))
        own = rearrange(slots, "(b t) k d -> (b k) t d", b=count)
        own = self.remember(own + self.times[:times])
        return rearrange(own, "(b k) t d -> b t k d", b=count), rearrange(shares, "(b t) k p -> b t k p", b=count)


class Consult(nn.Module):
    """Layers in which every question is answered by the slots, all of them, and by no other question."""

    def __init__(self, dim: int, heads: int, mlp: int, blocks: int) -> None:
        super().__init__()
        self.slot_norm = nn.LayerNorm(dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * blocks))
        self.asks = nn.ModuleList(Attention(dim, heads) for _ in range(blocks))
        self.thinks = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, mlp), nn.GELU(), nn.Linear(mlp, dim)) for _ in range(blocks)
        )

    def forward(self, questions: Float[Tensor, "b n d"], slots: Float[Tensor, "b k d"]) -> Float[Tensor, "b n d"]:
        known = self.slot_norm(slots)
        for number, (ask, think) in enumerate(zip(self.asks, self.thinks, strict=True)):
            questions = questions + ask(self.norms[2 * number](questions), known)
            questions = questions + think(self.norms[2 * number + 1](questions))
        return questions
