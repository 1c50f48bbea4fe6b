"""Latent action models trained, stopped, resumed, loaded and used; what is frozen; bad input."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.core.progress import Progress
from otflam.core.run import read_metrics
from otflam.data.clips import Clips
from otflam.data.derived import derived_folder
from otflam.data.store import Store
from otflam.experiments.studies import draw_predictions_of
from otflam.lam import method as methods
from otflam.lam.api import LatentActionModel
from otflam.lam.build import load_lam
from otflam.lam.features import Backbone, store_features
from otflam.lam.flam import FlamConfig
from otflam.lam.health import check_size
from otflam.lam.hilam import HilamConfig
from otflam.lam.label import label_store
from otflam.lam.lapo import LapoConfig
from otflam.lam.otf_lam import PixelConfig
from otflam.lam.otf_lam.codes import CodeLAM
from otflam.lam.otf_lam.model import DinoLAM
from otflam.lam.train import train_lam
from otflam.presets import get_preset
from otflam.report.predictions import draw_inside
from otflam.tokenizer.build import load_tokenizer, train_frame_tokenizer, train_tokenizer

METHODS = sorted({*methods.METHODS} - {"mask-lapo"})  # which needs a simulator's masks: tests/test_bottlenecks.py
TINY = get_preset("tiny")


@pytest.fixture(scope="module")
def store(square_store: Store) -> Store:
    return square_store


@pytest.fixture(scope="module")
def tokenizer(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tokenizer") / "otf"
    cpu, frames = Hardware(accelerator="cpu"), TINY.frame_tokenizer
    train_tokenizer(store, [0, 1], TINY.tokenizer, TINY.tokenizer_training, cpu, out)
    train_frame_tokenizer(store, [0, 1], frames, TINY.frame_training, cpu, out.with_name("frames"))
    low = TINY.lam["lapo-64"], TINY.lam_training["lapo-64"]
    train_lam("lapo-64", store, ([0, 1], [2, 3]), *low, cpu, out.with_name("low"))
    return out


def base_of(method: str, tokenizer: Path) -> Path | None:
    """What a method works on: beside the motion tokenizer lie the other ones."""
    names = {"frame tokenizer": "frames", "latent action model": "low", "motion tokenizer": "otf"}
    return None if (base := methods.METHODS[method].base) is None else tokenizer.with_name(names[base])


@pytest.fixture(scope="module")
def dino(save_dino: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny DINOv2 with random weights."""
    return save_dino(tmp_path_factory.mktemp("dino") / "dino")


def train(method: str, store: Store, tokenizer: Path, dino: Path, out: Path, **change: Any):
    config, backbone = TINY.lam[method], None
    if method == "otf-lam-dino":
        backbone = Backbone.load(str(dino), getattr(config, "size", 0))
    training = dataclasses.replace(TINY.lam_training[method], **change)
    cpu = Hardware(accelerator="cpu")
    return train_lam(method, store, ([0, 1], [2, 3]), config, training, cpu, out, base_of(method, tokenizer), backbone)


