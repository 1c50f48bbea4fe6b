"""Pictures of a vocabulary, and any video as codes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from otflam.core.errors import UserError
from otflam.core.training import Hardware
from otflam.data.collect import collect
from otflam.data.store import Store
from otflam.experiments.pictures import draw_vocabulary
from otflam.experiments.tokenize import tokenize_video
from otflam.presets import preset
from otflam.tokenizer.api import packaged_tokenizer
from otflam.tokenizer.build import load_tokenizer, train_tokenizer


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return collect(preset("tiny").collection, tmp_path_factory.mktemp("pictures") / "data", workers=1)


def trained(data: Store, method: str) -> Path:
    out = data.path.parent / method
    model = dataclasses.replace(preset("tiny").tokenizer, method=method, whole=16)
    train_tokenizer(data, [0, 1, 2], model, preset("tiny").tokenizer_training, Hardware(), out)
    return out


def write_video(path: Path, width: int, height: int, frames: int) -> Path:
    """A white block that runs over a dark picture."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=12)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for t in range(frames):
            picture = np.full((height, width, 3), 30, np.uint8)
            picture[10:30, 4 * t : 4 * t + 20] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())
    return path


def test_every_picture_is_drawn(data: Store, tmp_path: Path) -> None:
    paths = list(draw_vocabulary(data.path, trained(data, "otf"), trained(data, "monolithic"), tmp_path))
    assert [path.name for path in paths] == ["motion.png", "codebook.png", "assignments.png", "atlas.png", "strips.png"]
    for path in paths:
        with Image.open(path) as picture:
            assert min(picture.size) > 200 and np.asarray(picture.convert("L")).std() > 10
    with pytest.raises(UserError, match="is monolithic"):
        list(draw_vocabulary(data.path, trained(data, "monolithic"), None, tmp_path))


def test_the_packaged_tokenizer_reads_any_video(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(packaged_tokenizer())
    assert (packaged_tokenizer() / "model.safetensors").stat().st_size < 2_000_000
    video = write_video(tmp_path / "wide.mp4", 160, 80, 14)
    paths = list(tokenize_video(video, tmp_path / "out", None))
    assert [path.name for path in paths] == ["codes.npy", "overlay.mp4", "sheet.png"]
    codes = np.load(tmp_path / "out" / "codes.npy", allow_pickle=False)
    grid, stride = tokenizer.config.grid, tokenizer.config.motion.stride
    assert codes.shape == (14 - stride, grid, 2 * grid) and codes.dtype == np.uint8  # the grid grows with the aspect
    still = np.bincount(codes.ravel()).argmax()
    moving = codes != still
    assert moving[:, : grid // 2].mean() > 3 * moving[:, -grid // 4 :].mean()  # codes fire where the block runs
    with av.open(str(tmp_path / "out" / "overlay.mp4")) as container:
        assert sum(1 for _ in container.decode(video=0)) == 14 - stride


def test_videos_that_cannot_be_tokenized(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        list(tokenize_video(tmp_path / "no.mp4", tmp_path / "out", None))
    short = write_video(tmp_path / "short.mp4", 64, 64, 1)
    with pytest.raises(UserError, match="has 1 frames"):
        list(tokenize_video(short, tmp_path / "out", None))
    assert not (tmp_path / "out").exists()
