"""What latent actions know: how well true actions, and how well the distractors, can be read from them.

An expert's action follows from its state, and latents contain state, so reading actions proves little by itself.
Controls stand beside every latent: what three frames tell without any model (the state alone, the same for all methods;
the headline is the gain over it), what the model itself knows of the present, the latent of a future that never comes,
and the raw motion. The episodes have action noise, which no state predicts.

Distractors are to be read as little as can be: then latents know whose action it was.

Axes: n transitions, t time steps, f features, a actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from otflam.core import SILENT, Batch, from_json, stable_hash
from otflam.data import Clips, Column, Store, derive, has_distractors
from otflam.envs import World, open_backgrounds
from otflam.lam import CPU, LAM, Backbone, derive_with, frozen_future, label_store, load_lam
from otflam.motion import MotionConfig, motion
from otflam.policy import Episodes

ALIGNMENT_VERSION = 2
WIDTH = 256
"""Numbers of the control rows: as many as the widest latents have."""
SAMPLE = 2048
"""Unlabelled transitions, at most, that decide which directions of the present are kept."""
SAMPLE_BATCH = 64
"""So many of them at a time: a backbone that runs on the way needs much memory."""
ALPHAS = np.logspace(-4, 3, 8)
"""Strengths of a ridge, relative to the number of samples, among which the labelled episodes choose."""
STATE_OFFSETS = (-2, -1, 0)
"""Frames of the state-only row."""
COLUMNS = ("latents", "present", "still", "state", "motion")
"""What actions are read from."""
Table = Float[np.ndarray, "_ _"]
"""A row for each transition."""
GRID = 4
"""Side of the grid on which the change of a background video is seen."""
NAMES = {"camera": "distractor_r2", "colour": "colour_r2", "background": "background_r2"}


@runtime_checkable
class ByEpisode(Protocol):
    """What is read episode by episode: a data set, a derived column, or rows in memory."""

    @property
    def places(self) -> Mapping[int, int]:
        """Where each episode stands in it."""
        ...

    def episode(self, index: int, column: str, /) -> np.ndarray: ...


def aligned_columns(
    store: Store,
    folder: Path,
    backbone: Backbone | None,
    unlabelled: Episodes,
    episodes: Episodes,
    device: torch.device = CPU,
    names: Sequence[str] = COLUMNS,
) -> dict[str, Store]:
    """Latents and their controls for some episodes; what the unlabelled ones decide is the same for all."""
    model = load_lam(folder, backbone)[0]
    clips = Clips(store, model.offsets, (), unlabelled, pad=True)
    about = [ALIGNMENT_VERSION, WIDTH, sampled(clips), unlabelled.tolist()]

    def still(lam: LAM) -> Callable[[Batch], Tensor]:
        return lambda batch: lam.infer(frozen_future(batch))

    def present(lam: LAM) -> Callable[[Batch], Tensor]:
        # The future is frozen, for some models let it shape what they see of the present.
        def view(batch: Batch) -> Tensor:
            return lam.present(lam.observe(frozen_future(batch))).flatten(1)

        seen = torch.cat([view(part.to(device)).cpu() for part in sample(clips)])
        mean, axes = (part.to(device) for part in principal_axes(seen, WIDTH))
        return lambda batch: (view(batch) - mean) @ axes

    def column(name: str, function: Callable[[LAM], Callable[[Batch], Tensor]], width: int | None = None) -> Store:
        made = (store, folder, backbone, name, width, function, episodes, SILENT, about)
        return derive_with(*made, keep_features=True, device=device)

    makers: dict[str, Callable[[], Store]] = {
        "latents": lambda: label_store(store, folder, backbone, episodes, keep_features=True, device=device),
        "present": lambda: column("present", present, WIDTH),
        "still": lambda: column("still", still),
        "state": lambda: state_column(store, unlabelled, episodes),
        "motion": lambda: motion_column(store, model.stride, episodes),
    }
    return {name: makers[name]() for name in names}


def state_column(store: Store, unlabelled: Episodes, episodes: Episodes) -> Store:
    """What can be seen without any model, the same for all methods: principal directions of three stacked frames."""
    seen = Clips(store, STATE_OFFSETS, (), unlabelled, pad=True)

    @cache
    def basis() -> tuple[Tensor, Tensor]:
        return principal_axes(torch.cat([small_stack(part) for part in sample(seen)]), WIDTH)

    def compute(index: int) -> np.ndarray:
        clips = Clips(store, STATE_OFFSETS, (), [index], pad=True)
        mean, axes = basis()
        return ((small_stack(clips.gather(np.arange(len(clips)))) - mean) @ axes).numpy()

    key = stable_hash(["state", ALIGNMENT_VERSION, WIDTH, sampled(seen), unlabelled.tolist()])
    return derive(store, "state", key, Column("float32", (WIDTH,)), compute, episodes=episodes)


def sampled(clips: Clips) -> int:
    """How many transitions decide: each once, but for what fills the last part."""
    return SAMPLE_BATCH * math.ceil(min(SAMPLE, len(clips)) / SAMPLE_BATCH)


def sample(clips: Clips) -> Iterator[Batch]:
    """The transitions that decide, part by part."""
    return (clips.batch(SAMPLE_BATCH, 0, number) for number in range(sampled(clips) // SAMPLE_BATCH))


def small_stack(batch: Batch) -> Float[Tensor, "n f"]:
    """Three grey frames at half their size."""
    grey = torch.cat([batch.images(offset).mean(1, keepdim=True) for offset in STATE_OFFSETS], 1)
    return F.avg_pool2d(grey, 2).flatten(1)


def motion_column(store: Store, stride: int, episodes: Episodes) -> Store:
    """The raw motion of every transition."""
    width = raw_motion(Clips(store, (0, stride)).batch(1, 0, 0), stride).shape[1]

    def compute(index: int) -> np.ndarray:
        rows = np.zeros((int(store.lengths[index]), width), np.float32)
        if len(rows) > stride:
            clips = Clips(store, (0, stride), (), [index])
            rows[: len(clips)] = raw_motion(clips.gather(np.arange(len(clips))), stride).numpy()
        return rows

    key = stable_hash(["motion", ALIGNMENT_VERSION, stride])
    return derive(store, "motion", key, Column("float32", (width,)), compute, episodes=episodes)


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


def episodes_of(column: ByEpisode, name: str, episodes: Sequence[int] | np.ndarray, last: int) -> list[Table]:
    """A column, derived or not, episode by episode, without the rows whose transition leaves the episode."""
    places = column.places
    return [np.asarray(column.episode(places[int(index)], name))[: -last or None] for index in episodes]


def r2_score(guess: Table, truth: Table) -> float:
    """Share of the variance of all outputs together that is explained; below 0 is worse than their means.

    Not a number where nothing varies, e.g. a background that never turns around.
    """
    total = np.square(truth - truth.mean(0)).sum()
    return float(1 - np.square(guess - truth).sum() / total) if total else float("nan")


def ridge_guess(inputs: list[Table], outputs: list[Table], unseen: Table) -> Table:
    """Linear regression; its strength is chosen on one half of the episodes after fitting the other, both ways."""
    return ridge_guesses(inputs, {"": outputs}, unseen)[""]


def ridge_guesses(inputs: list[Table], outputs: Mapping[str, list[Table]], unseen: Table) -> dict[str, Table]:
    """The same of several outputs, each with its own strength; what the inputs ask for is done once."""
    halves, folds = [slice(0, None, 2), slice(1, None, 2)], []
    if len(inputs) > 1:
        for fitted, checked in (halves, halves[::-1]):
            ridge = Ridge(np.concatenate(inputs[fitted]))
            folds.append((ridge, ridge.standardise(np.concatenate(inputs[checked])), fitted, checked))
    whole, found = Ridge(np.concatenate(inputs)), {}
    rows = whole.standardise(unseen)
    for name, known in outputs.items():
        errors = np.zeros(len(ALPHAS))
        for ridge, seen, fitted, checked in folds:
            guess, truth = ridge.fit(np.concatenate(known[fitted])), np.concatenate(known[checked])
            errors += [np.square(guess(alpha, seen) - truth).sum() for alpha in ALPHAS]
        best = ALPHAS[int(errors.argmin())] if folds else ALPHAS[len(ALPHAS) // 2]
        found[name] = whole.fit(np.concatenate(known))(best, rows)
    return found


class Ridge:
    """A standardised ridge, solved once for any strength and any outputs."""

    def __init__(self, inputs: Table) -> None:
        self.mean, self.deviation = inputs.mean(0), inputs.std(0) + 1e-6
        self.normal = self.standardise(inputs)
        self.values, self.axes = np.linalg.eigh(self.normal.T @ self.normal / len(inputs))

    def standardise(self, rows: Table) -> Table:
        return (rows - self.mean) / self.deviation

    def fit(self, outputs: Table) -> Callable[[float, Table], Table]:
        """What guesses outputs at a strength from rows that are standardised."""
        centre = outputs.mean(0)
        seen = self.axes.T @ (self.normal.T @ (outputs - centre)) / len(self.normal)

        def guess(alpha: float, rows: Table) -> Table:
            weights = self.axes @ (seen / (np.maximum(self.values, 0) + alpha)[:, None])
            return rows @ weights + centre

        return guess


def leakage_metrics(
    store: Store, known: list[Table], pool: Episodes, unseen: list[Table], probes: Episodes, stride: int
) -> dict[str, float]:
    """How much of the change of each group of distractors a linear probe reads from held-out latents.

    Numbers of a group count equally, whatever their units; nothing can be read where there are no distractors.
    """
    fields = store.meta.get("distractor_fields")
    if fields is None or not has_distractors(store):
        return dict.fromkeys(NAMES.values(), math.nan)
    found = {}
    for group, name in NAMES.items():
        known_changes, unseen_changes = (
            [change(store, int(index), group, stride) for index in episodes] for episodes in (pool, probes)
        )
        guess, truth = ridge_guess(known, known_changes, np.concatenate(unseen)), np.concatenate(unseen_changes)
        each = [r2_score(guess[:, [part]], truth[:, [part]]) for part in range(truth.shape[1])]
        moving = [score for score in each if not math.isnan(score)]
        found[name] = float(np.mean(moving)) if moving else math.nan
    return found


def change(store: Store, index: int, group: str, stride: int) -> Float[np.ndarray, "t f"]:
    """How a group of distractors changes over a transition."""
    first, last = store.meta["distractor_fields"][group]
    state = store.episode(index, "distractors")[:, first:last].astype(np.float64)
    if group == "background" and state[0, 0] >= 0:
        state = seen_background(store, int(state[0, 0]), state[:, 1].astype(int))
    return state[stride:] - state[:-stride]


def seen_background(store: Store, video: int, frames: np.ndarray) -> Float[np.ndarray, "t f"]:
    """The video's frames on a coarse grid: which number a frame has says nothing that could be seen."""
    world = from_json(World, store.config["world"], "meta.json world")
    clip = torch.from_numpy(np.array(open_backgrounds(world.backgrounds, world.split).clip(video, 32)))
    grey = clip.to(torch.float64).mean(3)[:, None]
    return F.adaptive_avg_pool2d(grey, GRID).flatten(1).numpy()[frames]
