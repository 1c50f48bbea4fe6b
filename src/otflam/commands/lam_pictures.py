"""Commands that draw what latent action models predict and what is inside them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from otflam.commands.base import DataSet
from otflam.commands.lam import LamUse
from otflam.report import say


@dataclass(frozen=True)
class LamPredict(LamUse):
    """Draw what a model predicts: with the right latent, with another transition's, and over several steps."""

    out: Path = Path("predictions.png")
    """The picture."""
    samples: int = 6
    """Transitions to show."""
    steps: int = 8
    """Steps to predict from predictions, with the latents of the real transitions."""

    def run(self) -> None:
        from otflam.experiments import draw_predictions_of

        for path in draw_predictions_of(self.data, self.lam, self.backbone(), self.samples, self.steps, self.out):
            say(f"picture: {path}")


@dataclass(frozen=True)
class LamShow:
    """Draw what is inside a model: which slot of FLAM owns what, or the skills of HiLAM over time."""

    data: DataSet
    lam: Path
    """Folder of a trained FLAM or HiLAM."""
    out: Path = Path("inside.png")
    """The picture."""
    samples: int = 8
    """Frames to show slots on."""
    episode: int | None = None
    """The episode; by default the first that was held out from the training."""

    def run(self) -> None:
        from otflam.data import Store
        from otflam.report import draw_inside

        say(f"picture: {draw_inside(Store(self.data), self.lam, self.samples, self.episode, self.out)}")
