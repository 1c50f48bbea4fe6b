"""Commands that make data sets, look into them and convert them, and that train and evaluate the experts in them."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from otflam.commands.base import DataSet, NewData, Sizes, Workers, describe, required
from otflam.core import READ_ONLY, default_workers, read_json, write_json
from otflam.data import Collection, MovingMNIST, VideoImport
from otflam.envs import Difficulty, Quality, Recipe, Split
from otflam.presets import get_preset
from otflam.report import ProgressBar, say


@dataclass(frozen=True)
class Collect:
    """Collect episodes of a task into a data set."""

    plan: Collection
    out: Path
    """Folder of the new data set; an interrupted collection continues there."""
    workers: Workers = field(default_factory=default_workers)
    preset: Sizes = "laptop"

    @classmethod
    def defaults(cls, name: str) -> Collect:
        plan = get_preset(name).collection
        plan = dataclasses.replace(plan, world=required(plan.world, "task"))
        return required(cls(plan, Path(), preset=name), "out")

    def run(self) -> None:
        from otflam.data import collect_episodes

        with ProgressBar(f"collect {self.plan.world.task}", "frames") as bar:
            store = collect_episodes(self.plan, self.out, self.workers, bar)
        describe(store)


@dataclass(frozen=True)
class DataInfo:
    """Print what is inside a data set and write its contact sheet."""

    data: DataSet
    sheet: Path | None = None
    """Where to write the contact sheet; by default DATA/sheet.png."""

    def run(self) -> None:
        from otflam.data import Store
        from otflam.report import contact_sheet

        store = Store(self.data)
        describe(store)
        if "frames" not in store:
            return
        try:
            path = contact_sheet(store, self.sheet or self.data / "sheet.png", self.data.resolve().name)
        except OSError as error:
            if self.sheet is not None or error.errno not in READ_ONLY:
                raise
            say("contact sheet: none, for the data cannot be written; say where with --sheet FILE")
        else:
            say(f"contact sheet: {path}")


@dataclass(frozen=True)
class DataCheck:
    """Read a whole data set, and what was computed from it, and compare it with its checksums."""

    data: DataSet

    def run(self) -> None:
        from otflam.data import Store, derived_stores

        store = Store(self.data)
        columns = list(derived_stores(store))
        with ProgressBar(f"check {self.data}", "episodes") as bar:
            bar.start(0, sum(map(len, [store, *columns])))
            for each in (store, *columns):
                each.check(bar)
        frames = store.lengths.sum()
        say(f"{self.data}: {len(store)} episodes, {frames} frames, all checksums match (hash {store.hash})")
        if columns:
            say(f"{len(columns)} derived columns: all checksums match")


@dataclass(frozen=True)
class DataRender:
    """Draw the same episodes again in another size, difficulty or quality."""

    data: tyro.conf.Positional[Path]
    """The data set to draw again; it must come from 'otflam collect'."""
    out: NewData
    size: int | None = None
    """Frame size; by default as in DATA."""
    difficulty: Difficulty | None = None
    """Distractors; by default as in DATA."""
    quality: Quality | None = None
    """Rendering quality; by default as in DATA."""
    dynamic: bool | None = None
    """Whether distractors move; by default as in DATA."""
    backgrounds: str | None = None
    """Background videos; by default as in DATA."""
    split: Split | None = None
    """Which background videos; by default as in DATA."""
    camera: int | None = None
    """Camera number; by default as in DATA."""
    workers: Workers = field(default_factory=default_workers)

    def run(self) -> None:
        from otflam.data import Store, recorded_collection, render

        source = Store(self.data)
        world = recorded_collection(source).world
        changes = {name: getattr(self, name) for name in world.__dataclass_fields__ if name != "task"}
        world = dataclasses.replace(world, **{name: value for name, value in changes.items() if value is not None})
        with ProgressBar(f"render {world.task}", "frames") as bar:
            store = render(source, world, self.out, self.workers, bar)
        describe(store)


@dataclass(frozen=True)
class ImportVideos:
    """Turn your own video files or frame folders into a data set."""

    source: tyro.conf.Positional[Path]
    """A folder of videos or of image folders, or one video file."""
    out: NewData
    options: VideoImport = field(default_factory=VideoImport)

    def run(self) -> None:
        from otflam.data import import_videos

        with ProgressBar(f"import {self.source}", "bytes") as bar:
            store = import_videos(self.source, self.out, self.options, bar.note, bar)
        describe(store)
        for entry in store.meta["skipped"]:
            say(f"skipped {entry['source']}: {entry['reason']}")


@dataclass(frozen=True)
class ImportLAOM:
    """Turn a LAOM HDF5 file into a data set."""

    file: tyro.conf.Positional[Path]
    """The .hdf5 file."""
    out: NewData

    def run(self) -> None:
        from otflam.data import import_laom

        with ProgressBar(f"import {self.file}", "episodes") as bar:
            store = import_laom(self.file, self.out, bar)
        describe(store)


@dataclass(frozen=True)
class ExportLAOM:
    """Write a data set as a LAOM HDF5 file."""

    data: tyro.conf.Positional[Path]
    """The data set; it needs frames, states and actions."""
    out: Path
    """The .hdf5 file to write."""

    def run(self) -> None:
        from otflam.data import Store, export_laom

        export_laom(Store(self.data), self.out)
        say(f"wrote {self.out}")


@dataclass(frozen=True)
class DataMNIST:
    """Draw Controlled Moving MNIST: one digit, one labelled motion per sequence."""

    out: NewData
    options: MovingMNIST = field(default_factory=MovingMNIST)
    preset: Sizes = "laptop"

    @classmethod
    def defaults(cls, name: str) -> DataMNIST:
        return required(cls(Path(), get_preset(name).mnist, name), "out")

    def run(self) -> None:
        from otflam.data import make_moving_mnist

        with ProgressBar(f"Moving MNIST {self.options.split}", "sequences") as bar:
            store = make_moving_mnist(self.options, self.out, bar)
        describe(store)


@dataclass(frozen=True)
class ExpertTrain:
    """Train a state-based expert for a task from scratch (SAC)."""

    task: tyro.conf.Positional[str]
    """dm_control suite task as DOMAIN-TASK."""
    recipe: Recipe
    out: Path | None = None
    """Folder for checkpoint, learning curve and expert; by default runs/expert/TASK. Training continues there."""
    seed: int = 0
    """Seed of networks, exploration and episodes."""
    preset: Sizes = "laptop"

    @classmethod
    def defaults(cls, name: str) -> ExpertTrain:
        return required(cls("", get_preset(name).expert, preset=name), "task")

    def run(self) -> None:
        os.environ.setdefault("MUJOCO_GL", "disable")  # states only: works without any OpenGL
        from otflam.envs import expert_about, train_expert

        with ProgressBar(f"train {self.task} expert", "decisions") as bar:
            out = self.out or Path("runs") / "expert" / self.task
            file = train_expert(self.task, out, self.recipe, self.seed, bar)
        say(f"best expert: {file} (return {expert_about(file)['selection_return']} on episodes of their own)")


@dataclass(frozen=True)
class ExpertEvaluate:
    """Play episodes with an expert, or at random, or doing nothing, and print the returns."""

    task: tyro.conf.Positional[str]
    """dm_control suite task as DOMAIN-TASK, or a task of another world."""
    policy: str = "expert"
    """expert, random or zero, or another policy of the task's world."""
    expert: str | None = None
    """Expert file instead of the packaged one."""
    episodes: int = 10
    """Number of episodes."""
    seed: int = 0
    """Decides the episodes."""
    record: Path | None = None
    """JSON file in which to note the result, beside those of other tasks and policies."""

    def run(self) -> None:
        os.environ.setdefault("MUJOCO_GL", "disable")
        from otflam.envs import expert_returns

        with ProgressBar(f"{self.policy} on {self.task}", "episodes") as bar:
            returns = expert_returns(self.task, self.policy, self.expert, self.episodes, self.seed, bar)
        mean, deviation = float(returns.mean()), float(returns.std())
        say(f"{self.task} {self.policy}: mean return {mean:.1f}, deviation {deviation:.1f}, {len(returns)} episodes")
        if self.record is not None:
            rows = read_json(self.record, "delete it to start anew") if self.record.exists() else {}
            row = {"mean": mean, "deviation": deviation, "episodes": self.episodes, "seed": self.seed}
            rows.setdefault(self.task, {})[self.policy] = row | {"expert": self.expert or "packaged"}
            self.record.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.record, rows)


@dataclass(frozen=True)
class ExpertCurve:
    """Draw the learning curves of expert trainings."""

    logs: tyro.conf.Positional[tuple[Path, ...]]
    """Training logs (log.jsonl), named after their tasks or in folders named after them."""
    out: Path = Path("curves.png")
    """Picture to write."""

    def run(self) -> None:
        from otflam.report import draw_expert_curves

        names = {log.parent.name if log.stem == "log" else log.stem: log for log in self.logs}
        say(f"learning curves: {draw_expert_curves(names, self.out)}")
