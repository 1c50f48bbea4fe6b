"""The tokenizer: the paper's equations against plain implementations, a library as oracle, and its files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from otflam.commands.tokenizer import rebase
from otflam.core.batch import Batch
from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.data.clips import Clips
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter
from otflam.evaluate.codes import ablations, factor_metrics, mutual_information, perplexity, reconstruction
from otflam.motion.config import MotionConfig
from otflam.presets import get_preset
from otflam.report.progress import ProgressBar
from otflam.tokenizer.api import Tokenizer
from otflam.tokenizer.build import (
    build_tokenizer,
    collapse_warning,
    encode_store,
    encode_with,
    load_tokenizer,
    motion_clips,
    train_tokenizer,
)
from otflam.tokenizer.config import CodebookConfig, DecoderConfig, TokenizerConfig
from otflam.tokenizer.decoder import Decoder
from otflam.tokenizer.model import OTF, bits_per_token, code_weights, count_codes

SMALL = TokenizerConfig(
    codebook=CodebookConfig(8, 6),
    decoder=DecoderConfig(width=12, reference=5),
    grid=4,
    patch=3,
    hidden=16,
    descriptor=7,
    warmup=3,
)


def batch(offsets: tuple[int, ...] = (0, 2), size: int = 16, count: int = 5, seed: int = 0) -> Batch:
    frames = np.random.default_rng(seed).integers(0, 256, (count, len(offsets), size, size, 3), np.uint8)
    return Batch(torch.from_numpy(frames), offsets, {})


@pytest.fixture
def otf() -> OTF:
    """A tokenizer past its warm-up."""
    torch.manual_seed(0)
    model = OTF(SMALL)
    for seed in range(6):
        model(batch(seed=seed))
    return model


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A bright square that runs over noise."""
    writer = StoreWriter(tmp_path_factory.mktemp("tokenizer") / "data", {"frames": Column("uint8", (16, 16, 3))}, {})
    for index in range(4):
        frames = np.random.default_rng(index).integers(0, 60, (1, 16, 16, 3), np.uint8).repeat(20, 0)
        for t in range(20):
            frames[t, 4 + index : 9 + index, t % 12 : t % 12 + 4] = 255
        writer.append(index, {"frames": frames}, {})
    return writer.finish({}, 4)


def test_descriptors_are_the_papers_sum_over_factors(otf: OTF) -> None:
    """H(u, v) = Σ_k M_k(u, v) ρ(c_k, w_k), computed with explicit occupancy maps for every code."""
    frame, signal = otf.eval().observe(batch())
    codes = otf.encode(signal, frame)
    factors = otf.factors(codes, rows=4)
    assert factors.occupancy.shape == (5, 8, 4, 4) and torch.equal(factors.occupancy.sum(1), torch.ones(5, 4, 4))
    torch.testing.assert_close(factors.weights, factors.occupancy.mean((2, 3)))
    rho = otf.rho(torch.cat([factors.vectors.expand(5, -1, -1), factors.weights[..., None]], -1))
    expected = torch.einsum("bkuv,bke->buve", factors.occupancy, rho).flatten(1, 2)
    torch.testing.assert_close(otf.describe(otf.codebook.vectors[codes], codes), expected)
    torch.testing.assert_close(code_weights(codes, 8), factors.weights)
    assert otf.redraw(codes, frame).shape == signal.shape


def test_patches_are_encoded_alone_with_their_place(otf: OTF) -> None:
    """Changing one patch changes its token only; the same content elsewhere gives another token."""
    _, signal = otf.observe(batch())
    before = otf.embed(signal)
    changed = signal.clone()
    changed[:, :, 3:6, 6:9] += 1
    moved = (otf.embed(changed) - before).abs().amax((0, 2)) > 1e-6
    assert moved.nonzero().flatten().tolist() == [6]
    same = otf.embed(torch.ones_like(signal))
    assert (same[:, 0] - same[:, 5]).abs().max() > 1e-4


