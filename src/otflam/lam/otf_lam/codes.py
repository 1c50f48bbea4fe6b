"""What both OTF-LAMs share: they read the codes of a frozen motion tokenizer, with two transformers.

In the action abstraction module (paper §4.1, C.1) local codes, in the context of the state, become one latent; the
token-based forward model (paper C.2, C.3) predicts from it.

Axes: b transitions, p patches, n tokens, s state features, c code features, l queries, d latent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn

from otflam.core import (
    CODE_DEVIATION,
    QUERY_GAIN,
    SMALL_DEVIATION,
    Attention,
    Batch,
    Block,
    Progress,
    UserError,
    start_orthogonal,
    to_json,
)
from otflam.data import Store
from otflam.lam.model import LAM, Latents, Parts
from otflam.lam.otf_lam import AbstractionConfig, OTFConfig, PredictorConfig
from otflam.tokenizer import MotionAutoencoder, code_weights, encode_with

OPTIONS = {"transform": "--motion.transform", "order": "--motion.order", "stride": "--motion.stride"}


class Seen(NamedTuple):
    codes: Int64[Tensor, "b p"]
    state: Float[Tensor, "b n s"]
    frame: Float[Tensor, "b c h w"] | None = None
    """The current one, for a method that predicts its change."""


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

    def base_columns(
        self, store: Store, key: str, progress: Progress, episodes: Sequence[int] | None = None
    ) -> dict[str, Store]:
        return {"codes": encode_with(store, self.tokenizer, key, progress.part("codes"), episodes)}

    def codes_used(self, batch: Batch, seen: Seen) -> Tensor:
        return code_weights(seen.codes, self.tokenizer.config.codebook.codes).mean(0)

    def codes(self, batch: Batch) -> Tensor:
        """The code of every patch: stored ones if the batch has them."""
        if "codes" in batch.columns:
            return batch.at("codes", 0).long()
        with torch.no_grad():
            frame, signal = self.tokenizer.observe(batch)
            return self.tokenizer.encode(signal, frame)

    def present(self, seen: Seen) -> Tensor:
        return seen.state

    def infer_latent(self, seen: Seen) -> Latents:
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


class ActionAbstraction(nn.Module):
    def __init__(self, config: AbstractionConfig, state: int, code: int, tokens: int) -> None:
        super().__init__()
        self.places = nn.Parameter(CODE_DEVIATION * torch.randn(tokens, config.dim))
        self.queries = nn.Parameter(SMALL_DEVIATION * torch.randn(config.queries, config.dim))
        width = state + code + config.dim
        self.enter = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, config.dim))
        self.query_norm, self.token_norm = nn.LayerNorm(config.dim), nn.LayerNorm(config.dim)
        self.read = Attention(config.dim, config.heads)
        self.mix = nn.Sequential(
            *(Block(config.dim, config.heads, config.mlp, config.dropout) for _ in range(config.depth))
        )
        flat = config.queries * config.dim
        self.leave = nn.Sequential(nn.LayerNorm(flat), nn.Linear(flat, config.latent))
        # The paper does not say how weights start. From torch's own start the queries read nearly the same mean of all
        # tokens, and in thousands of steps the latent used one direction (docs/log.md).
        start_orthogonal(self)
        with torch.no_grad():
            self.read.query.weight.mul_(QUERY_GAIN)

    def forward(self, state: Float[Tensor, "b n s"], code: Float[Tensor, "b n c"]) -> Float[Tensor, "b d"]:
        places = self.places.expand(len(state), -1, -1)
        tokens = self.enter(torch.cat([state, code, places.to(state.dtype)], -1))  # u = φ_in([s, c, p])
        queries, tokens = self.queries.expand(len(state), -1, -1), self.token_norm(tokens)
        if torch.is_inference_mode_enabled() and self.read.heads * len(self.queries) < tokens.shape[-1]:
            heard = self.read.ask(self.query_norm(self.queries), tokens)  # an eighth of labelling is saved
        else:  # in training, which keeps its bits
            heard = self.read(self.query_norm(queries), tokens)
        read = queries + heard  # H = Q + CrossAttn(Q, U, U)
        return self.leave(rearrange(self.mix(read), "b l d -> b (l d)"))


def merge_cells(vectors: Float[Tensor, "b p c"], side: int, cell: int) -> Float[Tensor, "b n c2"]:
    """The vectors of cell × cell neighbouring patches side by side, as one token."""
    return rearrange(vectors, "b (u i v j) c -> b (u v) (i j c)", u=side, i=cell, v=side, j=cell)


class TokenPredictor(nn.Module):
    """State tokens and a latent action in, tokens of the future out. It never sees a code."""

    def __init__(self, config: PredictorConfig, state: int, latent: int, tokens: int) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.LayerNorm(state), nn.Linear(state, config.dim))
        self.act = nn.Linear(latent, config.dim)
        self.places = nn.Parameter(SMALL_DEVIATION * torch.randn(1 + tokens, config.dim))
        self.layers = nn.ModuleList(
            Block(config.dim, config.heads, config.mlp, config.dropout) for _ in range(config.depth)
        )
        width = config.dim * (tokens if config.placed else 1)
        self.remind = nn.ModuleList(nn.Linear(latent, width) for _ in range(config.depth))
        # The latent starts without a say: as noise it would be unlearned before it could be of use.
        for parameter in (*self.act.parameters(), *self.remind.parameters()):
            nn.init.zeros_(parameter)
        self.norm = nn.LayerNorm(config.dim)

    def forward(self, state: Float[Tensor, "b n s"], latent: Float[Tensor, "b d"]) -> Float[Tensor, "b n p"]:
        tokens = torch.cat([self.act(latent)[:, None], self.enter(state)], 1) + self.places
        for layer, remind in zip(self.layers, self.remind, strict=True):
            # z is added to the spatial tokens only: the action token already is z.
            told = rearrange(remind(latent), "b (n p) -> b n p", p=tokens.shape[-1])  # n is 1 unless placed
            spatial = tokens[:, 1:] + told
            tokens = layer(torch.cat([tokens[:, :1], spatial], 1))
        return self.norm(tokens[:, 1:])
