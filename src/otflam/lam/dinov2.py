"""A frozen DINOv2 on a CPU: transformers' numbers but for rounding, with all that does not depend on a frame done once.

Position embeddings are resized once, weights are laid out as the processor's products want them, scales that follow a
product are part of its matrix, and what follows a product elementwise happens while its result is in the cache. In
float32 little else is left to save: nine tenths of the time are products at the processor's own speed.

Axes: n frames, s pixels, p patches, t tokens (the patches, and before them one for the whole frame), d width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn


class Product(NamedTuple):
    """A linear layer whose weights lie as oneDNN wants them."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, layers: list[nn.Linear], dtype: torch.dtype, rows: int, scale: Tensor | None = None) -> Product:
        """Layers side by side, for products with about so many rows; `scale` is what multiplies the result."""
        weight, bias = torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])
        if scale is not None:
            weight, bias = weight * scale[:, None], bias * scale
        return cls._laid_out(weight, bias, dtype, rows)

    @classmethod
    def of_patches(cls, layer: nn.Conv2d, dtype: torch.dtype, rows: int) -> Product:
        """A convolution whose patches do not overlap."""
        assert layer.bias is not None
        return cls._laid_out(layer.weight.flatten(1), layer.bias, dtype, rows)

    @classmethod
    def _laid_out(cls, weight: Tensor, bias: Tensor, dtype: torch.dtype, rows: int) -> Product:
        weight = weight.detach().to(dtype).contiguous()
        return cls(torch.ops.mkldnn._reorder_linear_weight(weight, rows), bias.detach().to(dtype))

    def __call__(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")

    def gelu(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "gelu", [], "none")

    def add_to(self, sum_: Tensor, x: Tensor) -> Tensor:
        """The product on top of what is there, which stays in float32."""
        if x.dtype != sum_.dtype:
            return sum_ + self(x)
        return torch.ops.mkldnn._linear_pointwise.binary(x, sum_, self.weight, self.bias, "add")


class Layer(NamedTuple):
    attend_norm: nn.LayerNorm
    attend: Product
    """Queries, keys and values side by side."""
    attended: Product
    think_norm: nn.LayerNorm
    think: Product
    thought: Product


class FrozenDino:
    """The forward pass of a Dinov2Model for square frames of one size."""

    def __init__(self, model: Any, size: int, dtype: torch.dtype, frames: int) -> None:
        """`frames` is how many there will mostly be at a time."""
        start, self.patch, self.dtype = model.embeddings, model.config.patch_size, dtype
        self.heads, patches = model.config.num_attention_heads, (size // self.patch) ** 2
        rows = frames * (1 + patches)
        with torch.no_grad():
            places = start.interpolate_pos_encoding(torch.zeros(1, 1 + patches, model.config.hidden_size), size, size)
            self.first, self.places = start.cls_token + places[:, :1], places[:, 1:].clone()
            self.enter = Product.of_patches(start.patch_embeddings.projection, dtype, frames * patches)
            self.layers = [self._layer(layer, dtype, rows) for layer in model.encoder.layer]
        self.norm: nn.LayerNorm = model.layernorm

    @staticmethod
    def _layer(layer: Any, dtype: torch.dtype, rows: int) -> Layer:
        seen, thought = layer.attention, layer.mlp
        return Layer(
            layer.norm1,
            Product.of([seen.q_proj, seen.k_proj, seen.v_proj], dtype, rows),
            Product.of([seen.o_proj], dtype, rows, layer.layer_scale1.lambda1),
            layer.norm2,
            Product.of([thought.fc1], dtype, rows),
            Product.of([thought.fc2], dtype, rows, layer.layer_scale2.lambda1),
        )

    def __call__(self, pixels: Float[Tensor, "n 3 s s"]) -> Float[Tensor, "n t d"]:
        count, side = len(pixels), pixels.shape[-1] // self.patch
        cut = rearrange(pixels, "n c (u i) (v j) -> n (u v) (c i j)", u=side, v=side)
        patches = self.enter(cut.to(self.dtype)) + self.places
        x = rearrange(torch.cat([self.first.expand(count, -1, -1), patches], 1), "n t d -> (n t) d")
        for layer in self.layers:
            seen = layer.attend(layer.attend_norm(x).to(self.dtype))
            q, k, v = rearrange(seen, "(n t) (a g d) -> a n g t d", n=count, a=3, g=self.heads)
            mixed = rearrange(F.scaled_dot_product_attention(q, k, v), "n g t d -> (n t) (g d)")
            x = layer.attended.add_to(x, mixed)
            x = layer.thought.add_to(x, layer.think.gelu(layer.think_norm(x).to(self.dtype)))
        return rearrange(self.norm(x), "(n t) d -> n t d", n=count)


def freeze(model: Any, size: int, dtype: torch.dtype, frames: int) -> FrozenDino | None:
    """A short way through a model, if it is one that this file knows: not that with gates, not on another processor."""
    usual = model.config.hidden_act == "gelu" and model.config.qkv_bias and not model.config.use_swiglu_ffn
    if not (usual and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return None
    try:
        return FrozenDino(model, size, dtype, frames)
    except AttributeError:  # another transformers calls its layers otherwise
        return None
