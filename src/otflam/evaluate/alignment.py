"""What latent actions know: how well true actions, and how well the distractors, can be read from them.

An expert's action follows from its state, and latents contain state, so reading actions proves little by itself. Three
controls stand beside every latent: what the model knows of the present alone, the latent of a future that never comes,
and the raw motion. The headline is the gain over the first. The episodes have action noise, which no state predicts.

Axes: n transitions, f features, a actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32
from torch import Tensor

from otflam.core.batch import Batch
from otflam.data.clips import Clips
from otflam.data.store import Store
from otflam.lam.features import Backbone
from otflam.lam.label import derive_with, label_store
from otflam.lam.methods import load_lam
from otflam.lam.model import LAM
from otflam.motion.config import MotionConfig
from otflam.motion.signal import motion
from otflam.policy.splits import Episodes

VERSION = 1
WIDTH = 256
"""Numbers of the control rows: as many as the widest latents have."""
SAMPLE = 2048
"""Unlabelled transitions that decide which directions of the present are kept."""
ALPHAS = np.logspace(-4, 3, 8)
"""Strengths of a ridge, relative to the number of samples, among which the labelled episodes choose."""
Table = Float[np.ndarray, "_ _"]
"""A row for each transition."""


def aligned_columns(
    store: Store,
    folder: Path,
    backbone: Backbone | None,
    unlabelled: Episodes,
    episodes: Episodes,
    on_part: Callable[[str], Callable[[int, int], None]] = lambda name: lambda done, total: None,
) -> dict[str, Store]:
    """Latents and their controls for some episodes."""
    model = load_lam(folder, backbone)[0]
    clips = Clips(store, model.offsets, (), unlabelled, pad=True)

    def still(lam: LAM) -> Callable[[Batch], Tensor]:
        return lambda batch: lam.infer(frozen_future(batch))

    def present(lam: LAM) -> Callable[[Batch], Tensor]:
        # In small batches: a backbone that runs on the way needs much memory.
        parts = [clips.batch(64, 0, number) for number in range(SAMPLE // 64)]
        mean, axes = principal_axes(torch.cat([lam.present(lam.look(part)).flatten(1) for part in parts]), WIDTH)
        return lambda batch: (lam.present(lam.look(batch)).flatten(1) - mean) @ axes

    def moved(lam: LAM) -> Callable[[Batch], Tensor]:
        return lambda batch: raw_motion(batch, lam.stride)

    def column(name: str, width: int, function: Callable[[LAM], Callable[[Batch], Tensor]]) -> Store:
        return derive_with(store, folder, backbone, name, width, function, episodes, on_part)

    return {
        "latents": label_store(store, folder, backbone, episodes, on_part),
        "present": column("present", WIDTH, present),
        "still": column("still", model.latent, still),
        "motion": column("motion", raw_motion(clips.batch(1, 0, 0), model.stride).shape[1], moved),
    }


def frozen_future(batch: Batch) -> Batch:
    """The same clips if nothing happened from now on; what frozen networks said of them no longer holds."""
    now = batch.offsets.index(0)
    places = [min(place, now) for place in range(len(batch.offsets))]
    columns = {name: column[:, places] for name, column in batch.columns.items() if name != "codes"}
    return Batch(batch.frames[:, places], batch.offsets, columns)


def raw_motion(batch: Batch, stride: int) -> Float[Tensor, "n f"]:
    """Change of the image gradient on a 7×7 grid, its positive and negative parts apart."""
    config = MotionConfig(stride=stride)
    signal = motion(config, [batch.images(offset) for offset in config.offsets])
    return F.adaptive_avg_pool2d(torch.cat([signal.relu(), (-signal).relu()], 1), 7).flatten(1)


def principal_axes(rows: Float[Tensor, "n f"], count: int) -> tuple[Float[Tensor, " f"], Float[Tensor, "f w"]]:
    """Mean and the directions of largest variance, the rest filled with zeros; the same for the same rows, always."""
    mean = rows.mean(0)
    centred = (rows - mean).double()
    values, mixes = torch.linalg.eigh(centred @ centred.T)  # of the samples, which are fewer than the features
    kept = min(count, *rows.shape)
    axes = F.normalize(centred.T @ mixes[:, -kept:].flip(1), dim=0) * (values[-kept:].flip(0) > 1e-9 * values[-1])
    return mean, F.pad(axes.float(), (0, count - kept))


def episodes_of(store: Store, column: Store, name: str, episodes: Sequence[int] | np.ndarray, last: int) -> list[Table]:
    """A derived column, episode by episode, without the rows whose transition leaves the episode."""
    places = {entry["episode"]: place for place, entry in enumerate(column.episodes)}
    return [np.asarray(column.episode(places[int(index)], name))[: -last or None] for index in episodes]


def r2_score(guess: Table, truth: Table) -> float:
    """Share of the variance of all outputs together that is explained; below 0 is worse than their means.

    Not a number where nothing varies, e.g. a background that never turns around.
    """
    spread = np.square(truth - truth.mean(0)).sum()
    return float(1 - np.square(guess - truth).sum() / spread) if spread else float("nan")


def ridge_guess(inputs: list[Table], outputs: list[Table], unseen: Table) -> Table:
    """Linear regression; its strength is chosen on one half of the episodes after fitting the other, both ways."""
    halves = [slice(0, None, 2), slice(1, None, 2)]
    errors = np.zeros(len(ALPHAS))
    if len(inputs) > 1:
        for fitted, checked in (halves, halves[::-1]):
            solve = ridge(np.concatenate(inputs[fitted]), np.concatenate(outputs[fitted]))
            truth = np.concatenate(outputs[checked])
            seen = np.concatenate(inputs[checked])
            errors += [np.square(solve(alpha)(seen) - truth).sum() for alpha in ALPHAS]
    best = ALPHAS[int(errors.argmin())] if len(inputs) > 1 else ALPHAS[len(ALPHAS) // 2]
    return ridge(np.concatenate(inputs), np.concatenate(outputs))(best)(unseen)


def ridge(inputs: Table, outputs: Table) -> Callable[[float], Callable[[Table], Table]]:
    """Solve a standardised ridge once for any strength."""
    mean, deviation, centre = inputs.mean(0), inputs.std(0) + 1e-6, outputs.mean(0)
    normal = (inputs - mean) / deviation
    values, axes = np.linalg.eigh(normal.T @ normal / len(normal))
    seen = axes.T @ (normal.T @ (outputs - centre)) / len(normal)

    def at(alpha: float) -> Callable[[Table], Table]:
        weights = axes @ (seen / (np.maximum(values, 0) + alpha)[:, None])
        return lambda rows: (rows - mean) / deviation @ weights + centre

    return at


def leakage(
    store: Store, known: list[Table], pool: Episodes, unseen: list[Table], probes: Episodes, stride: int
) -> dict[str, float]:
    """How much of the change of each group of distractors a linear probe reads from held-out latents."""
    names = {"camera": "distractor_r2", "colour": "colour_r2", "background": "background_r2"}
    fields = store.meta.get("distractor_fields")
    if fields is None or store.config["world"]["difficulty"] == "vanilla":
        return dict.fromkeys(names.values(), float("nan"))
    found = {}
    for group, name in names.items():
        first, last = fields[group]
        first = last - 1 if group == "background" else first  # which video it is does not change
        changes = [
            [_change(store.episode(int(index), "distractors")[:, first:last], stride) for index in part]
            for part in (pool, probes)
        ]
        guess = ridge_guess(known, changes[0], np.concatenate(unseen))
        found[name] = r2_score(guess, np.concatenate(changes[1]))
    return found


def _change(state: Float32[np.ndarray, "t f"], stride: int) -> Table:
    return (state[stride:] - state[:-stride]).astype(np.float64)


def actions_of(store: Store, episodes: Episodes, last: int) -> list[Table]:
    """True actions, without those of the rows whose transition leaves the episode."""
    return [np.asarray(store.episode(int(index), "actions"))[: -last or None] for index in episodes]
