"""Releases: what was altered is noticed, and a configuration that makes no sense is one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from otflam.core.errors import UserError
from otflam.core.release import DIGEST, WEIGHTS, load_weights, read_release, release_hash, save_weights
from otflam.tokenizer.api import Tokenizer, packaged_tokenizer
from otflam.tokenizer.build import load_tokenizer


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A copy of the packaged tokenizer."""
    Tokenizer.from_pretrained().save_pretrained(tmp_path / "release")
    return tmp_path / "release"


def change(release: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    told = json.loads((release / "config.json").read_text())
    edit(told)
    (release / "config.json").write_text(json.dumps(told))


def test_altered_weights_are_noticed(release: Path) -> None:
    load_tokenizer(release)
    weights = release / WEIGHTS
    whole = bytearray(weights.read_bytes())
    whole[-5] ^= 1
    weights.write_bytes(whole)
    with pytest.raises(UserError, match=r"model\.safetensors is not what was saved"):
        load_tokenizer(release)
    (release / DIGEST).write_text("[]")
    with pytest.raises(UserError, match="is not what was saved"):
        load_tokenizer(release)
    (release / DIGEST).unlink()  # as releases of older versions are
    load_tokenizer(release)


def test_the_digest_changes_no_hash(release: Path) -> None:
    before = release_hash(release)
    (release / DIGEST).unlink()
    assert release_hash(release) == before
    assert (release / WEIGHTS).read_bytes() == (packaged_tokenizer() / WEIGHTS).read_bytes()


def test_saving_again_replaces_the_digest(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    save_weights(model, tmp_path)
    with torch.no_grad():
        model.weight.add_(1)
    save_weights(model, tmp_path)
    load_weights(nn.Linear(2, 2), tmp_path)


def test_what_is_not_finite_is_never_released(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    save_weights(model, tmp_path)
    before = (tmp_path / WEIGHTS).read_bytes()
    with torch.no_grad():
        model.bias[0] = torch.inf
    with pytest.raises(UserError, match=r"bias is not finite: .*model\.safetensors is not written"):
        save_weights(model, tmp_path)
    assert (tmp_path / WEIGHTS).read_bytes() == before


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("model", [1], r"config\.json: model is '\[1\]'"),
        ("model", None, r"config\.json: model is 'None'"),
        ("episodes", {"a": 1}, r"config\.json: episodes is"),
        ("episodes", [1.5], r"config\.json: episodes is"),
        ("data", 3, r"config\.json: data is '3'"),
        ("kind", 3, "is no tokenizer"),
    ],
)
def test_fields_of_a_wrong_type_are_named(release: Path, field: str, value: Any, told: str) -> None:
    change(release, lambda config: config.update({field: value}))
    with pytest.raises(UserError, match=told):
        read_release(release, "tokenizer")


def test_a_field_that_is_missing_is_named(release: Path) -> None:
    change(release, lambda config: config.pop("model"))
    with pytest.raises(UserError, match=r"config\.json has no field 'model'"):
        load_tokenizer(release)


def test_a_configuration_that_asks_for_a_giant_is_refused_before_it_is_made(release: Path) -> None:
    change(release, lambda config: config["model"].update(hidden=10**8))
    with pytest.raises(UserError, match=r"config\.json is not what was saved"):
        load_tokenizer(release)
    (release / "digest.json").unlink()  # as in releases of older versions
    with pytest.raises(UserError, match=r"is \(.*\) in model\.safetensors and \(.*\) by config\.json"):
        load_tokenizer(release)
    change(release, lambda config: config["model"].update(hidden=-1))
    with pytest.raises(UserError, match="describes no model that can be made"):
        load_tokenizer(release)
