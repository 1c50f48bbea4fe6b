"""LAPO's relatives of other papers: a few codes, a noisy latent, and the agent's mask."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Normal, kl_divergence

from otflam.core.batch import Batch
from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.data.clips import Clips
from otflam.data.masks import mask_column
from otflam.data.store import Store
from otflam.lam.api import LatentActionModel
from otflam.lam.bottlenecks.model import VAELapo, VQLapo
from otflam.lam.build import build_lam
from otflam.lam.label import label_store
from otflam.lam.mask_lapo import MaskLapoConfig
from otflam.lam.mask_lapo.model import MaskLapo
from otflam.lam.model import LAM, Parts
from otflam.lam.train import train_lam
from otflam.presets import get_preset

TINY = get_preset("tiny")


def model_of(method: str) -> LAM:
    torch.manual_seed(0)
    return build_lam(method, TINY.lam[method], Parts((32, 32, 3)))


def clips_for(model: LAM, count: int = 6) -> Batch:
    rng, offsets = np.random.default_rng(0), model.training_offsets
    frames = rng.integers(0, 256, (count, len(offsets), 32, 32, 3), np.uint8)
    masks = rng.integers(0, 3, (count, len(offsets), 32, 32), np.uint8)
    return Batch(torch.from_numpy(frames), offsets, {"masks": torch.from_numpy(masks)})


def test_a_latent_is_a_few_codes() -> None:
    model = model_of("lapo-vq")
    assert isinstance(model, VQLapo)
    batch = clips_for(model)
    terms = model.train()(batch)
    assert bool(model.started) and 1 <= terms.metrics["perplexity"] <= terms.metrics["active"] <= 8
    latent = model.eval().infer(batch)
    words = latent.detach().view(-1, model.config.codebook.dim)
    assert latent.shape == (6, 4 * 32)
    assert torch.cdist(words, model.codebook.vectors).amin(1).max() < 1e-4, "every word is a code"
    shares = model.codes_used(batch, model.observe(batch))
    assert shares.sum() == pytest.approx(1) and len(shares) == 8
    assert terms.losses["commit"] > 0


def test_idle_codes_are_put_to_use() -> None:
    """What collapses elsewhere: a code far from everything is moved onto a word after some patience."""
    model = model_of("lapo-vq")
    assert isinstance(model, VQLapo)
    batch = clips_for(model)
    model.train()(batch)
    model.codebook.vectors[0] = 1e3
    model.codebook.sums[0], model.codebook.counts[0] = 1e3, 1.0
    model.codebook.idle[0] = model.config.codebook.patience
    model.train()(batch)
    assert model.codebook.resets >= 1 and model.codebook.vectors[0].abs().max() < 100


def test_the_price_of_a_noisy_latent() -> None:
    model = model_of("lapo-vae").train()
    assert isinstance(model, VAELapo)
    torch.nn.init.normal_(model.spread.weight, std=0.3)
    batch = clips_for(model)
    model.config = dataclasses.replace(model.config, reach=1)  # the same future each time
    terms, mean = model(batch), model.infer(batch)
    told = Normal(mean, (model.spread(mean) / 2).exp())
    price = kl_divergence(told, Normal(0.0, 1.0)).sum(1).mean()
    torch.testing.assert_close(terms.losses["price"], price)
    with torch.no_grad():
        noisy = [float(model(batch).losses["next"]) for _ in range(2)]
        clear = [float(model.eval()(batch).losses["next"]) for _ in range(2)]
    assert noisy[0] != noisy[1] and clear[0] == clear[1]
    torch.testing.assert_close(model.infer(batch), mean)


def test_only_the_agent_counts() -> None:
    model = model_of("mask-lapo").eval()
    assert isinstance(model, MaskLapo)
    batch = clips_for(model)
    agent = [batch.at("masks", offset) == 1 for offset in (0, model.stride)]
    counts = (agent[0] | agent[1])[:, None].expand(-1, 9, -1, -1)
    seen = model.observe(batch)
    guess = model.predict_stack(seen, model.infer_latent(seen))
    torch.testing.assert_close(model(batch).losses["next"], F.mse_loss(guess[counts], seen.ahead[counts]))
    model.config = dataclasses.replace(model.config, outside=1.0)
    torch.testing.assert_close(model(batch).losses["next"], F.mse_loss(guess, seen.ahead))
    other = batch._replace(columns={"masks": torch.ones_like(batch.columns["masks"])})
    assert not torch.equal(model.infer(batch), model.infer(other)), "it sees masks"


def test_masks_come_from_the_simulator(noisy_store: Store, tmp_path: Path) -> None:
    """Trained, stored and used to label, with the masks of every episode that is needed."""
    facts = (TINY.lam["mask-lapo"], TINY.lam_training["mask-lapo"], Hardware(accelerator="cpu"))
    model = train_lam("mask-lapo", noisy_store, ([0, 1], [2]), *facts, tmp_path / "lam")
    found = label_store(noisy_store, tmp_path / "lam", None)
    masks = mask_column(noisy_store)
    clips = Clips(noisy_store, model.offsets, (), [5], {"masks": masks}, pad=True)
    with torch.no_grad():
        named = model.infer(clips.gather(np.arange(len(clips)))).numpy()
    np.testing.assert_allclose(found.episode(5, "latents")[: len(clips)], named, rtol=1e-4, atol=1e-5)
    frames = clips.gather(np.arange(2)).frames
    with pytest.raises(UserError, match="mask-lapo on frames without masks: give a data set of the simulator"):
        LatentActionModel.from_pretrained(tmp_path / "lam").infer(frames)


def test_what_fits_no_mask(square_store: Store, tmp_path: Path) -> None:
    facts = (TINY.lam["mask-lapo"], TINY.lam_training["mask-lapo"], Hardware(accelerator="cpu"))
    with pytest.raises(UserError, match="was not made by the simulator"):
        train_lam("mask-lapo", square_store, ([0, 1], [2]), *facts, tmp_path / "lam")
    with pytest.raises(UserError, match="--reach 3: mask-lapo sees what it is to draw"):
        build_lam("mask-lapo", MaskLapoConfig(reach=3), Parts((32, 32, 3)))
