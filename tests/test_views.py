"""Other views of clips in training: all frames alike, masks with them, nothing that was stored of others."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from otflam.core.augment import warp_clips
from otflam.core.batch import Batch
from otflam.core.config import Hardware
from otflam.core.progress import Progress
from otflam.data.masks import MASKS
from otflam.data.store import Store
from otflam.lam.labels import Labels, with_labels
from otflam.lam.train import train_lam
from otflam.lam.views import Views, seen
from otflam.presets import get_preset
from otflam.tokenizer.build import train_tokenizer

TINY, CPU = get_preset("tiny"), Hardware(accelerator="cpu")


def clips(count: int = 6, size: int = 32) -> Batch:
    """The same picture twice, its mask, and what somebody stored of it."""
    frames = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (count, 1, size, size, 3), np.uint8))
    masks = (frames[..., 0] > 127).to(torch.uint8)
    columns = {MASKS: masks.repeat(1, 2, 1, 1), "codes": torch.zeros(count, 2, 4), "actions": torch.ones(count, 2, 1)}
    return Batch(frames.repeat(1, 2, 1, 1, 1), (0, 2), columns)


@pytest.mark.parametrize("views", ["shift", "warp"])
def test_all_frames_of_a_clip_alike(views: Views) -> None:
    torch.manual_seed(0)
    batch = clips()
    other = seen(batch, views)
    assert torch.equal(other.frames[:, 0], other.frames[:, 1]) and not torch.equal(other.frames, batch.frames)
    assert other.frames.dtype == torch.uint8 and other.frames.shape == batch.frames.shape
    assert set(other.columns) == {MASKS, "actions"}  # codes were of other pictures
    moved = (other.frames != batch.frames).flatten(1).any(1)
    assert len({tuple(frame.flatten().tolist()) for frame in other.frames[moved, 0]}) == int(moved.sum()) > 1
    if views == "shift":  # pixels are copied, so that masks can be checked against them
        assert torch.equal(other.columns[MASKS], (other.frames[..., 0] > 127).to(torch.uint8))
    else:
        still = ~moved
        assert torch.equal(other.columns[MASKS][still], batch.columns[MASKS][still])
    torch.manual_seed(0)
    assert torch.equal(seen(batch, views).frames, other.frames)
    assert torch.equal(batch.frames, clips().frames)


def test_a_mask_turns_with_its_frame() -> None:
    """Large areas: the mask of a turned picture is the turned mask, but for its edges."""
    picture = torch.zeros(8, 1, 32, 32, 3, dtype=torch.uint8)
    picture[:, :, 4:20, 8:28] = 255
    batch = Batch(picture, (0,), {MASKS: (picture[..., 0] > 127).to(torch.uint8)})
    torch.manual_seed(3)
    other = warp_clips(batch, MASKS)
    agree = (other.columns[MASKS] == (other.frames[..., 0] > 127)).float().mean()
    assert agree > 0.97 and not torch.equal(other.frames, picture)


@pytest.mark.parametrize(
    ("method", "views"),
    [("lapo-128", "warp"), ("mask-lapo", "shift"), ("mask-lapo", "warp"), ("otf-lam-pixel", "shift")],
)
def test_trained_on_other_views(method: str, views: Views, noisy_store: Store, tmp_path: Path) -> None:
    """Other weights than without; stopped and continued to the same bits; with labels too; its folder says so."""
    base = None
    if method.startswith("otf"):
        base = tmp_path / "tokenizer"
        train_tokenizer(noisy_store, [0, 1], TINY.tokenizer, TINY.tokenizer_training, CPU, base)
    training = with_labels(TINY.lam_training[method], 0.5)
    facts = (TINY.lam[method], training, CPU)

    def train(out: str, views: Views, progress: Progress | None = None) -> bytes:
        parts, heard = ([0, 1, 2, 3], [7]), Labels((4,))
        train_lam(
            method, noisy_store, parts, *facts, tmp_path / out, base, None, False, progress or Progress(), heard, views
        )
        return (tmp_path / out / "model.safetensors").read_bytes()

    left = iter(range(4))

    class Stop(Progress):
        def advance(self, count: int = 1) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt

    shifted, plain = train("shifted", views), train("plain", "none")
    with pytest.raises(KeyboardInterrupt):
        train("stopped", views, Stop())
    assert train("stopped", views) == shifted != plain
    about = json.loads((tmp_path / "shifted" / "config.json").read_text())
    assert about["views"] == views
    assert "views" not in json.loads((tmp_path / "plain" / "config.json").read_text())
    assert dataclasses.asdict(TINY.lam_training[method])["weights"].get("labels") is None
