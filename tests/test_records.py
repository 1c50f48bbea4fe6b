"""What is recorded survives growth: hashes of all committed records, released folders and configurations of old."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from otflam.core.config import ADDED, TrainConfig, from_json, renamed, stable_hash, to_json
from otflam.core.errors import UserError
from otflam.data.clips import Clips
from otflam.data.store import FORMAT, VERSION, Store
from otflam.evaluate.names import DIGITS, GAMES
from otflam.evaluate.records import Cell, find_record, kinds_of, read_record, write_record
from otflam.evaluate.results import chosen_steps, chosen_weight
from otflam.experiments import lams, weights
from otflam.experiments.datasets import Lab, distracting
from otflam.experiments.studies import STUDIES
from otflam.lam.api import LatentActionModel
from otflam.lam.label import label_store
from otflam.lam.labels import WEIGHT
from otflam.policy.agent import load_agent
from otflam.policy.clone import load_clone
from otflam.presets import get_preset
from otflam.tokenizer.api import Tokenizer, packaged_tokenizer
from otflam.tokenizer.build import load_frame_tokenizer
from otflam.tokenizer.config import PACKAGED, TokenizerConfig

WAYS = ("decode", "relabel", "finetune")
"""Of using labels, whose steps a method without trials of its own takes."""
RECORDS = Path(__file__).parents[1] / "results" / "records"
COLUMNS = {"frames": {"dtype": "uint8", "shape": [64, 64, 3]}}
STORES = {
    "cheetah-run": "c46ae44f89f04caac01ec7ff5518a9dd",
    "cheetah-run-noisy": "688edd9fc3af90b4f66b45e0cc0eb1e6",
    "cheetah-run-noisy-vanilla": "118f62115cfa55939f7ddcf8fd459bd1",
    "walker-run": "34320b9fcdcd61e73d93c253f2cba25d",
    "walker-run-noisy": "3bc128b60c97117f5949b8862fb197f5",
    "walker-run-noisy-vanilla": "3e4de76d999f3acfeedb9568d18daa1e",
    "cheetah-run-vanilla": "56f085184f0a0842fbc943dfbae50a7e",
    "walker-run-vanilla": "af7131e64e0a33a1d4d2800ae5719fe7",
}
"""Hashes of the data that were collected for the records; the data themselves are not in the repository."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the recorded data sets seem to be, with only as much of them as cells are named by."""
    planned = [name for study in STUDIES.values() for cell in study.plan(get_preset("laptop")) for name in cell.needs]
    for name, content in (dict.fromkeys(planned, "0" * 32) | STORES | dict.fromkeys(DIGITS, "0" * 32)).items():
        episodes = [
            {"start": 500 * index, "length": 500, "digests": dict.fromkeys(COLUMNS, "")}
            for index in range(get_preset("laptop").games.episodes if name in GAMES else 128)
        ]
        meta: dict[str, Any] = {"format": FORMAT, "version": VERSION, "columns": COLUMNS, "episodes": episodes}
        meta |= {"config": {"background_set": None}, "hash": content}
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "meta.json").write_text(json.dumps(meta | {"digest": stable_hash(meta)}))
    monkeypatch.setattr(lams, "backbone", backbone)
    return tmp_path


def backbone(root: Path, pixels: int) -> SimpleNamespace:
    """As much of the DINOv2 that the records were made with as names them."""
    return SimpleNamespace(hash=BACKBONES[pixels], name="dinov2-s-imgfocus")


BACKBONES = {98: "b877c056a34e622d058e43e8d47a01f8"}


def test_every_committed_record_is_still_that_of_its_settings(root: Path) -> None:
    """From today's code; data hashes are taken from the records."""
    cells: dict[str, list[Cell]] = {}
    lab = Lab(root, get_preset("laptop"))
    for name, study in STUDIES.items():
        for planned in study.plan(lab.preset) if name != "all" else ():
            cell = planned.cell(lab)
            cells.setdefault(cell.path(Path()).name, []).append(cell)
    stale = []
    for path in sorted(RECORDS.glob("*.json")):
        record = read_record(path)
        if record["preset"] == "laptop" and not any(
            (record["config_hash"], kinds_of(record["stages"])) == (cell.config_hash, kinds_of(cell.stages))
            for cell in cells.get(path.name, [])
        ):
            stale.append(path.name)
    assert not stale, f"{len(stale)} records would be made again, the first being {stale[:3]}"


def test_steps_on_labels_are_those_that_the_trials_chose() -> None:
    """Of the rows and budgets whose trials are all recorded, on both tasks."""
    trials = [record for path in RECORDS.glob("tuning-*.json") if (record := read_record(path))["preset"] == "laptop"]
    counts = Counter((record["method"], record["labels"]) for record in trials)
    laptop = get_preset("laptop")
    whole = len(laptop.trials) * len(distracting(laptop))
    chosen = chosen_steps(r for r in trials if counts[r["method"], r["labels"]] == whole)
    known = {row: steps for row, steps in laptop.steps.items() if row not in WAYS}
    assert known == chosen and len(chosen) >= 2


