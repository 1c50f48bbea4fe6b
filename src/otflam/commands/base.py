"""What all commands share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar, runtime_checkable

import tyro

from otflam.core import SILENT, Hardware, Launcher, Progress, UserError
from otflam.report import say

if TYPE_CHECKING:
    from otflam.data import Store
    from otflam.lam import Backbone

T = TypeVar("T")
NO_PREFIX = tyro.conf.arg(name="")
"""For a part of a command whose options stand by themselves."""
DataSet = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(help="The data set.")]
NewData = Annotated[Path, tyro.conf.arg(help="Folder of the new data set.")]
Workers = Annotated[
    int, tyro.conf.arg(help="Parallel processes; they change no result.", help_behavior_hint="default: one per core")
]
Sizes = Annotated[str, tyro.conf.arg(help="tiny, demo, laptop or paper; options that name a size override it.")]
Records = Annotated[Path, tyro.conf.arg(help="Folder of the records.")]
RECORDS = Path("results/records")


def required(config: T, *names: str) -> T:
    """A copy in which some fields have no default, so that the command line asks for them."""
    return altered(config, **dict.fromkeys(names, tyro.MISSING))


def altered(config: T, /, **values: Any) -> T:
    """A copy in which some fields are others, while some may still be missing."""
    config = copy.copy(config)
    for name, value in values.items():
        object.__setattr__(config, name, value)
    return config


@runtime_checkable
class Command(Protocol):
    """A frozen dataclass whose docstring is its line in the help and whose fields are its options."""

    def run(self) -> None: ...


@dataclass(frozen=True)
class Sharding:
    """Into how many parts a command's episodes are cut, and where the jobs that make them run."""

    shards: int = 1
    """Parts of neighbouring episodes that jobs of their own make, and that are read as one."""
    jobs: Launcher = field(default_factory=Launcher)

    def __post_init__(self) -> None:
        if self.shards < 1:
            raise UserError(f"--shards {self.shards}", "give at least 1")

    @property
    def spread(self) -> bool:
        """Whether jobs do it; else this process does."""
        return self.shards > 1 or self.jobs.launcher != "local"

    def derive(
        self,
        function: Callable[..., Any],
        store: Store,
        arguments: tuple,
        episodes: Sequence[int] | None,
        progress: Progress,
    ) -> None:
        """Let jobs compute a derived column, if they are to: the command then finds it."""
        from otflam.data import derive_shards

        if self.spread:
            derive_shards(function, store, arguments, episodes, self.shards, self.jobs, progress)


def first_episodes(store: Store, count: int) -> range | None:
    """The first episodes of a data set; 0 means all."""
    if not 0 <= count <= len(store):
        raise UserError(f"--episodes {count}", f"{store.path} has {len(store)}")
    return range(count) if 0 < count < len(store) else None


def backbone_of(lam: Path, dino: str | None) -> Backbone | None:
    """The DINOv2 that a trained latent action model needs, if it needs one."""
    from otflam.core import read_release
    from otflam.lam import LAM_KIND, Backbone

    config = read_release(lam, LAM_KIND)["backbone"]
    return None if config is None else Backbone.load(dino, config["size"])


def describe(store: Store, of: Store | None = None) -> None:
    """Print the facts of a data set, or of a column that was computed `of` one, one per line."""
    from otflam.data import describe_rows, summarise

    for name, value in (summarise(store) | ({"rows": describe_rows(of, store)} if of is not None else {})).items():
        say(f"{name:12} {value}")


def checked_share(share: float) -> float:
    """A share of the episodes to train on."""
    if not 0 < share <= 1:
        raise UserError(f"--share {share}", "give a share between 0 and 1")
    return share


def base_of_episodes(store: Store, lam: Path, episodes: Sequence[int] | None) -> None:
    """What a model needs of the one that it stands on, for some episodes, on a GPU if there is one."""
    from otflam.core import device_of
    from otflam.lam import label_base

    label_base(store, lam, episodes, device_of(Hardware()))


def label_episodes(
    store: Store, lam: Path, dino: str | None, episodes: Sequence[int] | None, progress: Progress = SILENT
) -> Store:
    """The latents of some episodes, by a model that is loaded here, on a GPU if there is one."""
    from otflam.core import device_of
    from otflam.lam import label_store

    return label_store(store, lam, backbone_of(lam, dino), episodes, progress, device=device_of(Hardware()))
