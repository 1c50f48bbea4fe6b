"""Latent action models: the paper's equations against plain ones, what each half may see, and health."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from otflam.core.batch import Batch
from otflam.core.nn import Doubling, Pointwise
from otflam.data.clips import Clips
from otflam.data.store import Store
from otflam.lam import method as methods
from otflam.lam.build import build_lam
from otflam.lam.features import Backbone
from otflam.lam.health import check_health, verdict
from otflam.lam.lapo import LapoConfig
from otflam.lam.lapo.model import FactorisedLapo, Lapo
from otflam.lam.model import Parts, effective_rank
from otflam.lam.otf_lam import AbstractionConfig, PixelConfig
from otflam.lam.otf_lam.codes import ActionAbstraction, merge_cells
from otflam.lam.otf_lam.model import DinoLAM, PixelLAM
from otflam.presets import PRESETS, get_preset
from otflam.report.predictions import roll_out
from otflam.tokenizer.build import build_tokenizer
from otflam.tokenizer.frames import FrameTokenizer

METHODS = sorted(methods.METHODS)
TINY = get_preset("tiny")


@pytest.fixture
def store(square_store: Store) -> Store:
    return square_store


@pytest.fixture(scope="module")
def dino(save_dino: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny DINOv2 with random weights."""
    return save_dino(tmp_path_factory.mktemp("dino") / "dino")


def parts_for(method: str, preset: str, dino: Path | None = None) -> Parts:
    """Frames and untrained frozen networks of a preset's size."""
    chosen = get_preset(preset)
    pixels = chosen.collection.world.size
    otf = methods.METHODS[method].base == "motion tokenizer"
    backbone = None
    if method == "otf-lam-dino" and dino is not None:
        backbone = Backbone.load(str(dino), getattr(chosen.lam[method], "size", 0))
    parts = Parts((pixels, pixels, 3), backbone=backbone, width=None if backbone is None else backbone.width)
    if method == "hilam":
        low = build_lam("lapo-64", chosen.lam["lapo-64"], parts)
        return dataclasses.replace(parts, base=low, base_hash="hash")
    if methods.METHODS[method].base == "frame tokenizer":
        return dataclasses.replace(parts, base=FrameTokenizer(chosen.frame_tokenizer), base_hash="hash")
    return dataclasses.replace(parts, base=build_tokenizer(chosen.tokenizer) if otf else None)


def random_batch(offsets: tuple[int, ...], size: int, count: int = 4, **columns: torch.Tensor) -> Batch:
    frames = np.random.default_rng(0).integers(0, 256, (count, len(offsets), size, size, 3), np.uint8)
    return Batch(torch.from_numpy(frames), offsets, columns)


def test_action_abstraction_against_plain_attention() -> None:
    """C.1 spelled out: u = φ_in([s, c, p]), H = Q + CrossAttn(LN Q, LN U, LN U), z = φ_out(Flatten(Transformer(H)))."""
    torch.manual_seed(0)
    config = AbstractionConfig(5, queries=3, dim=8, heads=2, depth=2, mlp=16)
    module = ActionAbstraction(config, 6, 4, 10).eval()
    oracle = nn.MultiheadAttention(8, 2, batch_first=True)
    layers = [nn.TransformerEncoderLayer(8, 2, 16, 0.0, F.gelu, batch_first=True, norm_first=True) for _ in range(2)]
    copy_attention(module.read, oracle)
    for layer, block in zip(layers, module.mix, strict=True):
        copy_attention(block.attend, layer.self_attn)
        for ours, theirs in ((block.attend_norm, layer.norm1), (block.think_norm, layer.norm2)):
            theirs.load_state_dict(ours.state_dict())
        layer.linear1.load_state_dict(block.think[0].state_dict())
        layer.linear2.load_state_dict(block.think[3].state_dict())
    state, code = torch.randn(2, 10, 6), torch.randn(2, 10, 4)
    tokens = module.enter(torch.cat([state, code, module.places.expand(2, -1, -1)], -1))
    queries = module.queries.expand(2, -1, -1)
    hidden = queries + oracle(module.query_norm(queries), *2 * [module.token_norm(tokens)])[0]
    for layer in layers:
        hidden = layer.train()(hidden)  # without dropout the same as in evaluation, but not the fused kernel
    torch.testing.assert_close(module(state, code), module.leave(hidden.flatten(1)))


