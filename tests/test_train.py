"""The one training loop: exact resume after kill -9, many processes as one, and refusal to step on nonsense."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from otflam.core.batch import Batch, Terms
from otflam.core.config import Hardware, TrainConfig
from otflam.core.errors import UserError
from otflam.core.progress import Progress
from otflam.core.run import Run, read_metrics
from otflam.core.train import fit, launch, rate_at
from otflam.data.collect import collect_episodes
from otflam.data.store import Store
from otflam.presets import get_preset

WEIGHTS = {"error": 1.0}


class Line(nn.Module):
    """y = a·x + b with dropout, so that random numbers matter."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.drop = nn.Linear(1, 1), nn.Dropout(0.3)

    def forward(self, batch: Batch) -> Terms:
        x = batch.columns["x"]
        return Terms({"error": (self.drop(self.line(x)) - 3 * x).square().mean()}, {"slope": self.line.weight[0, 0]})


class Numbers:
    """Batches of random numbers."""

    def batch(self, size: int, seed: int, step: int, rank: int, world: int) -> Batch:
        generator = torch.Generator().manual_seed(1000 * seed + step)
        x = torch.randn(size, 1, generator=generator)[rank * size // world : (rank + 1) * size // world]
        return Batch(torch.zeros(0, 1, 1, 1, 3, dtype=torch.uint8), (0,), {"x": x})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return collect_episodes(get_preset("tiny").collection, tmp_path_factory.mktemp("train") / "data", workers=1)


def config(**changes: object) -> TrainConfig:
    values = {"steps": 30, "batch": 8, "lr": 0.05, "log_every": 5, "save_every": 10, "weights": WEIGHTS}
    return TrainConfig(**{**values, **changes})  # ty: ignore[invalid-argument-type]


def run_line(path: Path, stop_at: int | None = None, **changes: object) -> nn.Module:
    class Stop(Progress):
        def log(self, row: dict[str, float]) -> None:
            if row["step"] == stop_at:
                raise KeyboardInterrupt

    torch.manual_seed(0)
    model, settings = Line(), config(**changes)
    fit(model, Numbers(), settings, Run(path, settings), launch(Hardware()), Stop())
    return model


def test_it_learns_logs_and_resumes_exactly(tmp_path: Path) -> None:
    whole = run_line(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run_line(tmp_path / "parts", stop_at=15)  # the checkpoint is of step 10, so steps 11 to 15 come twice
    torch.manual_seed(99)
    parts = run_line(tmp_path / "parts")
    for name, value in whole.state_dict().items():
        assert torch.equal(value, parts.state_dict()[name])
    logs = [read_metrics(tmp_path / name) for name in ("whole", "parts")]
    assert [row["step"] for row in logs[1]] == [5, 10, 15, 20, 25, 30]
    for a, b in zip(*logs, strict=True):
        assert {k: v for k, v in a.items() if k != "steps_per_s"} == {k: v for k, v in b.items() if k != "steps_per_s"}
    assert logs[0][-1]["error"] < logs[0][0]["error"]
    assert list((tmp_path / "whole" / "tensorboard").iterdir())


def test_schedules() -> None:
    linear = config(steps=10, schedule="linear", ramp=2)
    assert [round(rate_at(linear, step), 3) for step in (0, 1, 2, 6, 9)] == [0.5, 1.0, 1.0, 0.5, 0.125]
    cosine = config(steps=10, schedule="cosine")
    assert rate_at(cosine, 0) == 1 and rate_at(cosine, 5) == pytest.approx(0.5) and rate_at(config(), 29) == 1


def test_names_of_losses_and_weights_must_agree(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="disagree on"):
        run_line(tmp_path / "run", weights={"error": 1.0, "other": 1.0})


def test_a_non_finite_gradient_stops_before_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="gradient is not finite at step 0"):
        run_line(tmp_path / "run", weights={"error": 1e300})
    fabric = launch(Hardware())
    monkeypatch.setattr(type(fabric), "world_size", 2)
    with pytest.raises(UserError, match="batch of 7 on 2 processes"):
        fit(Line(), Numbers(), config(batch=7), Run(tmp_path / "x", {}), fabric)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    run_line(tmp_path / "run")
    (tmp_path / "run" / "checkpoint.pt").write_bytes(b"broken")
    with pytest.raises(UserError, match=r"checkpoint\.pt is damaged"):
        run_line(tmp_path / "run")
    with pytest.raises(UserError, match=r"holds another training \(lr differ\)"):
        run_line(tmp_path / "run", lr=1.0)


def command(data: Store, out: Path, *options: str) -> list[str]:
    words = ["tokenizer", "train", str(data.path), "--preset", "tiny", "--out", str(out), *options]
    return [sys.executable, "-m", "otflam", *words]


def test_killed_training_ends_in_the_same_bits(data: Store, killed_and_resumed: Callable[..., None]) -> None:
    killed_and_resumed(lambda out: command(data, out))


def test_two_processes_give_the_losses_of_one(data: Store, tmp_path: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    rows = []
    for devices in ("1", "2"):
        out = tmp_path / devices
        done = subprocess.run(
            command(data, out, "--devices", devices, "--accelerator", "cpu"),
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        rows.append([json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()])
    assert len(rows[0]) == len(rows[1]) == 6
    for one, two in zip(*rows, strict=True):
        for name in ("total", "rec", "commit", "orth"):
            assert two[name] == pytest.approx(one[name], rel=1e-5, abs=1e-5)
