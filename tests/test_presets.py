"""The paper preset has the values that the paper prints."""

from __future__ import annotations

import dataclasses

from otflam.core.config import TrainConfig
from otflam.data.moving_mnist import DEFAULT_SEQUENCES
from otflam.lam.flam import FlamConfig
from otflam.lam.hilam import HilamConfig
from otflam.lam.lapo import LapoConfig
from otflam.lam.otf_lam import DinoConfig, PixelConfig
from otflam.presets import get_preset

PAPER = get_preset("paper")


def steps(train: TrainConfig) -> tuple[int, int, str, float, float]:
    return train.steps, train.batch, train.optimiser, train.lr, train.weight_decay


def test_data() -> None:
    assert PAPER.collection.episodes == 2000 and PAPER.collection.steps is None and PAPER.noise == 0
    assert PAPER.collection.world.quality == "reference" and PAPER.mnist.sequences is None
    assert DEFAULT_SEQUENCES == {"train": 3000, "transfer": 300}


def test_motion_tokenizer() -> None:
    """B.4: 10 epochs of batch 512, the first without quantisation; codes of 32 numbers on a 14 × 14 grid."""
    epoch = 1000 * (1000 - 2) // 512  # the first half of the trajectories, less two steps at their ends
    assert steps(PAPER.tokenizer_training)[:4] == (10 * epoch, 512, "adamw", 1e-4)
    assert (PAPER.tokenizer.grid, PAPER.tokenizer.codebook.dim, PAPER.tokenizer.warmup) == (14, 32, epoch)
    assert PAPER.tokenizer.codebook.codes == 64 and PAPER.tokenizer_training.clip == 1.0
    assert set(PAPER.tokenizer_training.weights) == {"rec", "code", "commit", "orth"}
    assert steps(PAPER.digit_training)[1:4] == (512, "adamw", 1e-4)


def test_otf_lam() -> None:
    """C.1 to C.4."""
    pixel, dino = PAPER.lam["otf-lam-pixel"], PAPER.lam["otf-lam-dino"]
    assert isinstance(pixel, PixelConfig) and isinstance(dino, DinoConfig)
    for model in (pixel, dino):
        assert dataclasses.astuple(model.abstraction) == (256, 4, 256, 4, 2, 1024, 0.1)
        assert dataclasses.astuple(model.predictor) == (384, 2, 6, 1536, 0.1, False)
    assert pixel.channels == (32, 64, 128) and pixel.side == 14 and pixel.residual
    assert dino.size == 196 and dino.side == 14
    for method in ("otf-lam-pixel", "otf-lam-dino"):
        training = PAPER.lam_training[method]
        assert steps(training) == (20_000, 512, "adamw", 1e-4, 0.0) and training.clip == 1.0
        assert training.weights == {"next": 1.0}


def test_baselines() -> None:
    """E.1 to E.5, F.1."""
    for method, latent in {"lapo-128": 128, "lapo-256": 256, "m-lapo": 128, "f-lapo": 128}.items():
        lapo, training = PAPER.lam[method], PAPER.lam_training[method]
        assert isinstance(lapo, LapoConfig)
        assert (lapo.latent, lapo.scale, lapo.blocks, lapo.frames, lapo.reach) == (latent, 6, 2, 3, 10)
        assert steps(training)[:4] == (20_000, 512, "adam", 1e-4) and training.clip == 0.0
    for method, slots in {"flam-4": 4, "flam-8": 8}.items():
        flam, training = PAPER.lam[method], PAPER.lam_training[method]
        assert isinstance(flam, FlamConfig)
        assert (flam.slots, flam.dim, flam.blocks, flam.frames, flam.ahead) == (slots, 256, 2, 10, 5)
        assert (flam.bottleneck, flam.latent) == ("gaussian", 256) and training.weights["kl"] == 2e-4
        assert (training.steps, training.batch, training.lr, training.clip) == (309_690, 32, 1e-4, 1.0)
    assert (PAPER.frame_tokenizer.levels, PAPER.frame_tokenizer.dim) == ((4, 4, 4, 4, 4), 128)
    hilam, training = PAPER.lam["hilam"], PAPER.lam_training["hilam"]
    assert isinstance(hilam, HilamConfig) and hilam.width == 64
    assert (training.steps, training.lr) == (50_000, 1e-4)


def test_control() -> None:
    """F.2: 10 epochs of cloning, 5 of OTF-LAM-DINO's latents; a decoder's steps by its labels; 10 episodes."""
    assert PAPER.policy.actor.frames == 3 and steps(PAPER.policy.clone) == (19_490, 512, "adamw", 1e-4, 0.0)
    assert PAPER.clone_steps == {"otf-lam-dino": 19_490 // 2}
    assert steps(PAPER.policy.decode)[1:] == (512, "adamw", 3e-4, 0.0)
    assert PAPER.labels == {16: 2500, 32: 5000, 64: 10_000, 128: 20_000}
    assert PAPER.compared == (32,) and PAPER.evaluated == 10 and PAPER.played is None
