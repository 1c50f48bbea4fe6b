"""Policies: who sees which episodes, what actors see, what they imitate and how labels ground them."""

from __future__ import annotations

import dataclasses
import platform
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from otflam.core.batch import Batch
from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.core.processor import keep_freed_memory
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter
from otflam.policy.clone import Actor, Target
from otflam.policy.config import ActionDecoderConfig, ActorConfig
from otflam.policy.decode import labelled_pairs, train_decoder
from otflam.policy.spaces import ActionSpace, LatentSpace
from otflam.policy.train import AgentPlan, Splits, train_reference
from otflam.presets import get_preset

TINY, CPU = get_preset("tiny"), Hardware(accelerator="cpu")


@pytest.fixture(scope="module")
def store(noisy_store: Store) -> Store:
    return noisy_store


@given(st.integers(4, 400), st.integers(0, 5))
def test_nobody_sees_the_episodes_of_another(count: int, seed: int) -> None:
    class Counted(Store):
        def __init__(self) -> None:
            self.columns = {}

        def __len__(self) -> int:
            return count

    splits = Splits.of(Counted())
    parts = [splits.unlabelled, splits.pool, splits.probes]
    assert sorted(np.concatenate(parts).tolist()) == list(range(count))
    assert len(splits.unlabelled) == round(count / 2) and len(splits.pool) >= 1
    few, many = (set(splits.labelled(n, seed).tolist()) for n in (1, len(splits.pool)))
    assert few <= many <= set(splits.pool.tolist())
    with pytest.raises(UserError, match="labelled episodes of a pool of"):
        splits.labelled(len(splits.pool) + 1, seed)


def test_clips_may_begin_before_the_episode(store: Store) -> None:
    target = Target("actions", inside=(2,))
    clips = target.clips(store, (-2, -1, 0), [1])
    assert len(clips) == store.lengths[1] - 2
    frames = clips.gather(np.arange(3)).frames.numpy()
    episode = store.episode(1, "frames")
    for t, shown in enumerate(frames):
        assert np.array_equal(shown, episode[[max(0, t - 2), max(0, t - 1), t]])
    assert np.array_equal(clips.column("actions"), store.episode(1, "actions")[:-2])


def test_changes_show_the_newest_frame_and_what_led_to_it() -> None:
    batch = Batch(torch.randint(0, 256, (2, 3, 16, 16, 3), dtype=torch.uint8), (-2, -1, 0), {})
    plain = Actor(ActorConfig(scale=1, blocks=0), 16, 3, 2).stacked(batch)
    assert torch.equal(plain, 2 * batch.stack(0, 3) - 1)
    seen = Actor(ActorConfig(scale=1, blocks=0, state=8, changes=4.0), 16, 3, 2).stacked(batch)
    assert torch.equal(seen[:, 6:], plain[:, 6:])
    assert torch.equal(seen[:, :6], 4 * (plain[:, 3:] - plain[:, :6]))
    assert seen.is_contiguous(memory_format=torch.channels_last)  # what convolutions on a CPU like


def test_the_paper_s_actor_has_the_public_size() -> None:
    """About 99 million parameters with an output of 128 numbers, and the mean over places as its state."""
    with torch.device("meta"):
        actor = Actor(get_preset("paper").policy.actor, 64, 3, 128)
    assert actor.width == 1024
    assert 98e6 < sum(parameter.numel() for parameter in actor.parameters()) < 100e6


def test_paper_preset_takes_real_steps(store: Store, tmp_path: Path) -> None:
    config = get_preset("paper").policy
    narrow = dataclasses.replace(config.actor, scale=8)  # 100 million parameters take minutes here
    clone = dataclasses.replace(config.clone, steps=2, batch=4)
    decode = dataclasses.replace(config.decode, steps=2, batch=4)
    config = dataclasses.replace(config, actor=narrow, clone=clone, decode=decode)
    agent = train_reference(AgentPlan(store, 1, config, CPU, tmp_path), "labels-only")
    assert agent.clone.actor.width == 256


