"""All pictures of a vocabulary on one data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from otflam.core.errors import UserError
from otflam.data.clips import Clips
from otflam.data.store import Store
from otflam.report.vocabulary import draw_assignments, draw_atlas, draw_codebook, draw_motion_inputs, draw_strips
from otflam.tokenizer.build import load_tokenizer, motion_clips
from otflam.tokenizer.model import OTF

SEES = ("motion", "grid", "patch", "channels")
"""What two tokenizers must share to redraw the same motion."""


def draw_vocabulary(data: Path, tokenizer: Path, against: Path | None, out: Path) -> Iterator[Path]:
    """Draw what a tokenizer knows; with another one, compare how both redraw the motion."""
    store, model = Store(data), load_tokenizer(tokenizer)
    if not isinstance(model, OTF):
        raise UserError(f"{tokenizer} is monolithic", "give a factorised tokenizer; --against takes the other")
    clips, stride = motion_clips(store, model.config), model.config.motion.stride
    yield draw_motion_inputs(Clips(store, (-stride, 0, stride)), stride, out / "motion.png")
    yield draw_codebook(model, out / "codebook.png")
    yield draw_assignments(model, clips, out / "assignments.png")
    yield draw_atlas(model, clips, out / "atlas.png")
    shown = {"OTF": model}
    if against is not None:
        other = load_tokenizer(against)
        if any(getattr(other.config, name) != getattr(model.config, name) for name in SEES):
            raise UserError(
                f"{against} sees other motion than {tokenizer} ({', '.join(SEES)})", "compare like with like"
            )
        shown["monolithic" if other.config.method == "monolithic" else "other"] = other
    yield draw_strips(shown, clips, f"Motion of {data.name}, redrawn from codes", out / "strips.png")
