"""All pictures of a vocabulary, or of a latent action model, on one data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from otflam.core import UserError, read_release
from otflam.data import Clips, Store
from otflam.lam import LAM_KIND, Backbone, load_lam
from otflam.report import (
    draw_assignments,
    draw_atlas,
    draw_codebook,
    draw_motion_inputs,
    draw_predictions,
    draw_rollout,
    draw_strips,
)
from otflam.tokenizer import OTF, load_tokenizer, motion_clips

INPUT_SETTINGS = ("motion", "grid", "patch", "channels")
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
        if any(getattr(other.config, name) != getattr(model.config, name) for name in INPUT_SETTINGS):
            raise UserError(
                f"{against} sees other motion than {tokenizer} ({', '.join(INPUT_SETTINGS)})", "compare like with like"
            )
        shown["monolithic" if other.config.method == "monolithic" else "other"] = other
    yield draw_strips(shown, clips, f"Motion of {data.name}, redrawn from codes", out / "strips.png")


def draw_predictions_of(
    data: Path, folder: Path, backbone: Backbone | None, samples: int, steps: int, out: Path
) -> Iterator[Path]:
    """What a trained model predicts on held-out episodes, for one step and for many."""
    store, (model, parts) = Store(data), load_lam(folder, backbone)
    config = read_release(folder, LAM_KIND)
    parts.check_frames(store.columns["frames"].shape)
    train, held = config["episodes"] if config["data"] == store.hash else ([], [0])
    columns = model.columns(parts, store, [*train, *held])
    clips = Clips(store, model.offsets, (), held, columns)
    name = config["method"] + (f" ({config['backbone']['name']})" if config["backbone"] else "")
    title = f"{name} on {data.name}"
    yield draw_predictions({name: model}, clips, title, out, samples)
    strip = out.with_name(f"{out.stem}-rollout{out.suffix}")
    episode = Clips(store, model.offsets, (), held[:1], columns)
    yield draw_rollout(model, episode, f"{title}: imagined from latents", strip, steps)
