"""Labelling goes short ways of its own: what it finds is what a model says of each transition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from otflam.core.nn import Attention
from otflam.data.clips import Clips
from otflam.data.store import Store
from otflam.lam.build import build_lam
from otflam.lam.model import Parts
from otflam.presets import get_preset
from otflam.tokenizer.build import build_tokenizer

TINY = get_preset("tiny")


def test_shared_queries_need_neither_keys_nor_values() -> None:
    """With biases that matter, `ask` is attention."""
    torch.manual_seed(0)
    attention, queries, tokens = Attention(24, 3).double(), torch.randn(4, 24).double(), torch.randn(5, 9, 24).double()
    expected = attention(queries.expand(5, -1, -1), tokens)
    torch.testing.assert_close(attention.ask(queries, tokens), expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("method", ["lapo-256", "m-lapo", "f-lapo", "otf-lam-pixel"])
def test_labelling_an_episode_names_each_of_its_transitions(method: str, square_store: Store) -> None:
    torch.manual_seed(0)
    base = build_tokenizer(TINY.tokenizer) if method == "otf-lam-pixel" else None
    model = build_lam(method, TINY.lam[method], Parts((32, 32, 3), base)).eval()
    for parameter in model.parameters():  # no layer may start without a say
        parameter.data += 0.02 * torch.randn_like(parameter)
    if (codebook := getattr(model, "codebook", None)) is not None:
        codebook.vectors.normal_()
    clips = Clips(square_store, model.offsets, (), [1], pad=True)
    with torch.no_grad():  # as in training: no short ways
        named = model.infer(clips.gather(np.arange(len(clips)))).numpy()
    labels = model.label(square_store, 1, {})
    assert len(labels) == square_store.lengths[1] and not labels[len(clips) :].any()
    assert named.std(0).max() > 1e-4
    np.testing.assert_allclose(labels[: len(clips)], named, rtol=1e-4, atol=1e-5)
