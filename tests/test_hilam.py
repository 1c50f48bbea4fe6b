"""HiLAM: dynamic chunking against plain loops, what its latent actions depend on, and what tells of its failure."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from otflam.core.batch import Batch
from otflam.core.errors import UserError
from otflam.data.clips import Clips
from otflam.data.store import Store
from otflam.lam.audit import frozen_future
from otflam.lam.health import verdict
from otflam.lam.hilam import HilamConfig
from otflam.lam.hilam.chunking import (
    Boundaries,
    BoundaryFinder,
    boundary_rate,
    put_together,
    ratio_loss,
    smooth,
    spread_out,
    take_chunks,
)
from otflam.lam.hilam.model import LOW, Hilam
from otflam.lam.lapo import LapoConfig
from otflam.lam.lapo.model import Lapo
from otflam.lam.model import Parts
from otflam.presets import get_preset

CONFIG, LAPO = get_preset("tiny").lam["hilam"], get_preset("tiny").lam["lapo-64"]
assert isinstance(CONFIG, HilamConfig) and isinstance(LAPO, LapoConfig)


def make(**change: object) -> Hilam:
    torch.manual_seed(0)
    return Hilam(dataclasses.replace(CONFIG, **change), Lapo(LAPO, 32, 3)).eval()


def clip(model: Hilam, count: int = 3) -> Batch:
    frames = np.random.default_rng(0).integers(0, 256, (count, len(model.offsets), 32, 32, 3), np.uint8)
    return Batch(torch.from_numpy(frames), model.offsets, {})


def draw(seed: int, count: int, times: int) -> Boundaries:
    """Random boundaries, with one at the start."""
    likely = torch.rand(count, times, generator=torch.Generator().manual_seed(seed))
    likely[:, 0] = 1
    return Boundaries(likely, likely >= 0.5)


@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 12))
def test_chunk_and_dechunk_against_plain_loops(seed: int, count: int, times: int) -> None:
    """Taking chunks, smoothing them and putting them together, one sequence and one element at a time."""
    boundaries = draw(seed, count, times)
    elements = torch.randn(count, times, 3, generator=torch.Generator().manual_seed(seed))
    chunks, real = take_chunks(elements, boundaries.begins)
    together = put_together(chunks, boundaries, real)
    for number in range(count):
        begins = boundaries.begins[number].nonzero()[:, 0].tolist()
        assert real[number].sum() == len(begins)
        assert torch.equal(chunks[number, : len(begins)], elements[number, begins])
        value = torch.zeros(3)
        for time in range(times):
            if time in begins:
                weight = boundaries.likely[number, time].clamp(1e-4, 1 - 1e-4)
                value = weight * elements[number, time] + (1 - weight) * value
            torch.testing.assert_close(together[number, time], value, atol=1e-5, rtol=1e-4)


@given(st.integers(0, 2**31), st.integers(1, 40))
def test_smoothing_equals_its_naive_loop(seed: int, length: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    chunks, weight = torch.randn(2, length, 3, generator=generator), torch.rand(2, length, generator=generator)
    weight[:, ::5], weight[:, 1::7] = 0.0, 1.0
    value, expected = torch.zeros(2, 3), []
    for place in range(length):
        share = weight[:, place, None].clamp(1e-4, 1 - 1e-4)
        value = share * chunks[:, place] + (1 - share) * value
        expected.append(value)
    torch.testing.assert_close(smooth(chunks, weight), torch.stack(expected, 1), atol=1e-5, rtol=1e-4)


def test_sure_boundaries_give_back_the_chunks() -> None:
    """With a boundary everywhere the sequence comes back; with one only at the start its first element does."""
    elements = torch.randn(2, 6, 3)
    everywhere = Boundaries(torch.ones(2, 6), torch.ones(2, 6, dtype=torch.bool))
    chunks, real = take_chunks(elements, everywhere.begins)
    torch.testing.assert_close(put_together(chunks, everywhere, real), elements, atol=2e-3, rtol=1e-3)
    once = torch.zeros(2, 6)
    once[:, 0] = 1
    start = Boundaries(once, once > 0)
    chunks, real = take_chunks(elements, start.begins)
    assert chunks.shape[1] == 1
    torch.testing.assert_close(spread_out(chunks, start), elements[:, :1].expand(-1, 6, -1))


@pytest.mark.parametrize("times", [1, 5])
def test_a_chunk_begins_at_the_first_step(times: int) -> None:
    """Also of a sequence of length 1; nothing begins beyond what is real; opposite directions are a sure boundary."""
    finder, seen = BoundaryFinder(4), torch.randn(2, times, 4)
    real = torch.ones(2, times, dtype=torch.bool)
    real[1, times // 2 + 1 :] = False
    found = finder(seen, real)
    assert found.begins[:, 0].all() and (found.likely[:, 0] == 1).all() and not found.begins[~real].any()
    flips = torch.tensor([[[1.0, 0, 0, 0], [1, 0, 0, 0], [-1, 0, 0, 0]]])
    found = finder(flips, torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(found.likely, torch.tensor([[1.0, 0.0, 1.0]]))


@given(st.integers(2, 12), st.floats(0.01, 0.99))
def test_ratio_loss_is_least_at_the_target(length: int, rate: float) -> None:
    def at(value: float) -> float:
        return float(ratio_loss(torch.tensor(value), torch.tensor(value), length))

    assert at(1 / length) == pytest.approx(1.0, abs=1e-5)
    assert at(rate) >= 1.0 - 1e-5
    here = torch.tensor(1 / length, requires_grad=True)
    ratio_loss(here, here, length).backward()
    assert here.grad is not None and abs(float(here.grad)) < 1e-4


def test_rates_count_what_is_real() -> None:
    boundaries = draw(0, 2, 8)
    real = torch.ones(2, 8, dtype=torch.bool)
    real[0, 4:] = False
    held = Boundaries(boundaries.likely * real, boundaries.begins & real)
    begun, likely = boundary_rate(held, real)
    assert float(begun) == pytest.approx(float(held.begins.sum()) / 12)
    assert float(likely) == pytest.approx(float(held.likely.sum()) / 12)


def test_gradients_reach_the_boundary_projections() -> None:
    """Through the next latent alone, without the ratio loss."""
    model = make(window=12).train()
    with torch.no_grad():  # so that there are boundaries inside
        model.outer_cut.query.weight.copy_(torch.randn(CONFIG.dim, CONFIG.dim))
        model.inner_cut.query.weight.copy_(torch.randn(CONFIG.dim, CONFIG.dim))
    model(clip(model, 8)).losses["latent"].backward()
    for cut in (model.outer_cut, model.inner_cut):
        for layer in (cut.query, cut.key):
            assert layer.weight.grad is not None and layer.weight.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in model.low.parameters())


def test_what_is_foreseen_is_also_drawn() -> None:
    """By the frozen forward model from the latent that was foreseen for the last transition."""
    model = make().train()
    batch = clip(model, 4)
    terms = model(batch)
    foreseen = model.stages(model.observe(batch).sequence).guess[:, -2] * model.unit + model.centre
    drawn = model.low.predict_future(model.low.observe(batch), foreseen)
    torch.testing.assert_close(terms.losses["rec"], (drawn - model.low.future(batch)).square().mean())
    terms.losses["rec"].backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in model.leave.parameters())
    assert all(parameter.grad is None for parameter in model.low.parameters())


def test_nothing_looks_ahead() -> None:
    model = make()
    torch.nn.init.normal_(model.outer_skip.weight)  # starts at zero: then only what begins a chunk is of effect
    sequence = torch.randn(2, CONFIG.window, CONFIG.width)
    other = sequence.clone()
    other[:, 4:] += 1
    one, two = model.stages(sequence), model.stages(other)
    torch.testing.assert_close(one.guess[:, :4], two.guess[:, :4])
    torch.testing.assert_close(one.skills[:, :4], two.skills[:, :4])
    assert torch.equal(one.chunks.begins[:, :4], two.chunks.begins[:, :4])
    assert not torch.allclose(one.guess[:, 4:], two.guess[:, 4:])


def test_one_skill_lasts_as_long_as_its_chunks() -> None:
    model = make(window=16)
    found = model.stages(5 * torch.randn(4, 16, CONFIG.width))
    for number in range(4):
        bundle = found.bundles.chunk[number][found.chunks.chunk[number]]
        for first in range(15):
            same = torch.equal(found.skills[number, first], found.skills[number, first + 1])
            assert same == bool(bundle[first] == bundle[first + 1])


def test_latent_is_the_low_level_one_and_the_skill() -> None:
    model = make()
    batch = clip(model)
    latent, seen = model.infer(batch), model.observe(batch)
    low = model.low.infer(Batch(batch.frames, batch.offsets, {}))
    assert latent.shape == (3, CONFIG.width + CONFIG.skill)
    torch.testing.assert_close(model.low_of(latent), low)
    torch.testing.assert_close(model.predict(batch, latent), model.low.predict(batch, low))
    torch.testing.assert_close(model.name_all(seen)[:, -1], latent)
    stored = {LOW: torch.zeros(3, len(batch.offsets), CONFIG.width)}
    for place, offset in enumerate(model.past):
        stored[LOW][:, batch.offsets.index(offset)] = seen.sequence[:, place]
    torch.testing.assert_close(model.infer(Batch(batch.frames, batch.offsets, stored)), latent)


@pytest.mark.parametrize(("rate", "told"), [(0.24, "healthy"), (0.01, "collapsed: chunks"), (1.0, "collapsed: chunks")])
def test_boundaries_nowhere_or_everywhere_are_told(rate: float, told: str) -> None:
    health = {"gain_over_shuffled": 0.5, "gain_over_copied": 0.2, "latent_rank": 9.0, "transitions": 99.0}
    health |= {"chunk_rate": rate, "chunk_rate_wanted": 0.25, "skill_rate": 0.5, "skill_rate_wanted": 0.5}
    health |= {"next_latent": 0.4, "next_latent_repeated": 0.5, "skill_rank": 5.0}
    assert verdict(health).startswith(told)
    if told == "healthy":
        for rate in (0.01, 0.99):
            assert verdict(health | {"skill_rate": rate}).startswith("collapsed: skills")
        assert verdict(health | {"next_latent": 0.6}).startswith("weak: the next latent")
        assert verdict(health | {"skill_rank": 1.0}).startswith("collapsed: the skills")


def test_labels_of_one_segment_share_their_skill(square_store: Store) -> None:
    """As the model itself cuts the windows of an episode, one after another from its start."""
    model = make()
    model.centre.fill_(0.3)
    rows = model.label(square_store, 1, {})[:, CONFIG.width :]
    clips = Clips(square_store, model.offsets, (), [1], pad=True)
    for start in (0, 6):
        last = start + CONFIG.window - 1
        stages = model.stages(model.observe(clips.gather(np.array([last]))).sequence)
        np.testing.assert_allclose(rows[start : last + 1], stages.skills[0].detach(), atol=1e-5)
        bundle = stages.bundles.chunk[0][stages.chunks.chunk[0]]
        for at in range(CONFIG.window - 1):
            shared = np.array_equal(*rows[start + at : start + at + 2])
            assert shared == bool(bundle[at] == bundle[at + 1])
    assert len(clips) == 18 and not rows[18:].any() and rows[17].any()


def test_the_first_transition_does_not_stand_for_what_was_before(square_store: Store) -> None:
    """Neither in the latent of a frozen future nor anywhere else: stored and computed on the way agree at the start."""
    model = make()
    parts = Parts((32, 32, 3), base=model.low, base_hash="low")
    low = model.columns(parts, square_store, None)[LOW]

    def still(batch: Batch) -> torch.Tensor:
        return model.infer(frozen_future(batch))

    stored = model.each_transition(still, model.latent, square_store, 2, {LOW: low})
    fresh = model.each_transition(still, model.latent, square_store, 2, {})
    np.testing.assert_allclose(stored, fresh, atol=1e-5)


def test_low_level_latents_that_do_not_vary_are_told() -> None:
    model = make().train()
    for parameter in model.low.inverse.parameters():
        torch.nn.init.zeros_(parameter)
    with pytest.raises(UserError, match="do not vary"):
        model(clip(model))
