"""The one training loop: exact resume after kill -9, many processes as one, and refusal to step on nonsense."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from otflam.core.batch import Batch, Terms
from otflam.core.config import Hardware, TrainConfig
from otflam.core.errors import UserError
from otflam.core.machine import launch
from otflam.core.nn import Block
from otflam.core.progress import Progress
from otflam.core.run import Run, read_metrics
from otflam.core.train import fit, rate_at
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


def trained_block(path: Path, **asked: Any) -> dict[str, Tensor]:
    """The weights of a small Transformer after a few steps, with dropout."""

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block(8, 2, 16, 0.3)

        def forward(self, batch: Batch) -> Terms:
            x = batch.columns["x"][:, :, None].expand(-1, 3, 8)
            return Terms({"error": (self.block(x) - x.flip(1)).square().mean()}, {})

    torch.manual_seed(0)
    model = Reader()
    fit(model, Numbers(), config(), Run(path, {}), launch(Hardware(**asked)))
    return model.state_dict()


def test_what_is_computed_again_is_the_same(tmp_path: Path) -> None:
    plain = trained_block(tmp_path / "plain")
    for name, weight in trained_block(tmp_path / "recomputed", recompute=True).items():
        assert torch.equal(weight, plain[name])  # even what dropout left out


def test_compiling_needs_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="needs a C\\+\\+ compiler"):
        launch(Hardware(compile=True, accelerator="cpu"))


def test_a_batch_in_parts_is_the_whole_batch(tmp_path: Path) -> None:
    lines = {}
    for parts in (1, 4):
        torch.manual_seed(0)
        lines[parts], settings = Line().eval(), config()
        lines[parts].drop = nn.Identity()
        fit(lines[parts], Numbers(), settings, Run(tmp_path / str(parts), {}), launch(Hardware(parts=parts)))
    for name, weight in lines[1].state_dict().items():
        torch.testing.assert_close(lines[4].state_dict()[name], weight)
    rows = [read_metrics(tmp_path / str(parts)) for parts in lines]
    assert [row["error"] for row in rows[1]] == pytest.approx([row["error"] for row in rows[0]], rel=1e-4)
    with pytest.raises(UserError, match="batch of 8 on 1 processes in 3 parts: choose a multiple of 3"):
        fit(Line(), Numbers(), config(), Run(tmp_path / "odd", {}), launch(Hardware(parts=3)))


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
    monkeypatch.setattr(type(fabric.fabric), "world_size", 2)
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


@pytest.fixture(scope="module")
def alone(data: Store, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float]]:
    """What one process logs."""
    return logged_by([command(data, tmp_path_factory.mktemp("alone") / "run", "--accelerator", "cpu")])


def logged_by(commands: list[list[str]]) -> list[dict[str, float]]:
    """Run processes side by side to their end; what the training that they share has logged."""
    begun = [
        subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
        for words in commands
    ]
    texts = [process.communicate(timeout=600) for process in begun]
    assert not any(process.returncode for process in begun), texts
    assert sum("tokenizer: " in out for out, _ in texts) == 1  # one of them tells the result
    out = Path(commands[0][commands[0].index("--out") + 1])
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def assert_same_losses(one: list[dict[str, float]], other: list[dict[str, float]]) -> None:
    assert len(one) == len(other) == 6
    for a, b in zip(one, other, strict=True):
        for name in ("total", "rec", "commit", "orth"):
            assert b[name] == pytest.approx(a[name], rel=1e-5, abs=1e-5)


def test_two_processes_give_the_losses_of_one(data: Store, alone: list[dict[str, float]], tmp_path: Path) -> None:
    assert_same_losses(alone, logged_by([command(data, tmp_path / "run", "--devices", "2", "--accelerator", "cpu")]))


def test_two_machines_give_the_losses_of_one(data: Store, alone: list[dict[str, float]], tmp_path: Path) -> None:
    """Two nodes of torchrun, here on one machine, that meet by address and port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = command(data, tmp_path / "run", "--nodes", "2", "--accelerator", "cpu")
    meet = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", str(port)]
    torchrun = [words[0], "-m", "torch.distributed.run", *meet]
    assert_same_losses(alone, logged_by([[*torchrun, "--node-rank", str(rank), *words[1:]] for rank in (0, 1)]))


def test_a_training_goes_on_with_another_number_of_processes(
    data: Store, alone: list[dict[str, float]], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    begun = subprocess.Popen(
        command(data, out, "--accelerator", "cpu"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (out / "checkpoint.pt").exists():
        assert begun.poll() is None
        time.sleep(0.001)
    begun.kill()
    begun.wait()
    assert not (out / "model.safetensors").exists()
    assert_same_losses(alone, logged_by([command(data, out, "--devices", "2", "--accelerator", "cpu")]))


@pytest.mark.campaign
@pytest.mark.skipif(shutil.which("c++") is None, reason="compiling on a CPU needs a C++ compiler")
def test_a_compiled_model_gives_the_same_losses(data: Store, alone: list[dict[str, float]], tmp_path: Path) -> None:
    """Minutes on a busy machine."""
    compiled = logged_by([command(data, tmp_path / "run", "--compile", "--accelerator", "cpu")])
    for a, b in zip(alone, compiled, strict=True):
        assert b["rec"] == pytest.approx(a["rec"], rel=0.02)
