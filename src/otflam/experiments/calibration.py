"""Times and weighs a few real steps of every part of an experiment, at a preset's own sizes."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from otflam.core import Hardware, Progress, TrainConfig, use_one_thread
from otflam.data import Store, collect_episodes, make_moving_mnist, recorded_collection, render
from otflam.evaluate import BASELINE, CONTROL, EVALUATION, GAMES, TOGETHER, play
from otflam.experiments import lams
from otflam.experiments.datasets import Lab, collection_of
from otflam.lam import LAM, METHODS, label_store, store_features, train_lam
from otflam.policy import AgentPlan, train_agent, train_reference
from otflam.tokenizer import train_frame_tokenizer, train_tokenizer

EPISODES, EPISODE_STEPS = 4, 100
"""Of the data that are collected to calibrate with: long enough for every model's window."""
TIMED_STEPS, FEW_TIMED_STEPS = 6, 3
"""Of a training that is timed; fewer where its batches are large."""
MAX_TIMED_BATCH, REDUCED_BATCH = 64, 8
"""Batches above the first are timed at the second and taken to cost in proportion."""
TRAINED, HELD_OUT, UNUSED_EPISODE = [0, 1], [2], 3
"""Few, for frozen networks read them all."""
PLAYED_STEPS = (20, 220)
"""Steps that an agent is watched for; the difference leaves out what the start takes."""


@dataclass(frozen=True)
class Cost:
    seconds: float
    """Per unit: a step, a frame."""
    per_unit: float = 0.0
    """Bytes on disk per unit."""
    each: float | int = 0
    """Bytes on disk for each piece, however long it takes."""
    frames: float | int = 0
    """Frames read per unit."""