@pytest.mark.parametrize("method", METHODS)
def test_train_label_load_predict(method: str, store: Store, tokenizer: Path, dino: Path, tmp_path: Path) -> None:
    """The real entry points, with stop and resume, down to the pictures."""
    whole = train(method, store, tokenizer, dino, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        interrupt_at(4, method, store, tokenizer, dino, tmp_path / "parts")
    again = train(method, store, tokenizer, dino, tmp_path / "parts")
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    health = json.loads((tmp_path / "parts" / "health.json").read_text())
    assert health["error"] > 0 and health["verdict"]
    rows = [json.loads(line) for line in (tmp_path / "parts" / "metrics.jsonl").read_text().splitlines()]
    assert {"latent" if method == "hilam" else "next", "latent_rank", "check/error_shuffled"} <= rows[-1].keys()

    backbone = Backbone.load(str(dino), 28) if method == "otf-lam-dino" else None
    latents = label_store(store, tmp_path / "whole", backbone)
    loaded = LatentActionModel.from_pretrained(tmp_path / "whole", str(dino))
    clips = Clips(store, loaded.offsets, (), [1], {"latents": latents})
    batch = clips.gather(np.arange(3))
    found = loaded.infer(batch.frames)
    same = slice(None, getattr(TINY.lam[method], "width", None))  # HiLAM labels skills window by window (test_hilam.py)
    torch.testing.assert_close(found[:, same], batch.at("latents", 0)[:, same], rtol=1e-3, atol=1e-3)
    assert loaded.predict(batch.frames, found).isfinite().all()
    loaded.to("cpu").save_pretrained(tmp_path / "copy")
    copy = LatentActionModel.from_pretrained(tmp_path / "copy", str(dino))
    assert torch.equal(copy.infer(batch.frames), found)
    for wrong in (batch.frames[:, :1], batch.frames[:, :, :16, :16]):
        with pytest.raises(UserError, match=r"give a video \[time|model trained on"):
            loaded.infer(wrong)

    pictures = draw_predictions_of(store.path, tmp_path / "whole", backbone, 3, 3, tmp_path / "a.png")
    assert all(path.exists() for path in pictures)
    if method in ("flam-4", "flam-8", "hilam"):
        assert draw_inside(store, tmp_path / "whole", 3, None, tmp_path / "b.png").exists()
    else:
        with pytest.raises(UserError, match="neither slots nor skills"):
            draw_inside(store, tmp_path / "whole", 3, None, tmp_path / "b.png")


def interrupt_at(step: int, method: str, store: Store, tokenizer: Path, dino: Path, out: Path) -> None:
    config, left = TINY.lam[method], iter(range(step))
    backbone = Backbone.load(str(dino), getattr(config, "size", 0)) if method == "otf-lam-dino" else None

    class Stop(Progress):
        def advance(self, count: int = 1) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt

    train_lam(
        method, store, ([0, 1], [2, 3]), config, TINY.lam_training[method], Hardware(accelerator="cpu"), out,
        base_of(method, tokenizer), backbone, progress=Stop(),
    )  # fmt: skip


@pytest.mark.parametrize("method", ["otf-lam-pixel", "otf-lam-dino"])
def test_frozen_networks_are_frozen_and_not_called(
    method: str, store: Store, tokenizer: Path, dino: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stored codes and features a training step calls neither network, and neither changes by a bit."""
    train(method, store, tokenizer, dino, tmp_path / "first")  # stores what is frozen
    before = {name: tensor.clone() for name, tensor in load_tokenizer(tokenizer).state_dict().items()}

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a frozen network was called")

    backbone = Backbone.load(str(dino), 28)
    weights = {name: tensor.clone() for name, tensor in backbone.model.state_dict().items()}
    monkeypatch.setattr(Backbone, "__call__", refuse)
    monkeypatch.setattr("otflam.tokenizer.model.OTF.embed", refuse)
    answers = {"audit_zero": 0.0, "audit_transitions": 9.0}  # an audit draws other pictures
    monkeypatch.setattr("otflam.lam.train.audit", lambda *_: answers)
    model = train(method, store, tokenizer, dino, tmp_path / "second", seed=1)
    assert isinstance(model, CodeLAM)
    for name, tensor in model.tokenizer.state_dict().items():
        assert torch.equal(tensor, before[name]) or name == "recent", name
    if isinstance(model, DinoLAM) and model.backbone is not None:
        for name, tensor in model.backbone.model.state_dict().items():
            assert torch.equal(tensor, weights[name])


def test_stored_codes_and_codes_on_the_way_agree(store: Store, tokenizer: Path, dino: Path, tmp_path: Path) -> None:
    model = train("otf-lam-pixel", store, tokenizer, dino, tmp_path / "lam")
    parts = load_lam(tmp_path / "lam")[1]
    codes = Store(derived_folder(store, "codes", str(parts.base_hash)))
    stored = Clips(store, model.offsets, (), [3], {"codes": codes}).gather(np.arange(8))
    fresh = Clips(store, model.offsets, (), [3]).gather(np.arange(8))
    assert isinstance(model, CodeLAM)
    assert torch.equal(model.codes(stored), model.codes(fresh))


def test_bad_input(store: Store, tokenizer: Path, dino: Path, tmp_path: Path) -> None:
    config, training, cpu = TINY.lam["otf-lam-pixel"], TINY.lam_training["otf-lam-pixel"], Hardware(accelerator="cpu")
    split, out = ([0, 1], [2]), tmp_path / "lam"
    assert isinstance(config, PixelConfig)

    def refuse(match: str, config: Any, method: str = "otf-lam-pixel", **more: Any) -> None:
        with pytest.raises(UserError, match=match):
            train_lam(method, store, split, config, training, cpu, out, **({"base": tokenizer} | more))
        assert not out.exists()

    refuse("grid 14, the model expects 7", dataclasses.replace(config, grid=7))
    other = dataclasses.replace(config.motion, stride=3)
    refuse("stride 2, the model expects 3", dataclasses.replace(config, motion=other))
    other = dataclasses.replace(config.motion, transform="sobel")
    refuse("transform gradient, the model expects sobel", dataclasses.replace(config, motion=other))
    refuse("divisor of the grid", dataclasses.replace(config, cell=4))
    refuse("needs a trained tokenizer", config, base=None)
    refuse("FLAM needs a trained frame tokenizer", TINY.lam["flam-4"], "flam-4", base=None)
    refuse("is no frame tokenizer", TINY.lam["flam-4"], "flam-4")
    flam, low = TINY.lam["flam-4"], tokenizer.with_name("low")
    assert isinstance(flam, FlamConfig)
    frames = tokenizer.with_name("frames")
    refuse("--rounds 0: give at least 1", dataclasses.replace(flam, rounds=0), "flam-4", base=frames)
    refuse("a multiple of the slots", dataclasses.replace(flam, latent=10), "flam-4", base=frames)
    refuse("fewer than there are frames", dataclasses.replace(flam, ahead=4), "flam-4", base=frames)
    refuse("needs a trained low-level model", TINY.lam["hilam"], "hilam", base=None)
    refuse("set --width 8", HilamConfig(width=16, dim=8, heads=2), "hilam", base=low)
    refuse("each must be at least 2", HilamConfig(width=8, window=1), "hilam", base=low)
    refuse("--skill 0: give at least 1", HilamConfig(width=8, skill=0), "hilam", base=low)
    split = ([2, 3], [0])
    refuse("trained on episodes that are held out here", TINY.lam["hilam"], "hilam", base=low)
    refuse("trained on episodes that are held out here", flam, "flam-4", base=frames)
    split = ([0, 1], [2])
    refuse("did you mean 'lapo-128'", config, method="lapo-12")
    refuse("give --dino", TINY.lam["otf-lam-dino"], method="otf-lam-dino")
    backbone = Backbone.load(str(dino), 42)
    refuse(r"at 42 pixels has a 3×3 grid, expected 2×2", TINY.lam["otf-lam-dino"], "otf-lam-dino", backbone=backbone)
    refuse("no episode is long enough", LapoConfig(8, 1, 1, reach=40), "lapo-128")
    refuse("--reach 0: give at least 1", LapoConfig(8, 1, 1, reach=0), "lapo-128")
    heads = dataclasses.replace(config.abstraction, heads=3)
    refuse("3 attention heads for a width of 8", dataclasses.replace(config, abstraction=heads))


def test_a_model_without_its_backbone_says_so(
    store: Store, tokenizer: Path, dino: Path, save_dino: Callable[..., Path], tmp_path: Path
) -> None:
    train("otf-lam-dino", store, tokenizer, dino, tmp_path / "lam")
    clips = Clips(store, (0, 2)).gather(np.arange(2))
    with pytest.raises(UserError, match="give --dino"):
        LatentActionModel.from_pretrained(tmp_path / "lam").infer(clips.frames)
    other = save_dino(tmp_path / "other", seed=1)
    with pytest.raises(UserError, match="give the same backbone"):
        load_lam(tmp_path / "lam", Backbone.load(str(other), 28))


def test_dino_trains_with_its_backbone_in_every_step(store: Store, tokenizer: Path, dino: Path, tmp_path: Path) -> None:
    """As the paper preset does: nothing is stored, and the losses are those of stored features up to half precision."""
    backbone, out = Backbone.load(str(dino), 28), tmp_path / "online"
    config, training = TINY.lam["otf-lam-dino"], TINY.lam_training["otf-lam-dino"]
    split, cpu = ([0, 1], [2, 3]), Hardware(accelerator="cpu")
    train_lam("otf-lam-dino", store, split, config, training, cpu, out, tokenizer, backbone, online=True)
    train("otf-lam-dino", store, tokenizer, dino, tmp_path / "stored")
    losses = [[row["next"] for row in read_metrics(folder)] for folder in (out, tmp_path / "stored")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
    with pytest.raises(UserError, match="online differ"):
        train_lam("otf-lam-dino", store, split, config, training, cpu, out, tokenizer, backbone)


def test_stored_features_of_all_episodes_serve_any_of_them(store: Store, dino: Path) -> None:
    backbone = Backbone.load(str(dino), 28)
    whole = store_features(store, backbone)
    assert store_features(store, backbone, [1, 2]).path == whole.path


def test_short_trainings_have_short_checks() -> None:
    """A recorded training is judged as ever; checks of the tiny preset look at far less than it trains on."""
    for name in ("demo", "laptop", "paper"):
        for training in get_preset(name).lam_training.values():
            assert check_size(training.steps * training.batch) == (16, 64)
            assert check_size(training.save_every * training.batch, 2) == (2, 64)
    for training in TINY.lam_training.values():
        batches, size = check_size(training.save_every * training.batch, 2)
        assert batches * size <= training.save_every * training.batch / 2
        batches, size = check_size(training.steps * training.batch)
        assert batches * size <= training.steps * training.batch / 8


def test_two_processes_share_what_neither_has_stored(
    square_frames: Callable[[Path], Store], tokenizer: Path, dino: Path, tmp_path: Path
) -> None:
    store = square_frames(tmp_path / "fresh")
    words = command("otf-lam-pixel", store, tokenizer, dino, tmp_path / "two")
    words += ["--devices", "2", "--accelerator", "cpu"]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "two" / "model.safetensors").exists()


def command(method: str, store: Store, tokenizer: Path, dino: Path, out: Path) -> list[str]:
    words = [sys.executable, "-m", "otflam", "lam", "train", method, str(store.path)]
    words += ["--preset", "tiny", "--out", str(out), "--steps", "40"]
    if (base := base_of(method, tokenizer)) is not None:
        words += ["--low" if method == "hilam" else "--tokenizer", str(base)]
    return words + (["--dino", str(dino)] if method == "otf-lam-dino" else [])


def test_killed_training_ends_in_the_same_bits(
    store: Store, tokenizer: Path, dino: Path, killed_and_resumed: Callable[..., None]
) -> None:
    killed_and_resumed(lambda out: command("otf-lam-pixel", store, tokenizer, dino, out))


@pytest.mark.campaign
@pytest.mark.parametrize("method", METHODS)
def test_every_killed_training_ends_in_the_same_bits(
    method: str, store: Store, tokenizer: Path, dino: Path, killed_and_resumed: Callable[..., None]
) -> None:
    killed_and_resumed(lambda out: command(method, store, tokenizer, dino, out))


def test_frozen_networks_run_where_they_are_told(store: Store, tmp_path: Path) -> None:
    """On a device without memory everything is computed but the result cannot be fetched: so it was computed there."""
    config, training = TINY.lam["lapo-128"], TINY.lam_training["lapo-128"]
    train_lam("lapo-128", store, ([0, 1], [2]), config, training, Hardware(accelerator="cpu"), tmp_path / "lam")
    with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        label_store(store, tmp_path / "lam", None, [3], device=torch.device("meta"))
    assert len(label_store(store, tmp_path / "lam", None, [3])) == 1
