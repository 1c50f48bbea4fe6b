"""FLAM: its frame tokenizer, its slots, what each part may see, and its bottlenecks."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from otflam.core.batch import Batch
from otflam.data.clips import Clips
from otflam.data.store import Store
from otflam.lam.flam import FlamConfig
from otflam.lam.flam.model import Flam, SlotAttention
from otflam.presets import get_preset
from otflam.report.predictions import replace_past, roll_out
from otflam.tokenizer.build import TOKENS, encode_frames
from otflam.tokenizer.config import FrameTokenizerConfig
from otflam.tokenizer.frames import FSQ, FrameTokenizer

TINY = get_preset("tiny")
CONFIG = TINY.lam["flam-4"]
assert isinstance(CONFIG, FlamConfig)


def make(**change: object) -> Flam:
    torch.manual_seed(0)
    model = Flam(dataclasses.replace(CONFIG, **change), FrameTokenizer(TINY.frame_tokenizer), 16).eval()
    for parameter in model.leave.parameters():  # its weight starts at zero: then nothing would change the prediction
        torch.nn.init.normal_(parameter)
    return model


def clip(model: Flam, count: int = 3) -> Batch:
    frames = np.random.default_rng(0).integers(0, 256, (count, len(model.offsets), 32, 32, 3), np.uint8)
    return Batch(torch.from_numpy(frames), model.offsets, {})


@given(st.lists(st.integers(2, 7), min_size=1, max_size=4), st.integers(0, 2**31))
def test_fsq_rounds_to_the_nearest_level(levels: list[int], seed: int) -> None:
    """Against a search through all levels; numbers and their index say the same."""
    quantise = FSQ(tuple(levels))
    numbers = 3 * torch.randn(20, len(levels), generator=torch.Generator().manual_seed(seed))
    found = quantise(numbers)
    for place, count in enumerate(levels):
        grid = torch.linspace(-1, 1, count)
        inside = (1 - 1e-3) * numbers[:, place].tanh()
        distance = (inside[:, None] - grid).abs()
        chosen = (found[:, place, None] - grid).abs().argmin(1)
        assert torch.allclose(distance.gather(1, chosen[:, None])[:, 0], distance.min(1).values, atol=1e-6)
    index = quantise.index(found)
    assert ((index >= 0) & (index < np.prod(levels))).all()
    torch.testing.assert_close(quantise.levels_of(index), found, atol=1e-6, rtol=0)


def test_every_token_has_its_own_levels() -> None:
    quantise = FSQ((4, 4, 4, 4, 4))
    every = torch.arange(1024)
    assert torch.equal(quantise.index(quantise.levels_of(every)), every)
    combinations = sorted(itertools.product([-1, -1 / 3, 1 / 3, 1], repeat=5))
    np.testing.assert_allclose(sorted(map(tuple, quantise.levels_of(every).tolist())), combinations, atol=1e-6)


def test_gradients_pass_the_quantisation() -> None:
    numbers = torch.randn(5, 2, requires_grad=True)
    FSQ((4, 4))(numbers).sum().backward()
    assert numbers.grad is not None and (numbers.grad > 0).all()


def test_the_paper_s_tokenizer() -> None:
    config = FrameTokenizerConfig()
    assert config == get_preset("paper").frame_tokenizer
    assert np.prod(config.levels) == 1024 and config.dim == 128
    model = FrameTokenizer(config)
    images = torch.rand(2, 3, 64, 64)
    tokens = model.encode(images)
    assert tokens.shape == (2, 64) and model.decode(model.vectors(tokens)).shape == images.shape
    torch.testing.assert_close(model.vectors(tokens), model.outside(model.numbers(images)))


@pytest.mark.parametrize("slots", [1, 3])
def test_every_place_is_shared_out(slots: int) -> None:
    attention = SlotAttention(8, slots, 16, 3)
    found, shares = attention(torch.randn(2, 10, 8))
    assert found.shape == (2, slots, 8)
    torch.testing.assert_close(shares.sum(1), torch.ones(2, 10))
    if slots == 1:
        assert torch.equal(shares, torch.ones(2, 1, 10))


def test_permuting_slots_permutes_actions_and_leaves_the_prediction() -> None:
    model, order = make(), [2, 0, 3, 1]
    batch = clip(model)
    seen = model.observe(batch)
    latent, guess = model.infer_latent(seen), model.predict_future(seen, model.infer_latent(seen))
    with torch.no_grad():
        model.factorise.share_out.start.copy_(model.factorise.share_out.start[order])
    again = model.observe(batch)
    width = CONFIG.latent // CONFIG.slots
    torch.testing.assert_close(model.infer_latent(again).view(-1, 4, width), latent.view(-1, 4, width)[:, order])
    torch.testing.assert_close(model.predict_future(again, model.infer_latent(again)), guess)


def test_a_slot_sees_all_of_the_present_and_its_own_future_only() -> None:
    model = make()
    now, after = torch.randn(2, 4, 8), torch.randn(2, 4, 8)
    mean = model.posterior(now, after)[0]
    changed = after.clone()
    changed[:, 2] += 1
    other = model.posterior(now, changed)[0]
    assert torch.equal(mean[:, [0, 1, 3]], other[:, [0, 1, 3]]) and not torch.allclose(mean[:, 2], other[:, 2])
    present = now.clone()
    present[:, 2] += torch.randn(8)  # a constant would be normalised away
    assert not torch.isclose(model.posterior(present, after)[0], mean).all(-1).any()
    actions = torch.randn(2, 4, CONFIG.latent // 4)
    acted = actions.clone()
    acted[:, 1] += 1
    one, two = model.advance(now, actions), model.advance(now, acted)
    assert torch.equal(one[:, [0, 2, 3]], two[:, [0, 2, 3]]) and not torch.allclose(one[:, 1], two[:, 1])


def test_a_future_frame_cannot_change_an_earlier_latent() -> None:
    model = make()
    batch = clip(model)
    later = Batch(batch.frames.clone(), batch.offsets, {})
    later.frames[:, -1] = 255 - later.frames[:, -1]
    before, after = model.observe(batch).slots, model.observe(later).slots
    assert torch.equal(before[:, :-1], after[:, :-1]) and not torch.allclose(before[:, -1], after[:, -1])
    for time in range(before.shape[1] - 2):
        one, two = (model.posterior(slots[:, time], slots[:, time + 1])[0] for slots in (before, after))
        assert torch.equal(one, two)


def test_the_past_matters_to_a_latent() -> None:
    model = make()
    batch = clip(model)
    other = Batch(batch.frames.clone(), batch.offsets, {})
    other.frames[:, 0] = 255 - other.frames[:, 0]
    assert not torch.allclose(model.infer(batch), model.infer(other))


def test_divergence_is_that_of_gaussians_and_its_weight_grows() -> None:
    model = make(annealed=4)
    mean, logvar = torch.randn(5, 4, 4), torch.randn(5, 4, 4)
    model.eval()
    kl = model.squeeze(mean, logvar)[1]
    here = torch.distributions.Normal(mean, (0.5 * logvar).exp())
    expected = torch.distributions.kl_divergence(here, torch.distributions.Normal(0.0, 1.0)).sum((1, 2)).mean()
    torch.testing.assert_close(kl, expected)
    model.train()
    batch, shares = clip(model), []
    for _ in range(6):
        terms = model(batch)
        assert terms.metrics["kl_full"] > 0
        shares.append(float((terms.losses["kl"] / terms.metrics["kl_full"]).detach()))
    assert shares == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])


def test_the_discrete_bottleneck_has_sixteen_codes() -> None:
    model = make(bottleneck="vq16").train()
    batch = clip(model, 8)
    terms = model(batch)
    assert terms.losses["commit"] > 0 and terms.losses["kl"] == 0
    model.eval()
    actions = model.infer(batch).view(-1, CONFIG.latent // 4)
    assert model.codebook is not None and len(model.codebook.vectors) == 16
    assert (actions[:, None] == model.codebook.vectors).all(-1).any(1).all()


def test_the_rollout_starts_from_one_frame() -> None:
    """With one step ahead the training error is that of the prediction itself."""
    model = make(frames=2, ahead=1).eval()
    batch = clip(model)
    expected = (model.predict(batch, model.infer(batch)) - model.future(batch)).square().sum(-1).mean()
    torch.testing.assert_close(model(batch).losses["next"], expected)


@pytest.mark.parametrize("first", [0, 1])
def test_the_rollout_goes_on_from_what_it_predicted(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps, one at a time: slots and features of the second are those that the first predicted."""
    model = make(frames=4, ahead=2).eval()
    torch.nn.init.normal_(model.leave.get_parameter("1.weight"))
    monkeypatch.setattr(torch, "randint", lambda low, high, size: torch.tensor(first))
    batch = clip(model)
    seen, errors = model.observe(batch), []
    features, slots = seen.features[:, first], seen.slots[:, first]
    for time in (first, first + 1):
        action = model.posterior(seen.slots[:, time], seen.slots[:, time + 1])[0]
        after = model.advance(slots, action)
        features, slots = model.redraw(features, slots, after), after
        errors.append((features - seen.features[:, time + 1]).square().sum(-1).mean())
    torch.testing.assert_close(model(batch).losses["next"], torch.stack(errors).mean())


def test_a_rollout_uses_what_it_imagined(square_store: Store) -> None:
    """Whether tokens are stored or not."""
    model = make()
    tokens = encode_frames(square_store, model.tokenizer, "tokens")
    futures = []
    for columns in ({}, {TOKENS: tokens}):
        clips = Clips(square_store, model.offsets, (), [0], columns)
        batch = clips.gather(np.array([3]))
        imagined = {3: torch.randn(16, TINY.frame_tokenizer.dim)}
        seen = model.observe(replace_past(model, batch, 3, imagined))
        assert torch.equal(seen.features[0, model.offsets.index(0)], imagined[3])
        futures.append(torch.stack(roll_out(model, clips, 2, 3)[1]))
        # The second step goes on from the first one's future, with its own latent.
        again = model.observe(replace_past(model, batch, 3, {3: futures[-1][0]}))
        torch.testing.assert_close(model.predict_future(again, model.infer(batch))[0], futures[-1][1])
    torch.testing.assert_close(*futures)