def test_labels_weigh_what_the_trials_chose() -> None:
    """Once all of them are recorded."""
    laptop = get_preset("laptop")
    trials = [record for path in RECORDS.glob("weights-*.json") if (record := read_record(path))["preset"] == "laptop"]
    assert len(trials) < len(weights.plan(laptop, "weights")) or chosen_weight(trials) == WEIGHT


@dataclasses.dataclass(frozen=True)
class Inner:
    width: int = 3


@dataclasses.dataclass(frozen=True)
class Old:
    steps: int = 2
    part: Inner = Inner()


@dataclasses.dataclass(frozen=True)
class Grown:
    count: int = dataclasses.field(default=2, metadata=renamed("steps"))
    part: Inner = Inner()
    noise: float = dataclasses.field(default=0.5, metadata=ADDED)
    names: tuple[str, ...] = dataclasses.field(default_factory=tuple, metadata=ADDED)


def test_a_configuration_that_grew_is_the_old_one() -> None:
    """Fields that were added have no say while they have their default; a new name is not a new field."""
    assert to_json(Grown()) == to_json(Old()) and stable_hash(Grown()) == stable_hash(Old())
    assert from_json(Grown, to_json(Old(7))) == Grown(7)
    other = Grown(noise=0.25, names=("a",))
    assert from_json(Grown, json.loads(json.dumps(to_json(other)))) == other
    assert stable_hash(other) != stable_hash(Grown())
    with pytest.raises(UserError, match="no field 'steps'"):
        from_json(Grown, {"part": {"width": 3}})


@pytest.mark.parametrize("kind", [TrainConfig, TokenizerConfig])
def test_one_more_field_changes_no_hash(kind: Any) -> None:
    grown = dataclasses.make_dataclass(
        "Grown", [("more", int, dataclasses.field(default=1, metadata=ADDED))], bases=(kind,), frozen=True
    )
    assert stable_hash(grown()) == stable_hash(kind())
    assert to_json(from_json(grown, to_json(kind()))) == to_json(kind())


def test_stages_are_named_and_old_numbers_are_read(tmp_path: Path) -> None:
    cell = Cell("alignment", "m", "t", "tiny", 0, {}, "data", {"lam": 1, "tokenizer": 2}, None, {})
    write_record(tmp_path, cell, {"x": 1.0}, 1.0, "otflam")
    path = cell.path(tmp_path)
    record = json.loads(path.read_text())
    assert record["stages"] == {"lam": 1, "tokenizer": 2} and find_record(tmp_path, cell)
    assert find_record(tmp_path, dataclasses.replace(cell, stages={"lam": 2, "tokenizer": 2}))  # other rounding only
    for stages in ({"lam": 99, "tokenizer": 2}, {"lam": 1, "tokenizer": 12}):
        assert find_record(tmp_path, dataclasses.replace(cell, stages=stages)) is None
    old = {name: value for name, value in record.items() if name not in ("stages", "digest")} | {"stage_version": 12201}
    path.write_text(json.dumps(old))
    assert read_record(path)["stages"] == {"lam": 1, "tokenizer": 2, "alignment": 2, "decoder": 1}


RELEASED = Path(__file__).parent / "data" / "released"


def test_what_an_earlier_version_released_is_read(tmp_path: Path) -> None:
    """Folders as tests/data/make.py wrote them once: they load, and say of their data what they said then."""
    shutil.copytree(RELEASED, tmp_path / "released")
    folder = tmp_path / "released"
    store = Store(folder / "store")
    store.check()
    assert Tokenizer.from_pretrained(folder / "tokenizer").offsets == (0, 2)
    assert load_frame_tokenizer(folder / "frame-tokenizer") is not None
    assert load_clone(folder / "clone").column == "latents"
    assert load_agent(folder / "agent").decide(np.asarray(store["frames"])[None, :3], np.zeros(1)).shape == (1, 6)
    before = sorted(path.name for path in (folder / "store.derived").iterdir())
    latents = label_store(store, folder / "lam", None, [0, 1])  # stored ones are found again by name and content
    assert sorted(path.name for path in (folder / "store.derived").iterdir()) == before
    model = LatentActionModel.from_pretrained(folder / "lam")
    clips = Clips(store, model.offsets, (), [0]).batch(4, 0, 0)
    rows = Clips(store, model.offsets, (), [0], {"latents": latents}).batch(4, 0, 0).at("latents", 0)
    assert torch.allclose(model.infer(clips.frames), rows, atol=1e-4)


def test_the_packaged_tokenizers_are_read() -> None:
    assert Tokenizer.from_pretrained("walker-run").model.config == get_preset("laptop").tokenizer
    for codes in (64, 256):
        found = Tokenizer.from_pretrained(f"motion-general-{codes}").model
        general = get_preset("laptop").general
        assert found.config == dataclasses.replace(general, codebook=dataclasses.replace(general.codebook, codes=codes))
    assert Tokenizer.from_pretrained().model.codes == 64
    sizes = [(packaged_tokenizer(name) / "model.safetensors").stat().st_size for name in PACKAGED[:2]]
    assert sum(sizes) <= 4_000_000