def test_latents_are_brought_to_one_scale() -> None:
    latents = np.random.default_rng(0).normal(3, [0.1, 5], (1000, 2)).astype(np.float32)
    space = LatentSpace.of(latents)
    normal = space.normal(torch.from_numpy(latents))
    assert torch.allclose(normal.mean(0), torch.zeros(2), atol=1e-4)
    assert normal.square().mean().item() == pytest.approx(1, rel=1e-3)
    assert (normal.std(0)[1] / normal.std(0)[0]).item() == pytest.approx(50, rel=0.1)
    assert space.loss(torch.zeros(1000, 2), torch.from_numpy(latents)).item() == pytest.approx(1, rel=1e-3)


@given(st.lists(st.floats(-50, 50), min_size=6, max_size=6))
def test_continuous_actions_stay_within_bounds(raw: list[float]) -> None:
    space = ActionSpace(6)
    space.low.copy_(torch.linspace(-2, 0, 6))
    action = space.value(torch.tensor([raw]))
    assert (action >= space.low - 1e-6).all() and (action <= space.high + 1e-6).all()


def test_choices_are_drawn_by_their_odds_squared() -> None:
    """Sharper than the odds, and every choice as often as that says; numbers are not drawn."""
    space, raw = ActionSpace(1, 4), torch.tensor([[0.0, 1.0, -1.0, 0.5]])
    chances = (torch.arange(10_000) + 0.5) / 10_000
    drawn = space.drawn(raw.expand(10_000, -1), chances)[:, 0].long()
    odds = raw.softmax(1).square()[0]
    assert torch.bincount(drawn, minlength=4) / 10_000 == pytest.approx(odds / odds.sum(), abs=2e-4)
    assert space.drawn(raw, torch.ones(1)).item() == 3 and space.value(raw).item() == 1
    assert torch.equal(ActionSpace(4).drawn(raw, torch.zeros(1)), ActionSpace(4).value(raw))


def labelled_buttons(folder: Path, most: int) -> Store:
    writer = StoreWriter(folder, {"frames": Column("uint8", (16, 16, 3)), "actions": Column("float32", (1,)),
                                  "action_mask": Column("bool", ())}, {})  # fmt: skip
    for index in range(4):
        buttons = np.arange(10)[:, None] % (most + 1)
        frames = np.zeros((10, 16, 16, 3), np.uint8) + (buttons * 80).astype(np.uint8)[:, None, None]
        columns = {"frames": frames, "actions": buttons.astype(np.float32), "action_mask": np.arange(10) % 5 != 0}
        writer.append(index, columns, {})
    return writer.finish({}, 4)


def test_discrete_actions_are_classified_and_unlabelled_frames_left_out(tmp_path: Path) -> None:
    store = labelled_buttons(tmp_path / "data", 2)
    space = ActionSpace.of(store, 3)
    actor = Actor(ActorConfig(scale=1, blocks=0, state=16), 16, 3, 4)
    pairs = labelled_pairs(actor, store, [0, 1])
    assert len(pairs.inputs) == 16 and pairs.inputs.shape[1] == 20
    training = dataclasses.replace(TINY.policy.decode, steps=200, batch=16, lr=1e-2, save_every=200, log_every=200)
    decoder = train_decoder(pairs, ActionDecoderConfig(discrete=3), space, training, CPU, tmp_path / "run", {})
    held = labelled_pairs(actor, store, [2, 3])
    assert torch.equal(decoder.act(held.inputs), held.actions)
    with pytest.raises(UserError, match="actions from 0 to 2"):
        ActionSpace.of(store, 2)
    with pytest.raises(UserError, match="discrete actions are one number each"):
        ActionSpace(6, 3)


def test_freed_memory_is_kept_with_glibc() -> None:
    assert keep_freed_memory() == (platform.libc_ver()[0] == "glibc")
