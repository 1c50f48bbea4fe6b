"""The variants that learn most in a second: what they predict, what they see, and where they are planned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st

from otflam.core.augment import shift_clips
from otflam.core.batch import Batch
from otflam.core.errors import UserError
from otflam.experiments.studies import STUDIES
from otflam.lam.build import build_lam
from otflam.lam.fast.model import GAIN, FastLapo, RandomFeatures
from otflam.lam.method import METHODS
from otflam.lam.model import LAM, Parts
from otflam.presets import get_preset
from otflam.tokenizer import build_tokenizer

TINY = get_preset("tiny")
FAST = ["lapo-fast", "otf-lam-fast"]


def model_of(method: str) -> LAM:
    torch.manual_seed(0)
    base = build_tokenizer(TINY.tokenizer) if METHODS[method].base else None
    if base is not None:
        base.codebook.vectors.normal_()  # they are zero until training starts
    return build_lam(method, TINY.lam[method], Parts((32, 32, 3), base, "hash"))


def clips_for(model: LAM, seed: int = 0, count: int = 3) -> Batch:
    rng, offsets = np.random.default_rng(seed), model.training_offsets
    frames = rng.integers(0, 256, (count, len(offsets), 32, 32, 3), np.uint8)
    codes = rng.integers(0, TINY.tokenizer.codebook.codes, (count, len(offsets), TINY.tokenizer.grid**2))
    return Batch(torch.from_numpy(frames), offsets, {"codes": torch.from_numpy(codes)})


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(5, 9), st.integers(5, 9), st.integers(0, 4), st.integers(0, 99)
)
def test_clips_are_shifted_as_wholes(count: int, frames: int, height: int, width: int, most: int, seed: int) -> None:
    """Every clip is some cut of its frames after their borders were repeated, the same for all of them."""
    clips = np.random.default_rng(seed).integers(0, 256, (count, frames, height, width, 3), np.uint8)
    torch.manual_seed(seed)
    batch = Batch(torch.from_numpy(clips), tuple(range(frames)), {"codes": torch.arange(count)})
    moved = shift_clips(batch, most)
    assert moved.columns is batch.columns and moved.offsets == batch.offsets
    wide = np.pad(clips, ((0, 0), (0, 0), (most, most), (most, most), (0, 0)), mode="edge")
    cuts = [(y, x) for y in range(2 * most + 1) for x in range(2 * most + 1)]
    for before, after in zip(wide, moved.frames.numpy(), strict=True):
        assert any(np.array_equal(before[:, y : y + height, x : x + width], after) for y, x in cuts)


def test_shifts_are_drawn_anew_and_reach_both_ends() -> None:
    ramp = torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4, 1).repeat(400, 1, 1, 1, 1)
    torch.manual_seed(0)
    first = shift_clips(Batch(ramp, (0,), {}), 1).frames[:, 0, 1, 1, 0]
    assert set(first.tolist()) == {0, 1, 2, 4, 5, 6, 8, 9, 10}
    assert not torch.equal(first, shift_clips(Batch(ramp, (0,), {}), 1).frames[:, 0, 1, 1, 0])


def test_random_features_spelled_out() -> None:
    images = torch.rand(2, 3, 16, 24)[..., :16] * 2 - 1
    torch.manual_seed(1)
    features = RandomFeatures(2, 3, 8)
    torch.manual_seed(2)
    assert torch.equal(features(images), RandomFeatures(2, 3, 8)(images))  # the same in every model
    cells = F.unfold(images, 4, stride=4).transpose(1, 2) @ features.first.weight.flatten(1).T
    grid = cells.relu().view(2, 4, 4, 4).permute(0, 3, 1, 2)
    told = F.unfold(grid, 3, stride=2, padding=1).transpose(1, 2) @ features.second.weight.flatten(1).T
    torch.testing.assert_close(features(images), GAIN * told)
    assert not any(parameter.requires_grad for parameter in features.parameters())


@pytest.mark.parametrize("method", FAST)
def test_targets_stay_and_all_else_learns(method: str) -> None:
    model = model_of(method).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimiser = torch.optim.SGD((each for each in model.parameters() if each.requires_grad), 0.1)
    for seed in range(3):  # a latent starts without a say: its own half learns from the second step on
        optimiser.zero_grad()
        model(clips_for(model, seed)).losses["next"].backward()
        optimiser.step()
    learned = {name.split(".")[0] for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert learned == {name for name, _ in model.named_children()} - {"targets", "tokenizer"}


@pytest.mark.parametrize("method", FAST)
def test_the_forward_half_sees_the_present_and_the_latent_only(method: str) -> None:
    model = model_of(method).eval()
    batch = clips_for(model)
    known = [place for place, offset in enumerate(batch.offsets) if offset <= 0]
    other = clips_for(model, 1)  # another future, and other codes of what happens
    other.frames[:, known] = batch.frames[:, known]
    latent = torch.randn(3, model.latent)
    found = [model.predict(each, latent) for each in (batch, other)]
    torch.testing.assert_close(*found)
    assert not torch.equal(model.infer(batch), model.infer(other))
    assert found[0].shape == model.future(batch).shape == model.current(batch).shape


def test_lapo_fast_starts_from_the_present_and_shifts_only_in_training() -> None:
    model = model_of("lapo-fast")
    assert isinstance(model, FastLapo)
    torch.nn.init.zeros_(model.decode[-1].weight)
    batch = clips_for(model)
    torch.testing.assert_close(model.eval().predict(batch, torch.randn(3, model.latent)), model.current(batch))
    with torch.no_grad():
        still = [float(model.eval()(batch).losses["next"]) for _ in range(2)]
        moved = [float(model.train()(batch).losses["next"]) for _ in range(2)]
    assert still[0] == still[1] and moved[0] != moved[1]


@pytest.mark.parametrize("method", FAST)
def test_empty_widths_are_refused(method: str) -> None:
    base = build_tokenizer(TINY.tokenizer) if METHODS[method].base else None
    config = METHODS[method].config(targets=0)
    with pytest.raises(UserError, match="--targets 0: give at least 1"):
        build_lam(method, config, Parts((32, 32, 3), base, "hash"))


def test_variants_have_a_study_of_their_own() -> None:
    laptop = get_preset("laptop")
    planned = STUDIES["shapes"].plan(laptop)
    assert {each.job.method for each in planned} == set(FAST) == {name for name in METHODS if METHODS[name].varies}
    assert {each.job.data for each in planned if each.kind == "lams"} == {
        f"{task}-run-noisy{world}" for task in ("cheetah", "walker") for world in ("", "-vanilla")
    }
    everything = STUDIES["all"].plan(laptop)
    assert not {getattr(each.job, "method", "") for each in everything} & set(FAST)
