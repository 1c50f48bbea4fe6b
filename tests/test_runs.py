"""Trainings that go wrong: impossible settings, steps that are too large, damaged files, a full disk."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from otflam.core.batch import Batch, Terms
from otflam.core.config import Hardware, TrainConfig
from otflam.core.errors import UserError
from otflam.core.machine import launch
from otflam.core.progress import Progress
from otflam.core.run import Run, read_metrics, training_seconds
from otflam.core.train import fit


class Line(nn.Module):
    """y = a·x + b."""

    def __init__(self, slope: float = 1.0) -> None:
        super().__init__()
        self.line, self.slope = nn.Linear(1, 1), slope

    def forward(self, batch: Batch) -> Terms:
        return Terms({"error": (self.slope * self.line(batch.columns["x"]) - 1).square().mean()}, {})


class Numbers:
    """Batches of random numbers."""

    def batch(self, size: int, seed: int, step: int, rank: int, world: int) -> Batch:
        x = torch.randn(size, 1, generator=torch.Generator().manual_seed(step))
        return Batch(torch.zeros(0, 1, 1, 1, 3, dtype=torch.uint8), (0,), {"x": x})


def train(path: Path, slope: float = 1.0, **changes: Any) -> None:
    values = {"steps": 8, "batch": 4, "lr": 0.05, "log_every": 2, "save_every": 4, "weights": {"error": 1.0}}
    config = TrainConfig(**{**values, **changes})
    torch.manual_seed(0)
    fit(Line(slope), Numbers(), config, Run(path, config), launch(Hardware(accelerator="cpu")))


IMPOSSIBLE: list[tuple[str, Any]] = [
    *(("steps", 0), ("batch", 0), ("ramp", -1), ("seed", -1), ("seed", 2**64), ("log_every", 0), ("save_every", 0)),
    *(("lr", value) for value in (0.0, -1e-3, math.nan, math.inf)),
    *((name, value) for name in ("clip", "weight_decay") for value in (-1.0, math.nan, math.inf)),
]


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE)
def test_impossible_values_are_named(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"^--{name.replace('_', '-')} {value}: give"):
        TrainConfig(**{name: value})


def test_weights_of_losses_are_finite() -> None:
    with pytest.raises(UserError, match=r"^--weights\.next nan: give a finite number"):
        TrainConfig(weights={"next": math.nan})


@pytest.mark.parametrize("changes", [{"lr": 1e38}, {"lr": 1e39, "steps": 1}, {"slope": 1e12, "clip": 0.0}])
def test_what_is_not_finite_never_reaches_a_checkpoint(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Steps that are too large, also the last one, and a gradient whose square is too large; the advice helps."""
    with pytest.raises(UserError, match="not finite") as told:
        train(tmp_path / "run", **changes)
    assert "a smaller --lr into another --out" in str(told.value)
    assert not (tmp_path / "run" / "checkpoint.pt").exists()
    train(tmp_path / "other")


def test_a_checkpoint_from_before_stays(tmp_path: Path) -> None:
    config = TrainConfig(steps=8, batch=4, log_every=2, save_every=4, weights={"error": 1.0})
    model, taken = Line(), []

    class Spoil(Progress):
        def advance(self, count: int = 1) -> None:
            taken.append(count)
            if len(taken) == 8:
                model.line.bias.data.fill_(torch.nan)

    with pytest.raises(UserError, match=r"line\.bias is not finite after step 8: train with a smaller --lr"):
        fit(model, Numbers(), config, Run(tmp_path, config), launch(Hardware(accelerator="cpu")), Spoil())
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert state["step"] == 4 and all(tensor.isfinite().all() for tensor in state["model"].values())


def test_a_flipped_bit_in_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    train(tmp_path)
    file = tmp_path / "checkpoint.pt"
    whole, weight = bytearray(file.read_bytes()), torch.load(file, weights_only=True)["model"]["line.weight"]
    whole[whole.index(weight.numpy().tobytes())] ^= 1
    file.write_bytes(whole)
    with pytest.raises(UserError, match=r"checkpoint\.pt is damaged .*delete it to start again"):
        train(tmp_path)
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    "state",
    [
        [1],
        {"step": 4},
        {"step": "4", "model": {}, "optimiser": {"state": {}}},
        {"step": 4, "model": {"line.weight": torch.zeros(3)}, "optimiser": {"state": {}}},
        {"step": 4, "model": [], "optimiser": []},
    ],
)
def test_a_checkpoint_of_something_else_is_named(tmp_path: Path, state: Any) -> None:
    train(tmp_path)
    torch.save(state, tmp_path / "checkpoint.pt")
    with pytest.raises(UserError, match=r"checkpoint\.pt (is damaged|does not fit this training)"):
        train(tmp_path)


@pytest.mark.parametrize(
    "line", ['{"step": 4', "[4]", "null", '{"total": 1}', '{"step": "4"}', '{"step": 4, "total": "x"}', "\x00"]
)
def test_damaged_metrics_are_one_line_and_nothing_is_overwritten(tmp_path: Path, line: str) -> None:
    train(tmp_path)
    file = tmp_path / "metrics.jsonl"
    file.write_text(f"{line}\n{file.read_text()}")
    before = file.read_bytes()
    for read in (train, read_metrics, training_seconds):
        with pytest.raises(UserError, match=r"metrics\.jsonl, line 1"):
            read(tmp_path)
    assert file.read_bytes() == before


def test_metrics_of_a_killed_run(tmp_path: Path) -> None:
    """A last line that was being written is no damage; bytes that are no text, and speeds of zero, are."""
    train(tmp_path)
    file = tmp_path / "metrics.jsonl"
    rows, whole = read_metrics(tmp_path), file.read_bytes()
    file.write_bytes(whole + b'{"step": 9, "tot')
    assert read_metrics(tmp_path) == rows
    file.write_bytes(whole + b"\xff\n")
    with pytest.raises(UserError, match=r"metrics\.jsonl is not text"):
        read_metrics(tmp_path)
    file.write_text(json.dumps(rows[0] | {"steps_per_s": 0.0}) + "\n")
    with pytest.raises(UserError, match="no steps_per_s above 0"):
        training_seconds(tmp_path)
    file.unlink()
    with pytest.raises(UserError, match=r"metrics\.jsonl does not exist"):
        training_seconds(tmp_path)


@pytest.mark.parametrize("text", ["[]", "3", '{"steps": 8', "\x00"])
def test_a_damaged_configuration_is_one_line(tmp_path: Path, text: str) -> None:
    train(tmp_path)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match=r"config\.json is .*delete the folder and start again"):
        train(tmp_path)
    assert (tmp_path / "config.json").read_text() == text


FULL = """
import resource, sys
from pathlib import Path
import torch
from otflam.core.errors import UserError
from otflam.core.release import save_weights
from otflam.core.run import Run

run, model = Run(Path(sys.argv[1]), {}), torch.nn.Linear(300, 300)
run.save({"step": 1, "small": torch.zeros(3)})
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for write in (lambda: run.save({"step": 2, "large": torch.zeros(100_000)}), lambda: save_weights(model, run.path)):
    try:
        write()
    except UserError as error:
        print(error)
assert run.load()["step"] == 1
"""


def test_a_full_disk_is_one_line_and_the_old_checkpoint_stays(tmp_path: Path) -> None:
    """A limit on the size of files stops torch and safetensors as a full disk does."""
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stdout
    assert all("no space left for" in line and "run the same command to continue" in line for line in lines)
    assert "checkpoint.pt" in lines[0] and "model.safetensors" in lines[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "checkpoint.pt", "config.json"]
