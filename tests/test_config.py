"""Configurations read back exactly as written, or not at all."""

from __future__ import annotations

import dataclasses
import json
import pickle

import pytest

from otflam.core.config import from_json, stable_hash, to_json
from otflam.core.errors import UserError, require_name
from otflam.data.options import Collection
from otflam.envs.recipe import Recipe
from otflam.envs.world import World
from otflam.presets import PRESETS, Preset, get_preset


@pytest.mark.parametrize("name", PRESETS)
def test_presets_round_trip_through_json(name: str) -> None:
    text = json.dumps(to_json(PRESETS[name]))
    assert from_json(Preset, json.loads(text)) == PRESETS[name]


def test_presets_are_frozen_and_found_by_near_names() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        get_preset("tiny").collection.episodes = 3  # ty: ignore[invalid-assignment]
    with pytest.raises(UserError, match="did you mean 'laptop'"):
        get_preset("labtop")


def test_strict_reading() -> None:
    good = to_json(Collection())
    with pytest.raises(UserError, match="unknown field in config 'epsiodes': did you mean 'episodes'"):
        from_json(Collection, good | {"epsiodes": 1})
    with pytest.raises(UserError, match="no field 'noise'"):
        from_json(Collection, {k: v for k, v in good.items() if k != "noise"})
    with pytest.raises(UserError, match=r"config\.episodes is '3'"):
        from_json(Collection, good | {"episodes": "3"})
    with pytest.raises(UserError, match=r"config\.episodes is True"):
        from_json(Collection, good | {"episodes": True})
    with pytest.raises(UserError, match="did you mean 'hard'"):
        from_json(World, to_json(World()) | {"difficulty": "hrad"})
    assert from_json(Recipe, to_json(Recipe()) | {"lr": 1}).lr == 1.0


def test_hash_is_stable_and_sees_every_field() -> None:
    assert (
        stable_hash({"b": 1, "a": [1, 2]}) == stable_hash({"a": (1, 2), "b": 1}) == "f587f5091b5841a33f9e6dafdf1f5e45"
    )
    hashes = {stable_hash(dataclasses.replace(World(), **{k: v})) for k, v in {"size": 65, "camera": 1}.items()}
    assert len(hashes | {stable_hash(World())}) == 3


def test_errors_survive_the_way_from_a_worker() -> None:
    error = pickle.loads(pickle.dumps(UserError("a", "b")))
    assert str(error) == "a: b"
    with pytest.raises(UserError, match="choose one of red"):
        require_name("colour", "qqqqq", ["red"])
