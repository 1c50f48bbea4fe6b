"""Reading actions from anything: linearly, and with a small network, and how fast that learns to."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from otflam.core import Hardware, TrainConfig, read_metrics
from otflam.data import Store
from otflam.evaluate.alignment import ByEpisode, Table, episodes_of, r2_score, ridge_guess
from otflam.policy import ActionDecoderConfig, ActionSpace, Episodes, LatentSpace, Pairs, held_out_error, train_decoder


def read_actions(
    store: Store, columns: Mapping[str, ByEpisode], labelled: Episodes, probes: Episodes, last: int, train: TrainConfig
) -> dict[str, float | list[float]]:
    """How well actions are read from latents and from their controls, each a column; `last` is the latents' stride."""
    space = ActionSpace.of(store)
    actions, truths = (episodes_of(store, "actions", part, last) for part in (labelled, probes))
    if count := space.discrete:  # read as a number for each choice, 1 for the one that was made
        actions, truths = ([np.eye(count, dtype=np.float32)[r[:, 0].astype(int)] for r in t] for t in (actions, truths))
        space = ActionSpace.between(np.zeros(count), np.ones(count))
    truth, edges = np.concatenate(truths), np.cumsum([len(part) for part in truths])[:-1]
    rows = {name: episodes_of(column, name, labelled, last) for name, column in columns.items()}
    tests = {name: np.concatenate(episodes_of(column, name, probes, last)) for name, column in columns.items()}
    rows["both"] = [np.concatenate(pair, 1) for pair in zip(rows["latents"], rows["state"], strict=True)]
    tests["both"] = np.concatenate([tests["latents"], tests["state"]], 1)
    linear = {name: ridge_guess(rows[name], actions, tests[name]) for name in rows}
    scores = {name: r2_score(guess, truth) for name, guess in linear.items()}
    errors = np.square(linear["latents"] - truth).mean(1)
    found: dict[str, float | list[float]] = {
        **{f"{name}_r2": score for name, score in scores.items() if name != "latents"},
        "action_r2": scores["latents"],
        "action_r2_gain": scores["latents"] - scores["state"],
        "action_mse": float(errors.mean()),
        # Episodes are what is independent here: intervals are over them.
        "episode_mse": [float(part.mean()) for part in np.split(errors, edges) if len(part)],
    }
    for name, called in {"latents": "mlp", "state": "mlp_state"}.items():
        guess, steps, curve = mlp_guess(space, rows[name], actions, tests[name], truth, train)
        found[f"{called}_r2"] = r2_score(guess, truth)
        if name == "latents":
            found |= {"mlp_mse": float(np.square(guess - truth).mean()), "curve_steps": steps, "curve_mse": curve}
    return found


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
