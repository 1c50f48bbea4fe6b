"""Audits: latents that follow the change, the scene or nothing are told apart, and so is whose motion they tell of."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from otflam import cli
from otflam.core.batch import Batch
from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.data.clips import Clips
from otflam.data.collect import collect_episodes
from otflam.data.masks import MASKS, mask_column
from otflam.data.options import Collection
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter
from otflam.envs.environment import AGENT, RIVAL
from otflam.envs.world import World
from otflam.lam.audit import (
    AUDITS,
    SHIFT,
    audit,
    audit_trained,
    audit_verdict,
    exchanged,
    frozen_future,
    shifted,
    without_motion_of,
)
from otflam.lam.model import LAM, Latents
from otflam.lam.train import train_lam
from otflam.presets import get_preset

TINY = get_preset("tiny")


class Says(LAM):
    """A model whose latent is a share of the change and a share of the present."""

    stride, offsets, training_offsets, latent = 2, (0, 2), (0, 2), 3 * 8 * 8

    def __init__(self, change: float, scene: float) -> None:
        super().__init__()
        self.shares = torch.nn.Parameter(torch.tensor([float(change), float(scene)]))

    @classmethod
    def build(cls, config: Any, parts: Any) -> Says:
        return cls(1.0, 0.0)

    def observe(self, batch: Batch) -> tuple[Tensor, Tensor]:
        now, then = (F.adaptive_avg_pool2d(batch.images(offset), 8).flatten(1) for offset in self.offsets)
        return now, then - now

    def infer_latent(self, seen: tuple[Tensor, Tensor]) -> Latents:
        return self.shares[0] * seen[1] + self.shares[1] * seen[0] + 5.0  # what is always said says nothing

    def predict_future(self, seen: Any, latent: Latents) -> Tensor:
        return latent

    def present(self, seen: tuple[Tensor, Tensor]) -> Tensor:
        return seen[0]


def clips_of(store: Store) -> Clips:
    return Clips(store, Says.offsets)


def test_what_is_told(square_store: Store) -> None:
    """The change alone, the scene alone, both, nothing: each answer as it must be, and a verdict that names it."""
    clips = clips_of(square_store)
    change, scene, both, nothing = (audit(Says(*shares), clips) for shares in ((1, 0), (0, 1), (1, 0.5), (0, 0)))
    assert change["audit_zero"] < 1e-3 and change["audit_shortcut"] < 0.3  # bytes end at 255
    assert scene["audit_zero"] == pytest.approx(1, abs=1e-3) and scene["audit_shortcut"] > 0.7
    assert change["audit_zero"] < both["audit_zero"] < scene["audit_zero"]
    assert nothing == dict.fromkeys(list(AUDITS)[:3], 1.0) | {"audit_transitions": change["audit_transitions"]}
    assert audit_verdict(nothing) == "latents that never differ tell nothing"
    assert "too few" in audit_verdict(change | {"audit_transitions": 7.0})
    assert audit_verdict(change) == "0 % of the latents' spread is left when nothing happens"
    assert "untrained" in audit_verdict(scene | {"audit_shift": 0.5}) and "untrained" not in audit_verdict(both)
    assert audit(Says(1, 0), clips) == change  # the same clips every time


def test_who_only_counts_hardly_minds_a_shift(square_store: Store) -> None:
    class Counts(Says):
        def observe(self, batch: Batch) -> tuple[Tensor, Tensor]:
            now, then = (batch.images(offset) for offset in self.offsets)
            moved = (then - now).abs().mean((2, 3)).repeat(1, 64)  # how much moves, wherever
            return moved, moved

    placed, counted = (audit(model(1, 0), clips_of(square_store))["audit_shift"] for model in (Says, Counts))
    assert counted < placed / 2


def test_clips_drawn_otherwise() -> None:
    frames = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 4, 9, 9, 3), np.uint8))
    moved = shifted(frames)
    torch.testing.assert_close(moved[:, :, SHIFT:, SHIFT:], frames[:, :, :-SHIFT, :-SHIFT])
    torch.testing.assert_close(moved[:, :, :SHIFT, SHIFT:], frames[:, :, :1, :-SHIFT].expand(-1, -1, SHIFT, -1, -1))
    batch = Batch(frames // 3 + 80, (-1, 0, 1, 2), {"codes": torch.zeros(3, 4)})
    mixed = exchanged(batch)
    assert not mixed.columns  # what frozen networks said was of other frames
    torch.testing.assert_close(mixed.frames[:, :2], batch.frames[:, :2].roll(-1, 0))
    wanted = batch.frames[[1, 2, 0], 1].int() + batch.frames[:, 3].int() - batch.frames[:, 1].int()
    torch.testing.assert_close(mixed.frames[:, 3].int(), wanted.clamp(0, 255))


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Store:
    world = World("cheetah-run", "vanilla", size=32, rival="walker-run", rival_noise=0.4)
    return collect_episodes(Collection(world, episodes=4, steps=24), tmp_path_factory.mktemp("beside") / "data", 1)


def test_whose_motion(beside: Store) -> None:
    """A body that is held still keeps its pixels; a model that sees one body only tells of that one's motion."""
    masks = mask_column(beside)
    clips = Clips(beside, Says.offsets, (), None, {MASKS: masks})
    batch = clips.batch(16, 0, 0)
    held = without_motion_of(batch, "rival")
    owners = batch.columns[MASKS]
    rivals = (owners[:, 0] == RIVAL) | (owners[:, 1] == RIVAL)
    assert rivals.any() and (owners == AGENT).any()
    torch.testing.assert_close(held.frames[:, 1][rivals], batch.frames[:, 0][rivals])
    torch.testing.assert_close(held.frames[:, 1][~rivals], batch.frames[:, 1][~rivals])

    class Looks(Says):
        body = AGENT

        def observe(self, batch: Batch) -> tuple[Tensor, Tensor]:
            # Pixels that are of nobody else, now or then: where both overlap, holding one still moves the other.
            owners = batch.columns[MASKS]
            mine = ((owners == self.body) | (owners == 0)).all(1)[:, None]
            now, then = (F.adaptive_avg_pool2d(batch.images(o) * mine, 8).flatten(1) for o in self.offsets)
            return now, then - now

    class LooksAside(Looks):
        body = RIVAL

    agent, rival, all_of_it = (audit(model(1, 0), clips)["audit_rival"] for model in (Looks, LooksAside, Says))
    assert agent < 0.05 < all_of_it < 0.95 < rival