def test_warm_up_then_kmeans_then_codes() -> None:
    torch.manual_seed(0)
    model = OTF(SMALL)
    for step in range(5):
        terms = model(batch(seed=step))
        assert set(terms.losses) == {"rec", "code", "commit", "orth"}
        assert (terms.losses["commit"] > 0) == (step >= 3) == bool(terms.metrics)
    assert terms.metrics["active"] > 1 and not terms.losses["code"].requires_grad
    model.eval()
    assert not model(batch()).losses["orth"].requires_grad


@pytest.mark.parametrize("shape", ["subpixel", "bilinear"])
@pytest.mark.parametrize("reference", [0, 6])
def test_decoders(shape: str, reference: int) -> None:
    decoder = Decoder(DecoderConfig(shape, 8, reference), 4, 5, 3, 2)
    descriptors, frame = torch.randn(2, 4, 3, 6), torch.rand(2, 3, 15, 30)
    assert decoder(descriptors, frame).shape == (2, 2, 15, 30)
    depends = not torch.equal(decoder(descriptors, frame), decoder(descriptors, 1 - frame))
    assert depends == bool(reference)


def test_the_paper_preset_is_the_public_model_and_takes_steps() -> None:
    config = get_preset("paper").tokenizer
    model = build_tokenizer(config)
    # 292,675 in the public code with K=64, less a projection for its warm-up, less the codebook, here no parameter.
    assert sum(p.numel() for p in model.parameters()) == 292_675 - (32 * 64 + 64 + 64 * 64 + 64) - 64 * 32
    optimiser = torch.optim.AdamW(model.parameters(), 1e-4)
    for seed in range(2):
        optimiser.zero_grad()
        model(batch(size=64, count=2, seed=seed)).losses["rec"].backward()
        optimiser.step()


def test_monolithic_has_the_same_bits_and_sees_everything() -> None:
    torch.manual_seed(0)
    model = build_tokenizer(dataclasses.replace(SMALL, method="monolithic", whole=32))
    frame, signal = model.observe(batch())
    tokens = model.embed(signal)
    assert tokens.shape == (5, 16, 6)  # as many vectors as OTF has patches, with as many codes
    changed = signal.clone()
    changed[:, :, :3, :3] += 1
    assert ((model.embed(changed) - tokens).abs().amax((0, 2)) > 1e-7).all()
    assert model.redraw(model.encode(signal, frame), frame).shape == signal.shape


def test_wide_frames_get_a_wider_grid(otf: OTF) -> None:
    frames = torch.rand(1, 3, 20, 45)
    assert otf.resize(frames).shape == (1, 3, 12, 27)
    assert otf.resize(torch.rand(1, 3, 12, 12)).shape == (1, 3, 12, 12)


def test_training_encoding_and_loading(store: Store, tmp_path: Path) -> None:
    train = dataclasses.replace(get_preset("tiny").tokenizer_training, steps=120, lr=5e-3, log_every=20)
    out = tmp_path / "tokenizer"
    bar = ProgressBar("train", "steps")
    model, rows = train_tokenizer(store, [0, 1, 2], SMALL, train, Hardware(), out, bar), bar.rows
    assert rows[-1]["rec"] < 0.7 * rows[0]["rec"] and rows[-1]["step"] == 120
    loaded = load_tokenizer(out)
    kept = {name: value for name, value in model.state_dict().items() if name not in model.transient}
    assert kept and all(torch.equal(value, loaded.state_dict()[name]) for name, value in kept.items())
    codes = encode_store(store, out)
    assert codes["codes"].shape == (80, 16) and codes["codes"].dtype == np.uint8
    frame, signal = loaded.observe(motion_clips(store, SMALL, [2]).gather(np.array([5])))
    np.testing.assert_array_equal(codes.episode(2, "codes")[5], loaded.encode(signal, frame)[0])
    assert not codes.episode(0, "codes")[-2:].any()
    frames, every = loaded.observe(motion_clips(store, SMALL, [2]).gather(np.arange(18)))
    np.testing.assert_array_equal(codes.episode(2, "codes")[:18], loaded.encode(every, frames))
    assert encode_store(store, out).path == codes.path
    assert train_tokenizer(store, [0, 1, 2], SMALL, train, Hardware(), out).config == SMALL  # found, not trained again
    with pytest.raises(UserError, match=r"holds another training \(train differ\)"):
        train_tokenizer(store, [0, 1, 2], SMALL, dataclasses.replace(train, lr=0.5), Hardware(), out)
    metrics = reconstruction(loaded, motion_clips(store, SMALL, [3]))
    assert metrics["nmse"] < 1 and metrics["r2"] == pytest.approx(1 - metrics["nmse"], abs=0.05)
    assert isinstance(loaded, OTF)
    factor = factor_metrics(loaded, motion_clips(store, SMALL, [3]), 5)
    assert all(0 <= value <= 1 + 1e-6 for value in factor.values())


