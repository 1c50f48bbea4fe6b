"""A run directory: configuration, metrics, checkpoint; everything needed to continue or to trust a training.

config.json       the resolved configuration and what it was trained on
metrics.jsonl     one line per logged step        (and on the board that was asked for)
checkpoint.pt     the state to continue from
model.safetensors the trained weights; written last
"""

from __future__ import annotations

import json
import os
import weakref
import zipfile
from pathlib import Path
from typing import Any

import torch

from otflam.core.boards import check_logger, open_board
from otflam.core.config import Logger, to_json
from otflam.core.errors import UserError
from otflam.core.files import clear_temporary, lock_folder, read_json, replacing, write_json, write_text

METRICS = "metrics.jsonl"
METRICS_CURE = "mend it, or delete the folder and train again"


class Run:
    """Opens a run directory, new or interrupted, for exactly one configuration."""

    def __init__(self, path: Path, config: Any, *, writes: bool = True, logger: Logger = "tensorboard") -> None:
        """`writes` is False in all but one of the processes that train together."""
        self.path, self.writes, self.logger, self._board = path, writes, logger, None
        self._config = wanted = to_json(config)
        if (path / "config.json").exists():
            begun = read_json(path / "config.json", "delete the folder and start again")
            if not isinstance(begun, dict):
                raise UserError(f"{path / 'config.json'} is no JSON object", "delete the folder and start again")
            # As text: Python takes true for 1.
            changed = sorted(key for key in {**begun, **wanted} if _text(begun.get(key)) != _text(wanted.get(key)))
            if changed:
                raise UserError(
                    f"{path} holds another training ({', '.join(changed)} differ)", "use its settings or another folder"
                )
        if not self.finished:
            check_logger(logger)
        if writes and not self.finished:  # a finished run is of use where nobody may write
            path.mkdir(parents=True, exist_ok=True)
            weakref.finalize(self, os.close, lock_folder(path))
            clear_temporary(path)
            write_json(path / "config.json", wanted)  # again too: a field given twice would stay in it

    @property
    def finished(self) -> bool:
        return (self.path / "model.safetensors").exists()

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.pt"

    def load(self) -> dict[str, Any] | None:
        """The last checkpoint, if there is one."""
        if not self.checkpoint.exists():
            return None
        try:
            with zipfile.ZipFile(self.checkpoint) as parts:  # torch itself does not look at the checksums
                altered = parts.testzip()
            saved = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many kinds over a damaged file
            altered, saved = type(error).__name__, None
        if altered is not None or not isinstance(saved, dict):
            raise UserError(f"{self.checkpoint} is damaged ({altered or 'no state'})", "delete it to start again")
        return saved

    def forget_after(self, step: int) -> None:
        """Drop metrics that were logged after a checkpoint, for they will come again."""
        metrics = self.path / METRICS
        if self.writes and metrics.exists():
            kept = [row for row in read_metrics(self.path) if row["step"] <= step]
            write_text(metrics, "".join(f"{json.dumps(row)}\n" for row in kept))

    def save(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint; if that fails, the one from before is still there."""
        if not self.writes:
            return
        with replacing(self.checkpoint) as temporary:
            torch.save(state, temporary)

    def log(self, row: dict[str, float]) -> None:
        """Append one line of metrics."""
        if not self.writes:
            return
        with (self.path / METRICS).open("a") as file:
            file.write(json.dumps(row) + "\n")
        if self._board is None:
            self._board = open_board(self.logger, self.path, self._config, int(row["step"]))
        if self._board is not None:
            self._board.log(row)

    def close(self) -> None:
        if self._board is not None:
            self._board.close()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def read_metrics(path: Path) -> list[dict[str, float]]:
    """All logged rows of a run; a last line without an end was being written when the run was killed."""
    file = path / METRICS
    try:
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        raise UserError(f"{file} does not exist", "train again, or copy the whole folder") from None
    except UnicodeDecodeError:
        raise UserError(f"{file} is not text", METRICS_CURE) from None
    return [_row(line, f"{file}, line {number}") for number, line in enumerate(lines, 1)]


def _row(line: str, where: str) -> dict[str, float]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise UserError(f"{where} is no JSON", METRICS_CURE) from None
    if not isinstance(row, dict) or not isinstance(row.get("step"), int) or isinstance(row["step"], bool):
        raise UserError(f"{where} has no step", METRICS_CURE)
    for name, value in row.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UserError(f"{where}: {name} is {value!r}, not a number", METRICS_CURE)
    return row


def training_seconds(path: Path) -> float:
    """Time that a run spent in training steps, over all its sittings."""
    before, total = 0.0, 0.0
    for row in read_metrics(path):
        if not row.get("steps_per_s", 0) > 0:
            raise UserError(f"{path / METRICS}: step {row['step']} has no steps_per_s above 0", METRICS_CURE)
        total += (row["step"] - before) / row["steps_per_s"]
        before = row["step"]
    return total


def learning_curve(path: Path, name: str, points: int = 40) -> tuple[list[float], list[float]]:
    """Steps of a run and a metric there, each the mean of as many logged rows as leave about this many points."""
    rows = [row for row in read_metrics(path) if name in row]
    size = max(len(rows) // points, 1)
    parts = [rows[first : first + size] for first in range(0, len(rows), size)]
    return [float(part[-1]["step"]) for part in parts], [sum(row[name] for row in part) / len(part) for part in parts]