def test_every_training_is_audited(beside: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, parts = tmp_path / "lam", ([0, 1], [2, 3])
    training = dataclasses.replace(TINY.lam_training["lapo-128"], steps=2)
    train_lam("lapo-128", beside, parts, TINY.lam["lapo-128"], training, Hardware(accelerator="cpu"), out)
    health = json.loads((out / "health.json").read_text())
    assert set(list(AUDITS)[:3]) <= set(health) and "audit_rival" not in health  # masks cost time
    cli.main(["lam", "audit", str(beside.path), "--lam", str(out)])
    printed = capsys.readouterr().out
    assert all(name in printed for name in AUDITS) and "latents" in printed.splitlines()[-1]


def test_columns_of_somebody_s_own_dataset(square_store: Store) -> None:
    """What is said of a whole clip is left out of audits, and does not stop them."""
    batch = clips_of(square_store).batch(4, 0, 0)
    odd = batch._replace(columns={"label": torch.arange(4), "action": torch.zeros(4, 5), "depth": torch.zeros(4, 2, 3)})
    assert set(frozen_future(odd).columns) == {"depth"}
    assert torch.equal(frozen_future(odd).frames[:, 1], batch.frames[:, 0])


def test_bad_input_is_one_line(beside: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="has no frames"):
        writer = StoreWriter(tmp_path / "bare", {"actions": Column("float32", (2,))}, {})
        writer.append(0, {"actions": np.zeros((5, 2), np.float32)}, {})
        audit_trained(writer.finish({}, 1), tmp_path / "lam")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["lam", "audit", str(beside.path), "--lam", str(tmp_path / "nowhere")])
    assert capsys.readouterr().err.count("\n") == 1
