"""Where the curves of a training are shown, beside the lines of metrics that every run keeps.

Packages are imported when a training shows its first numbers there, and never otherwise.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from importlib import import_module, util
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from otflam.core.config import Logger, stable_hash
from otflam.core.errors import UserError, first_line

PROJECT = "otflam"
OF_EXTRAS: tuple[Logger, ...] = ("wandb", "trackio")
"""Boards whose package is not among our dependencies."""


@runtime_checkable
class Board(Protocol):
    """What shows numbers."""

    def log(self, row: dict[str, float]) -> None:
        """Show a row of metrics at its step."""
        ...

    def close(self) -> None: ...


class TensorBoard:
    """Files in the run's folder, for `tensorboard --logdir`."""

    def __init__(self, folder: Path, config: Any, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # late: it takes a second to load

        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step)

    def log(self, row: dict[str, float]) -> None:
        for name, value in row.items():
            self._writer.add_scalar(name, value, int(row["step"]))

    def close(self) -> None:
        self._writer.close()


class WandB:
    """A run of Weights & Biases; its files lie in the run's folder, and what was stopped goes on as the same run."""

    def __init__(self, folder: Path, config: Any, step: int) -> None:
        wandb = import_module("wandb")
        settings = wandb.Settings(silent=True, console="off")
        self._run = wandb.init(
            project=PROJECT, name=folder.name, dir=str(folder), config=config, settings=settings,
            id=identity(folder, config), resume="allow", reinit="create_new",
        )  # fmt: skip

    def log(self, row: dict[str, float]) -> None:
        self._run.log(numbers(row), step=int(row["step"]))

    def close(self) -> None:
        self._run.finish()


class Trackio:
    """A run in trackio's own data base on this machine; what was stopped goes on as the same run."""

    def __init__(self, folder: Path, config: Any, step: int) -> None:
        trackio = import_module("trackio")
        name = f"{folder.name}-{identity(folder, config)}"
        with contextlib.redirect_stdout(sys.stderr):  # what it says is no answer of ours
            self._run = trackio.init(project=PROJECT, name=name, config=config, resume="allow", embed=False)

    def log(self, row: dict[str, float]) -> None:
        self._run.log(numbers(row), step=int(row["step"]))

    def close(self) -> None:
        with contextlib.redirect_stdout(sys.stderr):
            self._run.finish()


BOARDS: dict[Logger, Callable[[Path, Any, int], Board]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "trackio": Trackio,
}


def numbers(row: dict[str, float]) -> dict[str, float]:
    """The metrics of a row without its step, which boards are told separately."""
    return {name: value for name, value in row.items() if name != "step"}


def identity(folder: Path, config: Any) -> str:
    """Names a run for a board: the same folder and settings are the same run."""
    return stable_hash([str(folder.resolve()), config])[:12]


def check_logger(logger: Logger) -> None:
    """Refuse a board whose package is missing, before anything is written."""
    if logger in OF_EXTRAS and util.find_spec(logger) is None:
        raise UserError(f"--logger {logger}: its package is not installed", f"pip install 'otflam[{logger}]'")


def open_board(logger: Logger, folder: Path, config: Any, step: int) -> Board | None:
    """The board of a run, from a step on; none if none is wanted."""
    if logger == "none":
        return None
    check_logger(logger)
    if logger not in OF_EXTRAS:
        return BOARDS[logger](folder, config, step)
    try:
        return BOARDS[logger](folder, config, step)
    except Exception as error:  # whatever a service says when it cannot be reached
        raise UserError(f"--logger {logger}: {first_line(error)}", HELP[logger]) from None


HELP = {
    "wandb": "log in with 'wandb login', or set WANDB_MODE=offline",
    "trackio": "see its documentation, or take another logger",
}
