"""Commands that make data sets and look into them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from otflam.commands.base import DataSet, NewData, Sharding, Sizes, Workers, describe, required
from otflam.core import READ_ONLY, default_workers
from otflam.data import Collection, MovingMNIST, MovingTextures
from otflam.envs import Difficulty, Follow, Quality, RivalColour, Split
from otflam.presets import get_preset
from otflam.report import ProgressBar, say


@dataclass(frozen=True)
class Collect:
    """Collect episodes of a task into a data set."""

    plan: Collection
    out: Path
    """Folder of the new data set; an interrupted collection continues there."""
    sharding: Sharding = field(default_factory=Sharding)
    preset: Sizes = "laptop"

    @classmethod
    def defaults(cls, name: str) -> Collect:
        plan = get_preset(name).collection
        plan = dataclasses.replace(plan, world=required(plan.world, "task"))
        return required(cls(plan, Path(), preset=name), "out")

    def run(self) -> None:
        from otflam.data import collect_episodes, collect_shards

        jobs = self.sharding.jobs
        with ProgressBar(f"collect {self.plan.world.task}", "frames") as bar:
            if self.sharding.spread:
                store = collect_shards(self.plan, self.out, self.sharding.shards, jobs, bar)
            else:
                store = collect_episodes(self.plan, self.out, jobs.parallel, bar)
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
    """Draw the same episodes again: in another size or quality, with other distractors, beside a rival."""

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
    camera_scale: float | None = None
    """How much the camera moves, 0 to 1; by default as in DATA."""
    colour_scale: float | None = None
    """How much colours change, 0 to 1; by default as in DATA."""
    videos: int | None = None
    """How many background videos there are, 0 none, -1 all; by default as in DATA."""
    rival: str | None = None
    """A second body, as TASK or TASK:POLICY, or none; by default as in DATA."""
    rival_colour: RivalColour | None = None
    """A colour of its own, or the same as the agent's; by default as in DATA."""
    rival_noise: float | None = None
    """Deviation of the noise on the rival's actions; by default as in DATA."""
    follow: Follow | None = None
    """Whom the camera looks at; by default as in DATA."""
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
class DataMasks:
    """Tell whose every pixel is in a column beside the data: the background's (0), the agent's (1), the rival's (2)."""

    data: tyro.conf.Positional[Path]
    """The data set; it must come from 'otflam collect' or 'otflam data render'."""
    episodes: int | None = None
    """Only the first so many episodes."""
    workers: Workers = field(default_factory=default_workers)

    def run(self) -> None:
        from otflam.data import MASKS, Store, describe_rows, make_masks

        store = Store(self.data)
        with ProgressBar(f"masks {self.data}", "episodes") as bar:
            column = make_masks(store, self.workers, self.episodes, bar)
        say(f"{column.path / f'{MASKS}.npy'}: {describe_rows(store, column)}")


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
class DataTextures:
    """Draw scenes of moving textures, shapes and limbs: anything may move in any way."""

    out: NewData
    options: MovingTextures = field(default_factory=MovingTextures)

    def run(self) -> None:
        from otflam.data import make_moving_textures

        with ProgressBar("moving textures", "scenes") as bar:
            store = make_moving_textures(self.options, self.out, bar)
        describe(store)


@dataclass(frozen=True)
class DataCompress:
    """Send the frames of a data set through H.264, at one quality after the other."""

    data: DataSet
    out: NewData

    def run(self) -> None:
        from otflam.data import Store, recompress

        with ProgressBar(f"compress {self.data}", "episodes") as bar:
            store = recompress(Store(self.data), self.out, bar)
        describe(store)
