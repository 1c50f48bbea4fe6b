"""The command line: parse, build, call. Stages are imported only by the command that needs them, so help is instant."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar, runtime_checkable

import tyro

from otflam.core.errors import UserError, unknown_name
from otflam.core.pool import default_workers
from otflam.data.options import Collection, MovingMNIST, VideoImport
from otflam.envs.recipe import Recipe
from otflam.envs.world import Difficulty, Quality, Split
from otflam.presets import preset
from otflam.report.progress import Progress, say

if TYPE_CHECKING:
    from otflam.data.store import Store

T = TypeVar("T")
Workers = Annotated[int, tyro.conf.arg(help_behavior_hint="default: one per core")]


def required(config: T, name: str) -> T:
    """A copy in which a field has no default, so that the command line asks for it."""
    config = copy.copy(config)
    object.__setattr__(config, name, tyro.MISSING)
    return config


@runtime_checkable
class Command(Protocol):
    """A frozen dataclass whose docstring is its line in the help and whose fields are its options."""

    def run(self) -> None: ...


@dataclass(frozen=True)
class Collect:
    """Collect episodes of a task into a data set."""

    plan: Collection
    out: Path
    """Folder of the new data set; an interrupted collection continues there."""
    workers: Workers = field(default_factory=default_workers)
    """Parallel processes; the data do not depend on it."""
    preset: str = "laptop"
    """Sizes to start from: tiny, demo, laptop or paper; other options override it."""

    @classmethod
    def defaults(cls, name: str) -> Collect:
        plan = preset(name).collection
        plan = dataclasses.replace(plan, world=required(plan.world, "task"))
        return required(cls(plan, Path(), preset=name), "out")

    def run(self) -> None:
        from otflam.data.collect import collect

        with Progress(f"collect {self.plan.world.task}", "frames") as bar:
            store = collect(self.plan, self.out, self.workers, bar.start, bar.advance)
        describe(store)


@dataclass(frozen=True)
class DataInfo:
    """Print what is inside a data set and write its contact sheet."""

    data: tyro.conf.Positional[Path]
    """The data set."""
    sheet: Path | None = None
    """Where to write the contact sheet; by default DATA/sheet.png."""

    def run(self) -> None:
        from otflam.data.store import Store
        from otflam.report.sheet import contact_sheet

        store = Store(self.data)
        describe(store)
        path = contact_sheet(store, self.sheet or self.data / "sheet.png", self.data.resolve().name)
        say(f"contact sheet: {path}")


@dataclass(frozen=True)
class DataCheck:
    """Read a whole data set and compare it with its checksums."""

    data: tyro.conf.Positional[Path]
    """The data set."""

    def run(self) -> None:
        from otflam.data.store import Store

        store = Store(self.data)
        with Progress(f"check {self.data}", "episodes") as bar:
            bar.start(0, len(store))
            store.check(lambda index: bar.advance(1))
        say(f"{self.data}: {len(store)} episodes, {store.rows} frames, all checksums match (hash {store.hash})")


@dataclass(frozen=True)
class DataRender:
    """Draw the same episodes again in another size, difficulty or quality."""

    data: tyro.conf.Positional[Path]
    """The data set to draw again; it must come from 'otflam collect'."""
    out: Path
    """Folder of the new data set."""
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
    """Parallel processes; the data do not depend on it."""

    def run(self) -> None:
        from otflam.data.collect import recorded_collection, render
        from otflam.data.store import Store

        source = Store(self.data)
        world = recorded_collection(source).world
        changes = {name: getattr(self, name) for name in world.__dataclass_fields__ if name != "task"}
        world = dataclasses.replace(world, **{name: value for name, value in changes.items() if value is not None})
        with Progress(f"render {world.task}", "frames") as bar:
            store = render(source, world, self.out, self.workers, bar.start, bar.advance)
        describe(store)


@dataclass(frozen=True)
class ImportVideos:
    """Turn your own video files or frame folders into a data set."""

    source: tyro.conf.Positional[Path]
    """A folder of videos or of image folders, or one video file."""
    out: Path
    """Folder of the new data set."""
    options: VideoImport = field(default_factory=VideoImport)

    def run(self) -> None:
        from otflam.data.videos import import_videos

        with Progress(f"import {self.source}", "videos") as bar:
            store = import_videos(self.source, self.out, self.options, bar.note, bar.reach)
        describe(store)


@dataclass(frozen=True)
class ImportLAOM:
    """Turn a LAOM HDF5 file into a data set."""

    file: tyro.conf.Positional[Path]
    """The .hdf5 file."""
    out: Path
    """Folder of the new data set."""

    def run(self) -> None:
        from otflam.data.laom import import_laom

        with Progress(f"import {self.file}", "episodes") as bar:
            store = import_laom(self.file, self.out, bar.reach)
        describe(store)


@dataclass(frozen=True)
class ExportLAOM:
    """Write a data set as a LAOM HDF5 file."""

    data: tyro.conf.Positional[Path]
    """The data set; it needs frames, states and actions."""
    out: Path
    """The .hdf5 file to write."""

    def run(self) -> None:
        from otflam.data.laom import export_laom
        from otflam.data.store import Store

        export_laom(Store(self.data), self.out)
        say(f"wrote {self.out}")


@dataclass(frozen=True)
class DataMNIST:
    """Draw Controlled Moving MNIST: one digit, one labelled motion per sequence."""

    out: Path
    """Folder of the new data set."""
    options: MovingMNIST = field(default_factory=MovingMNIST)
    preset: str = "laptop"
    """Sizes to start from: tiny, demo, laptop or paper; other options override it."""

    @classmethod
    def defaults(cls, name: str) -> DataMNIST:
        return required(cls(Path(), preset(name).mnist, name), "out")

    def run(self) -> None:
        from otflam.data.moving_mnist import make_moving_mnist

        with Progress(f"Moving MNIST {self.options.split}", "sequences") as bar:
            store = make_moving_mnist(self.options, self.out, bar.reach)
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
    preset: str = "laptop"
    """Sizes to start from: tiny, demo, laptop or paper; other options override it."""

    @classmethod
    def defaults(cls, name: str) -> ExpertTrain:
        return required(cls("", preset(name).expert, preset=name), "task")

    def run(self) -> None:
        os.environ.setdefault("MUJOCO_GL", "disable")  # states only: works without any OpenGL
        from otflam.envs.training import train_expert

        with Progress(f"train {self.task} expert", "decisions") as bar:
            out = self.out or Path("runs") / "expert" / self.task
            file = train_expert(self.task, out, self.recipe, self.seed, bar.start, bar.advance, bar.log)
        say(f"best expert: {file}")


@dataclass(frozen=True)
class ExpertEvaluate:
    """Play episodes with an expert, or at random, or doing nothing, and print the returns."""

    task: tyro.conf.Positional[str]
    """dm_control suite task as DOMAIN-TASK."""
    policy: str = "expert"
    """expert, random or zero."""
    expert: str | None = None
    """Expert file instead of the packaged one."""
    episodes: int = 10
    """Number of episodes."""
    seed: int = 0
    """Decides the episodes."""

    def run(self) -> None:
        os.environ.setdefault("MUJOCO_GL", "disable")
        from otflam.envs.experts import expert_returns

        with Progress(f"{self.policy} on {self.task}", "episodes") as bar:
            bar.start(0, self.episodes)
            returns = expert_returns(self.task, self.policy, self.expert, self.episodes, self.seed, bar.advance)
        mean, deviation = returns.mean(), returns.std()
        say(f"{self.task} {self.policy}: mean return {mean:.1f}, deviation {deviation:.1f}, {len(returns)} episodes")


@dataclass(frozen=True)
class GL:
    """Check that frames can be rendered off screen on this machine."""

    install: bool = False
    """Where no OpenGL library loads, install one with apt (needs root)."""

    def run(self) -> None:
        from otflam.envs.gl import ensure_gl

        say(ensure_gl(self.install))


@dataclass(frozen=True)
class Demo:
    """Tell the whole story in minutes, from an empty folder."""

    out: Path = Path("runs/demo")
    """Folder for everything the demo makes; an interrupted demo continues there."""
    preset: str = "demo"
    """Sizes: tiny, demo, laptop or paper."""
    workers: Workers = field(default_factory=default_workers)
    """Parallel processes."""

    def run(self) -> None:
        from otflam.experiments.demo import demo

        with Progress("demo", "frames") as bar:
            results = demo(self.out, self.preset, self.workers, bar.begin, bar.advance)
        for store, sheet in results:
            describe(store)
            say(f"contact sheet: {sheet}")


@dataclass(frozen=True)
class Bench:
    """Measure speed as ratios in one run and write results/bench.json."""

    out: Path = Path("results/bench.json")
    """File to write; entries of other benchmarks in it are kept."""
    only: str | None = None
    """Run only this benchmark."""

    def run(self) -> None:
        from otflam.experiments.bench import bench

        for name, row in bench(self.out, self.only):
            say(f"{name}: {row['value']:.3g} {row['unit']} (goal {row['goal']})")


COMMANDS: dict[str, type[Command]] = {
    "demo": Demo,
    "collect": Collect,
    "data info": DataInfo,
    "data check": DataCheck,
    "data render": DataRender,
    "data import videos": ImportVideos,
    "data import laom": ImportLAOM,
    "data export laom": ExportLAOM,
    "data mnist": DataMNIST,
    "expert train": ExpertTrain,
    "expert evaluate": ExpertEvaluate,
    "gl": GL,
    "bench": Bench,
}


def describe(store: Store) -> None:
    """Print a data set's facts, one per line."""
    from otflam.data.summary import summarise

    for name, value in summarise(store).items():
        say(f"{name:12} {value}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; every foreseeable problem ends in one line and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        name, rest = find_command(words)
        if name is None:
            print_help(words)
            return
        parse(name, rest).run()
    except UserError as error:
        fail(str(error), 2, debug)
    except KeyboardInterrupt:
        fail("stopped; run the same command to continue", 130, debug)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        fail(f"{error.filename or 'operating system'}: {error.strerror or error}", 2, debug)
    except Exception as error:
        fail(f"unexpected {type(error).__name__}: {error} (this is a bug; --debug shows where)", 1, debug)


def find_command(words: list[str]) -> tuple[str | None, list[str]]:
    """Split the words into a command's name and its arguments; no name means that help was asked for."""
    for length in (3, 2, 1):
        if len(words) >= length and (name := " ".join(words[:length])) in COMMANDS:
            return name, words[length:]
    spoken = list(_leading_names(words))
    if not spoken or any(name.startswith(" ".join(spoken) + " ") for name in COMMANDS):
        return None, words
    raise unknown_name("command", " ".join(spoken[:3]), COMMANDS)


def _leading_names(words: list[str]) -> Any:
    for word in words:
        if word.startswith("-"):
            return
        yield word


def parse(name: str, arguments: list[str]) -> Command:
    """Build a command from its arguments; a preset supplies the defaults."""
    kind: Any = COMMANDS[name]
    options: dict[str, Any] = {}
    if hasattr(kind, "defaults"):
        field_default = kind.__dataclass_fields__["preset"].default
        chosen = [b for a, b in itertools.pairwise(arguments) if a == "--preset"]
        chosen += [word.removeprefix("--preset=") for word in arguments if word.startswith("--preset=")]
        options["default"] = kind.defaults(chosen[-1] if chosen else field_default)
    configuration = (tyro.conf.OmitArgPrefixes, tyro.conf.FlagConversionOff)
    return tyro.cli(kind, prog=f"otflam {name}", args=arguments, config=configuration, **options)


def print_help(words: list[str]) -> None:
    """List the commands, or those of a group such as 'data'."""
    group = " ".join(_leading_names(words))
    say("usage: otflam COMMAND [OPTIONS]      (otflam COMMAND --help describes a command)\n")
    for name, kind in COMMANDS.items():
        if name.startswith(group):
            say(f"  {name:20} {(kind.__doc__ or '').splitlines()[0]}")
    say("\n  --debug after any command shows the traceback of an error")


def fail(message: str, code: int, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    print(f"otflam: {message}", file=sys.stderr)
    raise SystemExit(code)
