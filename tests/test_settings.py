"""--config: what a run stored trains the same again, options beside it win, and a wrong file is one clear line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otflam import cli
from otflam.core.config import to_json
from otflam.data.store import Store


@pytest.fixture(scope="module")
def runs(noisy_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of every kind, each with settings that no preset has."""
    folder, data = tmp_path_factory.mktemp("settings"), noisy_store.path
    for line in (
        f"tokenizer train {data} --preset tiny --steps 6 --codes 16 --seed 5 --share 0.25 --out {folder}/tokenizer",
        f"tokenizer train-frames {data} --preset tiny --steps 2 --dim 4 --out {folder}/frames",
        f"lam train lapo-128 {data} --preset tiny --steps 2 --latent 6 --share 0.375 --labels 1 --label-seed 1 "
        f"--label-weight 0.07 --views shift --out {folder}/lam",
        f"policy train {folder}/lam {data} --preset tiny --labels 2 --seed 3 --decode.steps 3 --grounding finetune "
        f"--out {folder}/agent",
        f"policy reference idm {data} --preset tiny --labels 1 --clone.steps 3 --out {folder}/idm",
    ):
        cli.main(line.split())
    return folder


AGAIN: dict[str, str] = {
    "tokenizer": "tokenizer train {data}",
    "frames": "tokenizer train-frames {data}",
    "lam": "lam train lapo-128 {data}",
    "agent": "policy train {runs}/lam {data}",
    "idm": "policy reference idm {data}",
}


@pytest.mark.parametrize("name", AGAIN)
def test_a_run_is_reproduced(name: str, runs: Path, noisy_store: Store, tmp_path: Path) -> None:
    """Without its options, and at another preset: the same bits."""
    words = AGAIN[name].format(data=noisy_store.path, runs=runs).split()
    cli.main([*words, "--config", str(runs / name / "config.json"), "--out", str(tmp_path / name)])
    for file in ("config.json", "digest.json"):
        assert (tmp_path / name / file).read_bytes() == (runs / name / file).read_bytes(), file


def test_options_beside_it_win(runs: Path, noisy_store: Store) -> None:
    words = [str(noisy_store.path), "--out", "x", "--codes", "8", f"--config={runs}/tokenizer/config.json"]
    found: Any = cli.parse("tokenizer train", words)
    assert (found.model.codebook.codes, found.train.steps, found.train.seed) == (8, 6, 5)
    assert len(found.episodes(noisy_store)[0]) == 2
    whole: Any = cli.parse("tokenizer train", [*words, "--share", "0.5"])
    assert len(whole.episodes(noisy_store)[0]) == 4
    found = cli.parse("lam train lapo-128", [*words[:3], "--latent", "9", f"--config={runs}/lam/config.json"])
    assert (found.model.latent, found.labels, found.label_weight, found.views) == (9, 1, 0.07, "shift")
    assert "labels" not in found.train.weights


def test_other_data_are_cut_as_usual(runs: Path, noisy_store: Store, square_store: Store) -> None:
    words = [str(square_store.path), "--out", "x", "--config", str(runs / "tokenizer" / "config.json")]
    found: Any = cli.parse("tokenizer train", words)
    assert found.data == (square_store.path,) and len(found.episodes(square_store)[0]) == len(square_store) // 2


def test_an_expert_is_trained_again_with_its_recipe(tmp_path: Path) -> None:
    recipe: Any = cli.parse("expert train", ["cheetah-run", "--preset", "tiny", "--lr", "0.01"]).recipe
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"task": "cheetah-run", "seed": 4, **to_json(recipe)}))
    again: Any = cli.parse("expert train", ["cheetah-run", "--config", str(file), "--width", "7"])
    assert again.seed == 4 and again.fitting_recipe().lr == 0.01 and again.fitting_recipe().width == 7


def misspell(values: dict[str, Any]) -> None:
    values["model"]["latant"] = values["model"].pop("latent")


def add(values: dict[str, Any]) -> None:
    values["vews"] = "none"


def spoil(values: dict[str, Any]) -> None:
    values["train"]["lr"] = "fast"


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (misspell, "unknown field in {file}.model 'latant': did you mean 'latent'"),
        (add, "unknown field in {file} 'vews': did you mean 'views'"),
        (spoil, "{file}.train.lr is 'fast': expected float"),
    ],
)
def test_an_unknown_field_is_one_line(
    change: Callable[[dict[str, Any]], None],
    answer: str,
    runs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    values, file = json.loads((runs / "lam" / "config.json").read_text()), tmp_path / "config.json"
    change(values)
    file.write_text(json.dumps(values))
    assert answer.format(file=file) in refused("lam train lapo-128 x --out y", file, capsys)


@pytest.mark.parametrize(
    ("command", "file", "answer"),
    [
        ("tokenizer train x --out y", "nowhere.json", "nowhere.json does not exist: give the config.json that"),
        ("tokenizer train x --out y", "lam/config.json", "config.json is not of the kind 'tokenizer'"),
        ("tokenizer train x --out y", "lam", "Is a directory"),
        ("tokenizer train x --out y", "tokenizer/metrics.jsonl", "is not readable JSON"),
        ("lam train lapo-64 x --out y", "lam/config.json", "is of the method 'lapo-128'"),
        ("policy train x x --out y", "idm/config.json", "is of an agent that 'otflam policy reference' trained"),
        ("policy train x x --out y", "agent/clone/config.json", "is not of the kind 'agent'"),
        ("policy reference labels-only x --out y", "idm/config.json", "is of idm, not of labels-only"),
    ],
)
def test_a_wrong_file_is_one_line(
    command: str, file: str, answer: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer in refused(command, runs / file, capsys)


def refused(command: str, file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        cli.main([*command.split(), "--config", str(file)])
    out, err = capsys.readouterr()
    assert end.value.code == 2 and out == "" and err.count("\n") == 1
    return err
