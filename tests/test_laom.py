"""LAOM: who teaches whom, what follows, and other views of the same picture."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st

from otflam.core import augment
from otflam.core.augment import warp_images
from otflam.core.batch import Batch
from otflam.core.errors import UserError
from otflam.lam.build import build_lam
from otflam.lam.laom import LaomConfig
from otflam.lam.laom.model import Laom, Reader
from otflam.lam.model import Parts
from otflam.presets import get_preset


@pytest.fixture
def model() -> Laom:
    torch.manual_seed(0)
    found = build_lam("laom", get_preset("tiny").lam["laom"], Parts((32, 32, 3)))
    assert isinstance(found, Laom)
    return found


def clips_for(model: Laom, seed: int = 0, count: int = 4) -> Batch:
    shape = (count, len(model.training_offsets), 32, 32, 3)
    frames = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    return Batch(torch.from_numpy(frames), model.training_offsets, {})


def test_the_loss_spelled_out(model: Laom) -> None:
    """Without other views: the error of what is foreseen from the present and the latent, as the slow copy sees it."""
    model.eval()
    batch = clips_for(model)
    now, later = (2 * batch.stack(offset, 3) - 1 for offset in (0, model.stride))
    latent = model.inverse(None, torch.cat([model.encode(now), model.encode(later)], 1))
    foreseen = model.forth(model.encode(now), latent)
    torch.testing.assert_close(model(batch).losses["next"], F.mse_loss(foreseen, model.slow(later)))
    torch.testing.assert_close(
        F.mse_loss(model.predict(batch, latent), model.future(batch)), model(batch).losses["next"]
    )
    torch.testing.assert_close(model.infer(batch), latent)


def test_stages_read_again() -> None:
    reader = Reader(3, 5, 8, 3, 2)
    assert [stage.join.in_features for stage in reader.stages] == [8, 13, 13]
    once, again = torch.randn(4, 3), torch.randn(4, 5)
    x = once
    for stage in reader.stages:
        x = F.linear(torch.cat([x, again], 1), stage.join.weight, stage.join.bias)
        x = stage.norm(x + stage.think[2](stage.think[0](x).clamp(0, 6)))
    torch.testing.assert_close(reader(once, again), reader.leave(x))


def test_only_the_inverse_half_teaches_the_encoder(model: Laom) -> None:
    batch = clips_for(model)
    for parameter in model.inverse.parameters():
        parameter.requires_grad_(False)
    model.inverse.leave.weight.zero_()  # latents are the same for all: nothing comes back through them
    model.train()(batch).losses["next"].backward()
    assert all(each.grad is None or not each.grad.any() for each in model.encode.parameters())
    assert any(each.grad is not None and each.grad.any() for each in model.forth.parameters())
    assert all(each.grad is None for each in model.slow.parameters())


def test_the_slow_copy_follows(model: Laom) -> None:
    before = [each.clone() for each in model.slow.parameters()]
    with torch.no_grad():
        for parameter in model.encode.parameters():
            parameter.add_(1.0)
    model.after_step()
    for old, slow, fast in zip(before, model.slow.parameters(), model.encode.parameters(), strict=True):
        torch.testing.assert_close(slow, (1 - model.config.rate) * old + model.config.rate * fast)


def test_views_are_other_ones_only_in_training(model: Laom) -> None:
    batch = clips_for(model)
    with torch.no_grad():
        still = [float(model.eval()(batch).losses["next"]) for _ in range(2)]
        moved = [float(model.train()(batch).losses["next"]) for _ in range(2)]
    assert still[0] == still[1] and moved[0] != moved[1]
    assert LaomConfig().augment


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(4, 12), st.integers(0, 99))
def test_views_show_nothing_new(count: int, colours: int, side: int, seed: int) -> None:
    """Every pixel lies between the darkest and the brightest of its image, and plain images stay as they are."""
    torch.manual_seed(seed)
    images = torch.rand(count, colours, side, side)
    seen = warp_images(images)
    assert seen.shape == images.shape and seen.isfinite().all()
    for before, after in zip(images, seen, strict=True):
        assert after.amin() >= before.amin() - 1e-5 and after.amax() <= before.amax() + 1e-5
    plain = torch.full_like(images, 0.3)
    torch.testing.assert_close(warp_images(plain), plain)


def test_one_in_eight_stays_as_it_is() -> None:
    torch.manual_seed(0)
    images = torch.rand(800, 1, 8, 8)
    seen = warp_images(images)
    same = (seen - images).abs().flatten(1).amax(1) < 1e-5
    assert 0.08 < same.float().mean() < 0.18
    assert not torch.equal(warp_images(images), seen)


def test_turns_and_tilts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter turn is torch's own; the corners of a tilted image show what lies inside."""
    images = torch.rand(3, 2, 6, 6)
    monkeypatch.setattr(augment, "TURN", 0.0)
    assert torch.equal(augment.turns(2), torch.eye(3).expand(2, 3, 3))
    monkeypatch.setattr(torch, "rand", lambda *shape: torch.ones(*shape))
    monkeypatch.setattr(augment, "TURN", math.pi / 2)
    grid = F.affine_grid(augment.turns(3)[:, :2], [3, 2, 6, 6], align_corners=False)
    turned = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    torch.testing.assert_close(turned, torch.rot90(images, 1, (2, 3)))
    corners = torch.cat([augment.CORNERS, torch.ones(4, 1)], 1) @ augment.tilts(1)[0].T
    torch.testing.assert_close(corners[:, :2] / corners[:, 2:], augment.CORNERS * (1 - augment.TILT))


def test_empty_widths_are_refused() -> None:
    with pytest.raises(UserError, match="--stages 0: give at least 1"):
        build_lam("laom", LaomConfig(stages=0), Parts((32, 32, 3)))