def test_a_vocabulary_of_more_than_a_byte(store: Store, otf: OTF) -> None:
    """Its codes take two bytes, and none is lost on the way to a batch."""
    wide = OTF(dataclasses.replace(SMALL, codebook=dataclasses.replace(SMALL.codebook, codes=1000))).eval()
    wide.codebook.start_from(torch.randn(4000, SMALL.codebook.dim))
    codes = encode_with(store, wide, "wide")
    assert codes["codes"].dtype == np.uint16 and codes["codes"].max() > 255
    batch = Clips(store, SMALL.motion.offsets, (), None, {"codes": codes}).batch(8, 0, 0)
    frame, signal = wide.observe(batch)
    torch.testing.assert_close(batch.at("codes", 0).long(), wide.encode(signal, frame))


def test_the_python_interface(store: Store, otf: OTF, tmp_path: Path) -> None:
    tokenizer, clips = Tokenizer(otf), batch().frames
    tokenizer.save_pretrained(tmp_path / "copy")
    again = Tokenizer.from_pretrained(tmp_path / "copy")
    codes = tokenizer.encode(clips)
    assert codes.shape == (5, 4, 4) and torch.equal(again.encode(clips), codes)
    assert torch.equal(tokenizer.factors(clips).occupancy.argmax(1), codes)
    signal, redrawn = again.reconstruct(clips)
    assert signal.shape == redrawn.shape == (5, 3, 12, 12)
    with pytest.raises(UserError, match=r"with frames at \[0, 2\]"):
        tokenizer.encode(clips[:, :1])
    whole = Tokenizer(build_tokenizer(dataclasses.replace(SMALL, method="monolithic", whole=8)))
    assert whole.encode(clips).shape == (5, 4, 4)
    with pytest.raises(UserError, match="has no factors"):
        whole.factors(clips)


def test_ablating_a_code_changes_its_area(otf: OTF) -> None:
    frame, signal = otf.eval().observe(batch(count=1))
    codes = otf.encode(signal, frame)
    with torch.no_grad():
        effects, areas = ablations(otf, codes, frame)
    assert len(effects) == codes.unique().numel()
    torch.testing.assert_close(areas.sum(0), torch.ones(12, 12))
    inside = (effects * areas).sum((1, 2)) / effects.sum((1, 2))
    assert (inside > areas.mean((1, 2))).all()  # more of the effect lies in the code's own patches than chance has it


def test_statistics_of_codes() -> None:
    assert perplexity(torch.ones(16)) == pytest.approx(16)
    assert perplexity(torch.tensor([5.0, 0, 0])) == pytest.approx(1)
    assert mutual_information(torch.ones(4, 8)) == pytest.approx(0, abs=1e-6)
    assert mutual_information(torch.eye(8)) == pytest.approx(3, abs=1e-5)
    assert bits_per_token(torch.eye(8)) == pytest.approx(0, abs=1e-5)
    assert bits_per_token(torch.ones(4, 8)) == pytest.approx(3, abs=1e-5)
    codes = torch.tensor([[0, 1, 1], [0, 2, 1]])
    assert count_codes(codes, 3).tolist() == [[2, 0, 0], [0, 1, 1], [0, 2, 0]]


