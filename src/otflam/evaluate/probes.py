"""A small network that reads actions from anything, and how fast it learns to."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch

from otflam.core.run import read_metrics
from otflam.core.training import Hardware, TrainConfig
from otflam.evaluate.alignment import Table
from otflam.policy.config import ActionDecoderConfig
from otflam.policy.decode import Pairs, held_out_error, train_decoder
from otflam.policy.spaces import ActionSpace, LatentSpace


def mlp_guess(
    space: ActionSpace | LatentSpace,
    inputs: list[Table],
    actions: list[Table],
    unseen: Table,
    truth: Table,
    train: TrainConfig,
) -> tuple[Table, list[float], list[float]]:
    """Its guesses for unseen rows, and the steps and values of its held-out error."""
    table = np.concatenate(inputs).astype(np.float32)
    mean, deviation = table.mean(0), table.std(0) + 1e-6
    known, held = (torch.from_numpy((rows.astype(np.float32) - mean) / deviation) for rows in (table, unseen))
    pairs, test = Pairs(known, torch.from_numpy(np.concatenate(actions))), Pairs(held, torch.from_numpy(truth))
    with tempfile.TemporaryDirectory() as folder:
        out, check = Path(folder) / "probe", held_out_error(test, space)
        cpu = Hardware(accelerator="cpu")
        decoder = train_decoder(pairs, ActionDecoderConfig(), space, train, cpu, out, {}, check)
        logged = [row for row in read_metrics(out) if "check/held_out" in row]
    with torch.no_grad():
        guess = decoder.act(held).numpy()
    return guess, [float(row["step"]) for row in logged], [round(row["check/held_out"], 5) for row in logged]
