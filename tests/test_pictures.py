"""Pictures of a vocabulary."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.data.collect import collect_episodes
from otflam.data.store import Store
from otflam.experiments.studies import draw_vocabulary
from otflam.presets import get_preset
from otflam.tokenizer.build import train_tokenizer


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return collect_episodes(get_preset("tiny").collection, tmp_path_factory.mktemp("pictures") / "data", workers=1)


def trained(data: Store, method: str) -> Path:
    out = data.path.parent / method
    model = dataclasses.replace(get_preset("tiny").tokenizer, method=method, whole=16)
    train_tokenizer(data, [0, 1, 2], model, get_preset("tiny").tokenizer_training, Hardware(), out)
    return out


def test_every_picture_is_drawn(data: Store, tmp_path: Path) -> None:
    paths = list(draw_vocabulary(data.path, trained(data, "otf"), trained(data, "monolithic"), tmp_path))
    assert [path.name for path in paths] == ["motion.png", "codebook.png", "assignments.png", "atlas.png", "strips.png"]
    for path in paths:
        with Image.open(path) as picture:
            assert min(picture.size) > 200 and np.asarray(picture.convert("L")).std() > 10
    with pytest.raises(UserError, match="is monolithic"):
        list(draw_vocabulary(data.path, trained(data, "monolithic"), None, tmp_path))