def test_reconstruction_against_numpy(store: Store, otf: OTF) -> None:
    clips = motion_clips(store, SMALL)
    otf.eval()
    frame, signal = otf.observe(clips.gather(np.arange(len(clips))))
    with torch.no_grad():
        redrawn, signal = otf.redraw(otf.encode(signal, frame), frame).numpy(), signal.numpy()
    metrics = reconstruction(otf, clips, len(clips))
    assert metrics["mse"] == pytest.approx(np.mean((redrawn - signal) ** 2), rel=1e-4)
    assert metrics["nmse"] == pytest.approx(np.sum((redrawn - signal) ** 2) / np.sum(signal**2), rel=1e-4)
    assert metrics["r2"] == pytest.approx(1 - np.mean((redrawn - signal) ** 2) / signal.var(), rel=1e-3)
    energy = (signal**2).reshape(len(signal), 3, 4, 3, 4, 3).mean((1, 3, 5)).reshape(len(signal), 16)
    moving = otf.encode(torch.from_numpy(signal), frame).numpy()[energy > 0.25 * energy.mean()]
    share = np.bincount(moving, minlength=8) / len(moving)
    expected = np.exp(-np.sum(share[share > 0] * np.log(share[share > 0])))
    assert metrics["moving_perplexity"] == pytest.approx(expected, rel=1e-3)


def test_monolithic_vectors_speak(store: Store, tmp_path: Path) -> None:
    """The codes of a monolithic latent must differ between samples, or it would be no fair opponent."""
    model = dataclasses.replace(SMALL, method="monolithic", whole=32)
    train = dataclasses.replace(get_preset("tiny").tokenizer_training, steps=60, lr=3e-3)
    trained = train_tokenizer(store, [0, 1], model, train, Hardware(), tmp_path / "whole")
    metrics = reconstruction(trained, motion_clips(store, model, [2, 3]))
    assert metrics["bits_per_token"] > 0.3 and metrics["shuffled_nmse"] > 1.02 * metrics["nmse"]


def test_options_survive_the_change_to_digits() -> None:
    laptop = get_preset("laptop")
    asked = dataclasses.replace(laptop.tokenizer, motion=MotionConfig(order=2), method="monolithic")
    model = rebase(asked, laptop.tokenizer, laptop.digit_tokenizer)
    assert (model.motion, model.method) == (MotionConfig(order=2, stride=1), "monolithic")
    assert (model.channels, model.grid, model.patch) == (1, 16, 8)


def test_codes_are_never_learned_without_steps(store: Store, tmp_path: Path) -> None:
    train = dataclasses.replace(get_preset("tiny").tokenizer_training, steps=3)
    with pytest.raises(UserError, match="3 steps with a warm-up of 3"):
        train_tokenizer(store, [0], SMALL, train, Hardware(), tmp_path / "run")


def test_bad_input(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="vocabulary of 131072 codes"):
        TokenizerConfig(codebook=CodebookConfig(1 << 17))
    with pytest.raises(UserError, match="3 colour channels, the tokenizer 1"):
        motion_clips(store, dataclasses.replace(SMALL, channels=1))
    with pytest.raises(UserError, match="at least 41 frames"):
        motion_clips(store, dataclasses.replace(SMALL, motion=MotionConfig(order=2, stride=20)))
    with pytest.raises(UserError, match=r"config\.json does not exist"):
        load_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text('{"kind": "policy"}')
    with pytest.raises(UserError, match="is no tokenizer"):
        load_tokenizer(tmp_path)


def test_collapse_is_said_in_one_line(otf: OTF) -> None:
    assert collapse_warning(otf, [{"active": 6.0, "bits": 1.0}]) is None
    assert collapse_warning(otf, [{"active": 8.0, "bits": 0.001}]) is not None  # many codes, but never another one
    warning = collapse_warning(otf, [{"active": 0.9, "bits": 1.0}])
    assert warning is not None and "collapsed" in warning and "--warmup" in warning and "\n" not in warning