class Calibration:
    """Runs every part shortly in a folder of its own; what one part needs of another is made once."""

    def __init__(self, folder: Path, lab: Lab) -> None:
        use_one_thread()  # as cells are run
        self.folder, self.lab, self.preset = folder, lab, lab.preset
        self.costs: dict[str, Cost] = {}

    def cost(self, kind: str) -> Cost:
        """The cost of a kind of work, such as 'lam flam-4' or 'clone'."""
        if kind not in self.costs:
            first, _, rest = kind.partition(" ")
            self.costs[kind] = getattr(self, f"_{first}")(rest)
        return self.costs[kind]

    @cached_property
    def store(self) -> Store:
        plan, timer = collection_of(self.preset, CONTROL[0]), StepTimer()
        plan = dataclasses.replace(plan, episodes=EPISODES, steps=EPISODE_STEPS, noise=self.preset.noise)
        store = collect_episodes(plan, self.folder / "data", 1, timer)
        self.costs["collect"] = Cost(timer.pace, folder_bytes(store.path) / store.rows)
        return store

    @cached_property
    def game(self) -> Store:
        timer, plan = StepTimer(), collection_of(self.preset, GAMES[0])
        store = collect_episodes(dataclasses.replace(plan, episodes=EPISODES), self.folder / "game", 1, timer)
        self.costs["collect games"] = Cost(timer.pace, folder_bytes(store.path) / store.rows)
        return store

    def _collect(self, rest: str) -> Cost:
        (self.game if rest == "games" else self.store).meta  # noqa: B018 - made once, and timed as it is
        return self.costs[f"collect {rest}".strip()]

    def _draw(self, what: str) -> Cost:
        timer, began = StepTimer(), time.perf_counter()
        if what == "digits":
            digits = make_moving_mnist(dataclasses.replace(self.preset.mnist, sequences=21 * 5), self.folder / "digits")
            return Cost((time.perf_counter() - began) / digits.rows, folder_bytes(digits.path) / digits.rows)
        world = dataclasses.replace(recorded_collection(self.store).world, difficulty="vanilla")
        rendered = render(self.store, world, self.folder / "again", 1, timer)
        return Cost(timer.pace, folder_bytes(rendered.path) / rendered.rows)

    def _tokenizer(self, what: str) -> Cost:
        if what == "of frames":
            training, frames = self.preset.frame_training, self.preset.frame_tokenizer
            return self._trained(
                "tokenizer of frames", training, lambda *a: train_frame_tokenizer(self.store, TRAINED, frames, *a), 1
            )
        digits = what.endswith("(digits)")
        config = self.preset.digit_tokenizer if digits else self.preset.tokenizer
        config = dataclasses.replace(config, method=what.partition(" ")[0], warmup=1)
        training = self.preset.digit_training if digits else self.preset.tokenizer_training
        if digits:
            self.cost("draw digits")
        store = Store(self.folder / "digits") if digits else self.store
        offsets = len(config.motion.offsets)
        return self._trained(
            f"tokenizer {what}", training, lambda *a: train_tokenizer(store, TRAINED, config, *a), offsets
        )

    def _lam(self, method: str) -> Cost:
        config, training, base = self.preset.lam[method], self.preset.lam_training[method], None
        stands_on, low = METHODS[method].base, METHODS[method].low
        if stands_on is not None:
            bases = {"motion tokenizer": "tokenizer otf", "frame tokenizer": "tokenizer of frames"}
            base = self.folder / bases.get(stands_on, f"lam {low}")
            self.cost(base.name)
        dino = lams.backbone_for(self.lab, lams.Job(method, ""))
        online, parts = dino is not None and not self.preset.featured, (TRAINED, HELD_OUT)

        def train(short: TrainConfig, hardware: Hardware, out: Path, timer: Progress) -> LAM:
            return train_lam(method, self.store, parts, config, short, hardware, out, base, dino, online, timer)

        return self._trained(f"lam {method}", training, train)

    def _dino(self, rest: str) -> Cost:
        dino, began = lams.backbone_for(self.lab, lams.Job("otf-lam-dino", "")), time.perf_counter()
        if dino is None:
            return Cost(0.0)
        column = store_features(self.store, dino, HELD_OUT)
        rows = len(HELD_OUT) * EPISODE_STEPS
        return Cost((time.perf_counter() - began) / rows, folder_bytes(column.path) / rows, frames=1)

    def _latents(self, method: str) -> Cost:
        self.cost(f"lam {method}")
        dino, began = lams.backbone_for(self.lab, lams.Job(method, "")), time.perf_counter()
        column = label_store(self.store, self.folder / f"lam {method}", dino, [UNUSED_EPISODE])
        return Cost((time.perf_counter() - began) / EPISODE_STEPS, folder_bytes(column.path) / EPISODE_STEPS, frames=1)

    def _clone(self, rest: str) -> Cost:
        """A whole agent: what its clone and its decoder cost."""
        self.cost(f"lam {BASELINE}")
        config, out, timer = self.preset.policy, self.folder / "agent", StepTimer()
        scale = config.clone.batch / timed(config.clone.batch)
        # Decoders are small: they are timed as they are.
        decode = dataclasses.replace(shorten(config.decode), batch=config.decode.batch)
        config = dataclasses.replace(config, clone=shorten(config.clone), decode=decode)
        task = AgentPlan(self.store, 1, config, self.preset.hardware, out, progress=timer)
        train_agent(task, self.folder / f"lam {BASELINE}", None, "decode")
        self.costs["decoder"] = Cost(timer.seconds("decoder"), 0.0, folder_bytes(out / "decoder"))
        read = self.preset.policy.clone.batch * config.actor.frames
        return Cost(timer.seconds("clone") * scale, 0.0, folder_bytes(out / "clone"), read)

    def _decoder(self, rest: str) -> Cost:
        self.cost("clone")
        return self.costs["decoder"]

    def _play(self, rest: str) -> Cost:
        if rest == "games":  # levels end when they like
            timer, player, shape = StepTimer(), self.folder / "player", self.preset.policy
            config = dataclasses.replace(shape, clone=shorten(shape.clone))
            train_reference(AgentPlan(self.game, 1, config, self.preset.hardware, player), "all-actions")
            play(player, recorded_collection(self.game).world, EVALUATION, 2 * TOGETHER, 1, progress=timer)
            return Cost(timer.pace)
        self.cost("clone")
        world, spent = recorded_collection(self.store).world, []
        agent = self.folder / "agent"
        play(agent, world, EVALUATION, TOGETHER, 1, 1)  # opens the worlds, which the next ones find open
        for steps in PLAYED_STEPS:
            began = time.perf_counter()
            play(agent, world, EVALUATION, TOGETHER, 1, steps)
            spent.append(time.perf_counter() - began)
        return Cost((spent[1] - spent[0]) / (PLAYED_STEPS[1] - PLAYED_STEPS[0]) / TOGETHER)

    def _trained(self, kind: str, training: TrainConfig, train: Callable[..., Any], frames: int = 0) -> Cost:
        """The cost of a step of a training, which is given its settings and what to call.

        A sample has so many frames, if the model itself does not say which.
        """
        timer, out = StepTimer(), self.folder / kind
        model = train(shorten(training), self.preset.hardware, out, timer)
        seconds = timer.seconds() * training.batch / timed(training.batch)
        return Cost(seconds, 0.0, folder_bytes(out), training.batch * (frames or len(model.training_offsets)))


class StepTimer(Progress):
    """Hears of every step and tells what one takes, in the latest part or in one of a name."""

    def __init__(self) -> None:
        self.parts: dict[str, list[tuple[float, int]]] = {}
        self.part("")

    def part(self, label: str, unit: str = "episodes") -> StepTimer:
        self.ticks = self.parts[label] = []
        return self

    def start(self, done: int, total: int) -> None:
        self.advance(0)

    def advance(self, count: int = 1) -> None:
        self.ticks.append((time.perf_counter(), count))

    @property
    def pace(self) -> float:
        """Seconds of one unit, from the first step on: what comes before is preparation."""
        (_, first, *others) = self.ticks
        return (self.ticks[-1][0] - first[0]) / max(sum(count for _, count in others), 1)

    def seconds(self, part: str | None = None) -> float:
        """The median, which leaves out the first steps' preparations."""
        ticks = self.ticks if part is None else self.parts[part]
        return statistics.median(after - before for (before, _), (after, _) in pairwise(ticks))


def timed(batch: int) -> int:
    return batch if batch <= MAX_TIMED_BATCH else REDUCED_BATCH


def shorten(training: TrainConfig) -> TrainConfig:
    """A few steps; fewer where they are so large that a small machine takes long."""
    batch = timed(training.batch)
    steps = TIMED_STEPS if batch == training.batch else FEW_TIMED_STEPS
    return dataclasses.replace(training, steps=steps, batch=batch, log_every=steps, save_every=steps)


def folder_bytes(folder: Path) -> int:
    """Bytes of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
