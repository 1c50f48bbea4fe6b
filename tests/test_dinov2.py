"""The short way through a frozen DINOv2 gives transformers' numbers; bfloat16 only to who asks, by another name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from otflam.core.errors import UserError
from otflam.lam.dinov2 import freeze
from otflam.lam.features import Backbone

transformers = pytest.importorskip("transformers", reason="needs otflam[dino]")


def random_model(**change: object) -> torch.nn.Module:
    """A small DINOv2 in which nothing, such as a scale, starts without a say."""
    config = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 70, "patch_size": 14}
    torch.manual_seed(0)
    model = transformers.Dinov2Model(transformers.Dinov2Config(**config | change)).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter += 0.3 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize(("size", "count"), [(14, 1), (42, 5), (70, 8)])
def test_short_way_is_the_whole_way(size: int, count: int) -> None:
    model, pixels = random_model(), torch.randn(count, 3, size, size)
    frozen = freeze(model, size, torch.float32, 8)
    assert frozen is not None
    with torch.inference_mode():
        expected = model(pixel_values=pixels).last_hidden_state
        torch.testing.assert_close(frozen(pixels), expected, atol=1e-4, rtol=1e-4)


def test_other_networks_go_their_own_way() -> None:
    for change in ({"use_swiglu_ffn": True}, {"qkv_bias": False}, {"hidden_act": "relu"}):
        assert freeze(random_model(**change), 42, torch.float32, 8) is None


def test_bfloat16_is_asked_for_and_has_another_hash(save_dino: Callable[..., Path], tmp_path: Path) -> None:
    folder = save_dino(tmp_path / "tiny")
    frames = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 20, 20, 3), np.uint8))
    found = []
    for label in ({}, {"precision": "float32"}, {"precision": "bfloat16"}):
        (folder / "otflam.json").write_text(json.dumps({"name": "mine", **label}))
        backbone = Backbone.load(str(folder), 28)
        found.append((backbone.hash, backbone(frames)))
    (default, exact), (same, again), (other, rounded) = found
    assert default == same and torch.equal(exact, again) and other != default
    assert 0 < (rounded - exact).norm() < 0.03 * exact.norm()
    (folder / "otflam.json").write_text(json.dumps({"name": "mine", "precision": "float8"}))
    with pytest.raises(UserError, match="float8"):
        Backbone.load(str(folder), 28)
