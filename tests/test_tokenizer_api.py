"""The one entry through which frames reach a tokenizer from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from otflam.core.batch import windows
from otflam.core.errors import UserError
from otflam.tokenizer.api import Tokenizer
from otflam.tokenizer.build import build_tokenizer
from otflam.tokenizer.config import CodebookConfig, DecoderConfig, TokenizerConfig

SMALL = TokenizerConfig(
    codebook=CodebookConfig(8, 4), decoder=DecoderConfig(width=8, reference=4), grid=4, patch=3, hidden=8, descriptor=4
)


def test_frames_are_checked_at_the_one_entry(tmp_path: Path) -> None:
    """A video or clips, of numpy or torch, or a path; never anything else, and never in silence."""
    tokenizer = Tokenizer(build_tokenizer(SMALL))
    video = np.random.default_rng(0).integers(0, 256, (70, 12, 12, 3), np.uint8)
    pairs = torch.from_numpy(np.stack([video[:-2], video[2:]], 1))
    clips, codes = pairs[:5], tokenizer.encode(video)
    assert codes.shape == (68, 4, 4) and torch.equal(codes, tokenizer.encode(torch.from_numpy(video)))
    assert torch.equal(codes, tokenizer.encode(pairs)) and torch.equal(codes, tokenizer.encode(pairs.numpy()))
    assert tokenizer.factors(video).occupancy.shape == (68, 8, 4, 4)
    assert tokenizer.reconstruct(video)[1].shape == (68, 3, 12, 12)
    for number, frame in enumerate(video):
        Image.fromarray(frame).save(tmp_path / f"{number}.png")
    for path in (tmp_path, str(tmp_path)):
        assert torch.equal(codes, tokenizer.encode(path))
    for use in (tokenizer.encode, tokenizer.factors, tokenizer.reconstruct):
        for told, wrong in {
            "frames of type float32": clips / 255,
            "frames of type float64": video / 255,
            "frames of type int64": clips.long(),
            r"frames of shape \[12, 12, 3\]": video[0],
            r"frames of shape \[5, 3, 12": torch.cat([clips, clips[:, :1]], 1),
            "frames with 12 channels": video.transpose(0, 3, 1, 2),
            "a video of 2 frames": video[:2],
        }.items():
            with pytest.raises(UserError, match=told):
                use(wrong)
    with pytest.raises(UserError, match="does not exist"):
        tokenizer.encode(tmp_path / "no.mp4")


def test_windows_overlap_so_that_no_motion_is_lost() -> None:
    assert list(windows(range(7), 2, 3)) == [[0, 1, 2, 3, 4], [3, 4, 5, 6]]
    assert list(windows(range(5), 2, 3)) == [[0, 1, 2, 3, 4]] and not list(windows(range(2), 2, 3))
