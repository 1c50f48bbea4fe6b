"""Training commands end with what they reached on episodes they have not seen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from otflam import cli
from otflam.data.store import Store


def last_lines(*words: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    cli.main([*words, "--preset", "tiny", "--accelerator", "cpu"])
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("command", "what"), [("train", "motion"), ("train-frames", "frames' variance")])
def test_tokenizers(
    command: str, what: str, square_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    lines = last_lines("tokenizer", command, str(square_store.path), "--out", str(out), capsys=capsys)
    assert re.match(rf"held out: \d+ % of the {what} is redrawn \(nMSE \d+\.\d\d\)", lines[-2])
    assert lines[-1].endswith(f"tokenizer: {out}")
    again = last_lines("tokenizer", command, str(square_store.path), "--out", str(out), capsys=capsys)
    assert again == lines  # a finished one tells the same
    alone = ["--share", "1", "--out", str(tmp_path / "alone")]
    lines = last_lines("tokenizer", command, str(square_store.path), *alone, capsys=capsys)
    assert lines[-2].startswith("on training episodes (none are held out): ")


def test_models_and_agents(noisy_store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, lam, agent = str(noisy_store.path), str(tmp_path / "lam"), str(tmp_path / "agent")
    lines = last_lines("lam", "train", "lapo-128", data, "--out", lam, capsys=capsys)
    assert "below" in lines[-2] or "above" in lines[-2]
    assert lines[-2].startswith("lapo-128: ") and lines[-1] == f"model: {lam}"
    lines = last_lines("policy", "train", lam, data, "--labels", "1", "--out", agent, capsys=capsys)
    told = r"decoder: error [\d.]+ on episodes without labels, \d+ % (below|above) always taking their mean action"
    assert re.match(told, lines[-2]) and lines[-1] == f"agent: {agent}"
