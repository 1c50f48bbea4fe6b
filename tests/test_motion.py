"""Motion signals against scipy, an independent implementation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy import ndimage

from otflam.motion.config import MotionConfig
from otflam.motion.signal import TRANSFORMS, blur, derivatives, gray, motion, motion_of_sequence

sizes = st.integers(3, 17)


def images(height: int, width: int, channels: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((2, channels, height, width), np.float32))


@given(sizes, sizes)
def test_sobel_equals_scipy(height: int, width: int) -> None:
    image = images(height, width, 1)
    across, down = derivatives(image)
    for n in range(2):
        plain = image[n, 0].numpy().astype(np.float64)
        np.testing.assert_allclose(across[n, 0], ndimage.sobel(plain, 1, mode="constant"), atol=1e-5)
        np.testing.assert_allclose(down[n, 0], ndimage.sobel(plain, 0, mode="constant"), atol=1e-5)


@given(sizes, sizes)
def test_gradient_magnitude_and_gray(height: int, width: int) -> None:
    frames = images(height, width)
    luma = np.tensordot([0.2989, 0.5870, 0.1140], frames[0].numpy().astype(np.float64), 1)
    np.testing.assert_allclose(gray(frames)[0, 0], luma, atol=1e-5)
    across, down = ndimage.sobel(luma, 1, mode="constant"), ndimage.sobel(luma, 0, mode="constant")
    expected = np.stack([across, down, np.hypot(across, down)])
    np.testing.assert_allclose(TRANSFORMS["gradient"](frames)[0], expected, atol=2e-5)
    np.testing.assert_allclose(TRANSFORMS["sobel"](frames)[0], np.stack([luma, across, down]), atol=2e-5)


@given(sizes, sizes)
def test_blur_highpass_and_blobs_equal_scipy(height: int, width: int) -> None:
    frames = images(height, width)
    plain = frames[0].numpy().astype(np.float64)
    smooth = np.stack([ndimage.gaussian_filter(c, 1, truncate=2, mode="nearest") for c in plain])
    np.testing.assert_allclose(blur(frames)[0], smooth, atol=1e-5)
    np.testing.assert_allclose(TRANSFORMS["highpass"](frames)[0], plain - smooth, atol=1e-5)
    luma = np.tensordot([0.2989, 0.5870, 0.1140], smooth, 1)
    blobs = ndimage.laplace(luma, mode="nearest")
    expected = np.stack([blobs, blobs.clip(0), (-blobs).clip(0)])
    np.testing.assert_allclose(TRANSFORMS["log"](frames)[0], expected, atol=2e-5)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("channels", [1, 3])
def test_orders_and_channels(transform: str, channels: int) -> None:
    before, now, after = (images(9, 11, channels, seed) for seed in range(3))
    phi = TRANSFORMS[transform]
    first = motion(MotionConfig(transform, 1, 2), [now, after])
    torch.testing.assert_close(first, phi(after) - phi(now))
    second = motion(MotionConfig(transform, 2, 2), [before, now, after])
    torch.testing.assert_close(second, phi(after) - 2 * phi(now) + phi(before))
    assert first.shape == (2, MotionConfig(transform).channels(channels), 9, 11)
    assert not motion(MotionConfig(transform, 1), [now, now]).any()
    assert motion(MotionConfig(transform, 2), [now, now, now]).abs().max() < 1e-5


@pytest.mark.parametrize("order", [1, 2])
def test_a_sequence_has_the_motions_of_its_clips(order: int) -> None:
    frames, config = torch.rand(9, 3, 6, 7), MotionConfig("gradient", 1 if order == 1 else 2, 2)
    whole = motion_of_sequence(config, frames)
    for place, t in enumerate(range(-config.offsets[0], 9 - config.offsets[-1])):
        clip = [frames[t + offset][None] for offset in config.offsets]
        assert torch.equal(whole[place], motion(config, clip)[0])
    assert len(whole) == 9 + config.offsets[0] - config.offsets[-1]


def test_offsets() -> None:
    assert MotionConfig(stride=2).offsets == (0, 2)
    assert MotionConfig(order=2, stride=3).offsets == (-3, 0, 3)


def test_the_gradient_of_a_flat_image_is_finite() -> None:
    frames = torch.zeros(1, 3, 8, 8, requires_grad=True)
    TRANSFORMS["gradient"](frames).sum().backward()
    assert frames.grad is not None and torch.isfinite(frames.grad).all()
