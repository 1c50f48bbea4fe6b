"""Commands that measure, and that show what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from otflam.presets import get_preset
from otflam.report import say


@dataclass(frozen=True)
class EvaluateCurves:
    """Draw how fast latents are imitated and decoded, from the records (the paper's convergence figure)."""

    out: Path
    """The figure to write."""
    records: Path = Path("results/records")
    """Folder of the records."""
    preset: str = "laptop"
    """Sizes: tiny, demo, laptop or paper."""
    labels: int = 8
    """Labelled episodes."""

    def run(self) -> None:
        from otflam.report import draw_convergence

        say(f"wrote {draw_convergence(self.records, self.preset, self.labels, self.out)}")


@dataclass(frozen=True)
class EvaluateAlignment:
    """Judge the latent actions of anyone's frozen model: what they know of actions and of distractors."""

    data: tyro.conf.Positional[Path]
    """The data set; it needs actions, and labelled episodes are drawn from its third quarter."""
    extractor: str
    """MODULE:NAME of an object with `offsets` and `infer(frames) -> latents`; frames are bytes [n, k, h, w, c]."""
    labels: int = 8
    """Labelled episodes that probes learn from."""
    seed: int = 0
    """Draws them."""
    probed: int = 16
    """Held-out episodes that probes are tested on."""
    out: Path | None = None
    """JSON file for all numbers."""
    preset: str = "laptop"
    """Sizes, of the probing network: tiny, demo, laptop or paper."""

    def run(self) -> None:
        from otflam.core import write_json
        from otflam.data import Store
        from otflam.evaluate import finite, judge_extractor, load_extractor

        train = get_preset(self.preset).policy.seeded(self.seed).decode
        extractor = load_extractor(self.extractor)
        found = judge_extractor(Store(self.data), extractor, self.labels, self.seed, self.probed, train)
        for name, value in found.items():
            if isinstance(value, float):
                say(f"{name:16} {value:.4f}")
        if self.out is not None:
            write_json(self.out, {name: finite(value) for name, value in found.items()})
            say(f"wrote {self.out}")
