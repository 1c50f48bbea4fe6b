"""Network blocks that two models or more are made of.

Axes: b samples, n m tokens, d features, c channels, h w pixels.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core.errors import UserError

IMPALA = (16, 32, 32)
"""Channels of the three stages of an IMPALA-style encoder at scale 1."""
SMALL_DEVIATION, CODE_DEVIATION = 0.02, 0.5
"""Deviation of learned vectors at the start: next to nothing, or about as large as a code."""
QUERY_GAIN = 3.0
"""How much stronger than usual queries may start, so that each reads a few places instead of the mean of all."""


class Attention(nn.Module):
    """Multi-head attention of queries to a set of tokens; without dropout of its weights, which has no fast kernel.

    A causal one has a query for every token, which sees that token and those before.
    """

    def __init__(self, dim: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        if heads < 1 or dim % heads:
            raise UserError(f"{heads} attention heads for a width of {dim}", "choose a divisor of the width")
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, queries: Float[Tensor, "b n d"], tokens: Float[Tensor, "b m d"]) -> Float[Tensor, "b n d"]:
        parts = (self.query(queries), self.key(tokens), self.value(tokens))
        q, k, v = (rearrange(part, "b n (g d) -> b g n d", g=self.heads) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(rearrange(mixed, "b g n d -> b n (g d)"))

    def ask(self, queries: Float[Tensor, "n d"], tokens: Float[Tensor, "b m d"]) -> Float[Tensor, "b n d"]:
        """What `forward` gives but for rounding, for queries that all samples share: keys and values are not made.

        Keys and values cost a product of each token with a matrix; here the few queries meet the matrices instead. A
        key's bias moves all weights of a query alike, so that it has no say; weights add up to 1, so that a value's
        bias comes through as it is.
        """
        few = rearrange(self.query(queries), "n (g d) -> g n d", g=self.heads)
        keys = rearrange(self.key.weight, "(g d) e -> g d e", g=self.heads)
        values = rearrange(self.value.weight, "(g d) e -> g e d", g=self.heads)
        asked = rearrange(few @ keys, "g n e -> (g n) e") * few.shape[-1] ** -0.5
        seen = F.linear(tokens, asked).softmax(1).transpose(1, 2) @ tokens
        mixed = rearrange(seen, "b (g n) e -> g (b n) e", g=self.heads) @ values
        return self.out(rearrange(mixed, "g (b n) d -> b n (g d)", n=len(queries)) + self.value.bias)


class Block(nn.Module):
    """A Transformer layer that normalises before each of its two parts."""

    def __init__(self, dim: int, heads: int, mlp: int, dropout: float, causal: bool = False) -> None:
        super().__init__()
        self.attend_norm, self.think_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attend = Attention(dim, heads, causal)
        self.think = nn.Sequential(nn.Linear(dim, mlp), nn.GELU(), nn.Dropout(dropout), nn.Linear(mlp, dim))
        self.drop = nn.Dropout(dropout)

    def forward(self, tokens: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        seen = self.attend_norm(tokens)
        tokens = tokens + self.drop(self.attend(seen, seen))
        return tokens + self.drop(self.think(self.think_norm(tokens)))


class Residual(nn.Module):
    """Two convolutions beside an identity, as in IMPALA, with ReLU6."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU6(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU6(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        return x + self.layers(x)


def shrink(inputs: int, outputs: int, blocks: int) -> nn.Sequential:
    """A stage that halves height and width: a strided convolution, then residual blocks."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), *(Residual(outputs) for _ in range(blocks))
    )


def conv_encoder(
    inputs: int, widths: Sequence[int], blocks: int, between: Callable[[], nn.Module] | None = None
) -> nn.Sequential:
    """Stages of the given widths, each of which halves height and width; `between` makes what stands between two."""
    stages: list[nn.Module] = []
    for before, after in itertools.pairwise([inputs, *widths]):
        if stages and between is not None:
            stages.append(between())
        stages.append(shrink(before, after, blocks))
    return nn.Sequential(*stages)


class Pointwise(nn.Conv2d):
    """A convolution of single pixels as a matrix product: four times as fast where memory is channels-last."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 1)

    def forward(self, input: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d h w"]:
        return F.linear(input.permute(0, 2, 3, 1), self.weight[:, :, 0, 0], self.bias).permute(0, 3, 1, 2)


class Doubling(nn.ConvTranspose2d):
    """A transposed convolution whose patches do not overlap: a matrix product, and its results put in their places."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 2, stride=2)

    def forward(
        self, input: Float[Tensor, "b c h w"], output_size: list[int] | None = None
    ) -> Float[Tensor, "b d 2*h 2*w"]:
        weight, bias = self.weight.permute(2, 3, 1, 0).flatten(0, 2), self.bias
        cells = F.linear(input.permute(0, 2, 3, 1), weight, None if bias is None else bias.repeat(4))
        return rearrange(cells, "b h w (i j d) -> b (h i) (w j) d", i=2, j=2).permute(0, 3, 1, 2)


def grow(inputs: int, outputs: int, blocks: int) -> nn.Sequential:
    """A stage that doubles height and width."""
    return nn.Sequential(Doubling(inputs, outputs), *(Residual(outputs) for _ in range(blocks)))


def require_square(size: tuple[int, int], multiple: int, what: str) -> int:
    """The side of square frames, which must be a multiple of something."""
    if size[0] != size[1] or size[0] % multiple:
        more = f" with a side of a multiple of {multiple} pixels" if multiple > 1 else ""
        raise UserError(f"frames of {size[0]}×{size[1]} pixels for {what}", f"it needs square ones{more}")
    return size[0]


def start_orthogonal(model: nn.Module, but: nn.Module | None = None) -> None:
    """Orthogonal weights and no biases in every linear and convolutional layer, as LAOM's networks start.

    A part that is trained already is left as it is.
    """
    known = set() if but is None else set(but.modules())
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d) and layer not in known:
            nn.init.orthogonal_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