def copy_attention(ours, theirs: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in (ours.query, ours.key, ours.value)]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in (ours.query, ours.key, ours.value)]))
        theirs.out_proj.load_state_dict(ours.out.state_dict())


def test_cells_hold_the_codes_of_their_patches() -> None:
    vectors = torch.arange(16.0).view(1, 16, 1)
    assert merge_cells(vectors, 2, 2)[0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert torch.equal(merge_cells(vectors, 4, 1), vectors)


def test_lapo_has_laoms_parameters() -> None:
    with torch.device("meta"):
        model = Lapo(LapoConfig(8192, 6, 2), 64, 3)
    assert sum(parameter.numel() for parameter in model.parameters()) == 211_847_849


@pytest.mark.parametrize("method", METHODS)
def test_paper_preset_takes_two_steps(method: str, save_dino: Callable[..., Path], tmp_path: Path) -> None:
    """At batch 4, with the real widths; DINOv2-small's shape with random weights."""
    folder = save_dino(tmp_path / "dino", hidden=384, layers=1, heads=6) if method == "otf-lam-dino" else None
    torch.manual_seed(0)
    model = build_lam(method, PRESETS["paper"].lam[method], parts_for(method, "paper", folder)).train()
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    masks = torch.ones(4, len(model.training_offsets), 64, 64)
    clip, losses = random_batch(model.training_offsets, 64, masks=masks), []
    for _ in range(2):
        loss = sum(model(clip).losses.values())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert np.isfinite(losses).all() and losses[0] != losses[1]


@pytest.mark.parametrize("method", ["otf-lam-pixel", "otf-lam-dino"])
def test_the_loss_is_the_error_of_the_future(method: str, dino: Path) -> None:
    """L_Pixel over the pixels of the future frame, L_DINO over its features, with the latent that has seen it."""
    model = build_lam(method, TINY.lam[method], parts_for(method, "tiny", dino)).eval()
    clip = random_batch(model.training_offsets, 32)
    truth = clip.images(model.stride) if method == "otf-lam-pixel" else model.future(clip)
    expected = (model.predict(clip, model.infer(clip)) - truth).square().mean()
    torch.testing.assert_close(model(clip).losses["next"], expected)


def test_codes_reach_dinos_predictor_only_through_the_latent(dino: Path) -> None:
    model = build_lam("otf-lam-dino", TINY.lam["otf-lam-dino"], parts_for("otf-lam-dino", "tiny", dino)).eval()
    assert isinstance(model, DinoLAM)
    width, side = parts_for("otf-lam-dino", "tiny", dino).width, model.config.side
    features = torch.randn(4, 2, side**2, width or 0)
    latent = torch.randn(4, model.latent)
    futures = []
    for seed in range(2):
        codes = torch.randint(0, 64, (4, 2, 196), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
        futures.append(model.predict(random_batch((0, 2), 32, codes=codes, features=features), latent))
    assert torch.equal(*futures)


@pytest.mark.parametrize("method", ["lapo-128", "m-lapo", "f-lapo"])
def test_lapos_forward_half_sees_the_present_and_the_latent_only(method: str) -> None:
    model = build_lam(method, TINY.lam[method], parts_for(method, "tiny"))
    model(random_batch(model.training_offsets, 32))  # a codebook starts with its first batch
    model.eval()
    batch = random_batch(model.offsets, 32)
    other = batch.frames.clone()
    other[:, [place for place, offset in enumerate(model.offsets) if offset > 0]] = 7
    changed, latent = Batch(other, batch.offsets, {}), torch.randn(4, 128)
    assert torch.equal(model.predict(batch, latent), model.predict(changed, latent))
    assert not torch.equal(model.infer(batch), model.infer(changed))


def test_lapo_looks_further_ahead_only_in_training() -> None:
    torch.manual_seed(0)
    model = Lapo(LapoConfig(8, 1, 1, reach=3), 32, 3)
    batch = random_batch(model.training_offsets, 32, count=64)
    assert model.training_offsets == (-2, -1, 0, 1, 2, 3) and model.offsets == (-2, -1, 0, 1)
    near = 2 * batch.stack(1, 3) - 1
    assert torch.equal(model.eval().observe(batch).ahead, near)
    ahead = model.train().observe(batch).ahead
    stacks = torch.stack([2 * batch.stack(offset, 3) - 1 for offset in (1, 2, 3)])
    which = (stacks == ahead).flatten(2).all(-1)
    assert which.any(0).all() and which.sum(1).min() > 8


def test_motion_enters_m_lapos_inverse_half() -> None:
    plain, told = (build_lam(name, TINY.lam[name], parts_for(name, "tiny")).eval() for name in ("lapo-128", "m-lapo"))
    batch = random_batch(told.offsets, 32)
    assert plain.observe(batch).motion is None
    seen = told.observe(batch)
    assert seen.motion.shape == (4, 3, 32, 32) and seen.motion.abs().sum() > 0
    unmoved = seen._replace(motion=torch.zeros_like(seen.motion))
    assert not torch.equal(told.infer_latent(seen), told.infer_latent(unmoved))


def test_f_lapos_latent_is_made_of_one_code_a_patch() -> None:
    """So that a change too small for another code changes nothing, and one in a patch only the code there."""
    model = build_lam("f-lapo", TINY.lam["f-lapo"], parts_for("f-lapo", "tiny"))
    assert isinstance(model, FactorisedLapo)
    model(random_batch(model.training_offsets, 32))  # the codebook starts with its first batch
    seen, patches = model.eval().observe(random_batch(model.offsets, 32)), model.config.grid**2
    latent, quantized = model.quantise(seen)
    codes = quantized.codes.view(4, patches)
    expected = model.out(model.codebook.vectors[codes].flatten(1))
    torch.testing.assert_close(latent, expected)
    other = seen.ahead.clone()
    other[:, :, :2, :2] = -other[:, :, :2, :2]
    changed = model.quantise(seen._replace(ahead=other))[1].codes.view(4, patches)
    grid = (changed != codes).any(0).view(model.config.grid, -1)
    assert not grid[3:].any() and not grid[:, 3:].any()


def test_residual_prediction_starts_from_the_frame() -> None:
    parts = parts_for("otf-lam-pixel", "tiny")
    config = TINY.lam["otf-lam-pixel"]
    assert isinstance(config, PixelConfig)
    batch, guesses = random_batch((0, 2), 32), []
    for residual in (True, False):
        torch.manual_seed(0)
        model = PixelLAM(dataclasses.replace(config, residual=residual), parts.base, 32, 3).eval()
        guesses.append(model.predict(batch, torch.zeros(4, model.latent)))
    torch.testing.assert_close(guesses[0] - guesses[1], batch.images(0))


def test_effective_rank_against_eigenvalues() -> None:
    torch.manual_seed(0)
    for shape in ((40, 6), (5, 30)):
        latent = torch.randn(*shape) * torch.linspace(0.1, 3, shape[1])
        values = torch.linalg.eigvalsh(torch.cov(latent.T)).clamp_min(0)
        torch.testing.assert_close(effective_rank(latent), values.sum() ** 2 / values.square().sum())


class Oracle(Lapo):
    """Knows the future by heart: its latent is the future frame."""

    def infer_latent(self, seen):
        return seen.ahead[:, -3:].flatten(1)

    def predict_future(self, seen, latent):
        return (latent.view(-1, 3, 32, 32) + 1) / 2


def test_health_of_known_models(store: Store) -> None:
    clips = Clips(store, (-2, -1, 0, 1))
    perfect = check_health(Oracle(LapoConfig(8, 1, 1, reach=1), 32, 3), clips, 2)
    assert perfect["error"] == pytest.approx(0, abs=1e-9) and perfect["gain_over_shuffled"] == pytest.approx(1)
    assert verdict(perfect).startswith("healthy")
    batch = clips.batch(64, 12345, 0)
    again = clips.batch(64, 12345, 1)
    copied = np.mean([F.mse_loss(b.images(0), b.images(1)).item() for b in (batch, again)])
    assert perfect["error_copied"] == pytest.approx(copied, rel=1e-5)
    assert verdict(perfect | {"gain_over_shuffled": 0.1}).startswith("weak")
    assert verdict(perfect | {"latent_rank": 1.2}).startswith("collapsed")
    assert "worse than copying" in verdict(perfect | {"gain_over_copied": -0.1})


class Drift(Lapo):
    """Imagines each frame of the stack as the present one plus a hundredth."""

    def infer_latent(self, seen):
        return seen.now.new_zeros(len(seen.now), 8)

    def predict_stack(self, seen, latent):
        return seen.now + 0.02


@pytest.mark.parametrize("stride", [1, 2])
def test_rollout_uses_what_it_imagined_and_nothing_else(store: Store, stride: int) -> None:
    """Frames after the start do not matter, and every step builds on the one before."""
    model = Drift(LapoConfig(8, 1, 1, stride=stride, reach=1), 32, 3)
    clips = Clips(store, model.offsets, (), [0])
    _, imagined = roll_out(model, clips, 3, 4)
    first = clips.gather(np.array([3])).images(0)[0]
    for step, frame in enumerate(imagined):
        expected = (first + 0.01 * (step + 1)).clamp(0, 1 + 0.01)
        torch.testing.assert_close(frame, expected, atol=0.003 * (step + 1), rtol=0)


def test_pixels_forward_half_sees_the_present_and_the_latent_only() -> None:
    """Without modulation by code usage, as in the laptop preset; with it, the usage of codes comes in as well."""
    config, parts = TINY.lam["otf-lam-pixel"], parts_for("otf-lam-pixel", "tiny")
    assert isinstance(config, PixelConfig)
    for usage, alike in ((0, True), (4, False)):
        torch.manual_seed(0)
        model = PixelLAM(dataclasses.replace(config, usage=usage), parts.base, 32, 3).eval()
        latent, futures = torch.randn(4, model.latent), []
        for seed in range(2):
            codes = torch.randint(0, 64, (4, 2, 196), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
            futures.append(model.predict(random_batch((0, 2), 32, codes=codes), latent))
        assert torch.equal(*futures) == alike


@pytest.mark.parametrize(("ours", "plain"), [(Pointwise, (nn.Conv2d, 1, 1)), (Doubling, (nn.ConvTranspose2d, 2, 2))])
def test_convolutions_as_matrix_products_are_those_of_torch(ours: type[nn.Module], plain: tuple) -> None:
    """The same numbers and gradients, and weights that either can load."""
    kind, kernel, stride = plain
    mine, other = ours(6, 5), kind(6, 5, kernel, stride)
    other.load_state_dict(mine.state_dict())
    images = [torch.randn(3, 6, 4, 8).requires_grad_() for _ in range(2)]
    images[1].data.copy_(images[0].data)
    for model, image in zip((mine, other), images, strict=True):
        model(image.contiguous(memory_format=torch.channels_last)).square().sum().backward()
    torch.testing.assert_close(mine(images[0]), other(images[0]))
    torch.testing.assert_close(images[0].grad, images[1].grad)
    for name, weight in mine.named_parameters():
        torch.testing.assert_close(weight.grad, other.get_parameter(name).grad)
