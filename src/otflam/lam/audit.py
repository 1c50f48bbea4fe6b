"""Three questions to a trained model that forward passes answer: what do its latents say besides what happened?

Nothing happens: do latents still differ? The picture moves a little: does the latent change? The same change happens in
another scene: does the latent follow the change, or the scene? (After CD-LAM; our measures are in docs/metrics.md.)
And beside a rival: whose motion is it that the latent tells of?

Axes: b transitions, k frames of a clip, h w c pixels, d latent.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from otflam.core import SILENT, Batch, Progress, UserError, place_of, read_release
from otflam.data import BODIES, MASKS, Clips, RandomBatches, Store, has_rival, mask_column
from otflam.lam.build import LAM_KIND, load_lam
from otflam.lam.features import Backbone
from otflam.lam.health import HELD_OUT, LEAST_TRANSITIONS
from otflam.lam.model import LAM, Latents, Parts

BATCH, BATCHES, SEED = 64, 4, 54321
SHIFT = 3
"""Pixels by which both frames are moved."""
AUDITS = {
    "audit_zero": "latents while nothing happens: how far apart, where those of real transitions are 1 apart",
    "audit_shift": f"both frames moved by {SHIFT} pixels: how far latents move, where another transition is 1 away",
    "audit_shortcut": "the same change in another scene: 0 if the latent follows the change, 1 if the scene",
    "audit_rival": "the share of the rival's motion in what both bodies' motion changes of the latent",
}
"""What is asked; the last only beside a rival whose pixels are known."""


MOST_STILL = 0.98
"""The most that a trained model of ours answers to `audit_zero`, and a little more; untrained ones answer 1 or more.

The others tell nobody apart (docs/metrics.md): latents of all our models move with the picture, as untrained ones do,
and OTF-LAM-DINO's follow the scene as much as those.
"""


def audit_trained(
    store: Store, folder: Path, backbone: Backbone | None = None, progress: Progress = SILENT
) -> dict[str, float]:
    """Ask a trained model about the episodes that were held out from its training; other data are all held out."""
    if "frames" not in store:
        raise UserError(f"{store.path} has no frames", "give a data set")
    about, (model, parts) = read_release(folder, LAM_KIND), load_lam(folder, backbone)
    parts.check_frames(store.columns["frames"].shape)
    held = about["episodes"][1] if about["data"] == store.hash else range(min(len(store), HELD_OUT))
    # What frozen networks say of frames that are drawn otherwise is computed on the way; masks cannot be.
    columns = model.columns(Parts(parts.frames), store, held, progress)
    if has_rival(store):
        try:
            columns[MASKS] = mask_column(store, progress.part(MASKS, "episodes"), held)
        except UserError as error:  # the others need no masks
            progress.note(f"without audit_rival: {error.problem}")
    return audit(model, Clips(store, model.offsets, (), held, columns))


@torch.no_grad()
def audit(model: LAM, clips: RandomBatches, batches: int = BATCHES, size: int = BATCH) -> dict[str, float]:
    """Answers from held-out clips: 0 is best. With masks of two bodies also the rival's share."""
    was_training, place = model.training, place_of(model)
    model.eval()
    sums: dict[str, list[float]] = {}

    def distance(name: str, one: Latents, other: Latents) -> None:
        sums.setdefault(name, []).append(float((one - other).float().square().sum(1).mean()))

    for number in range(batches):
        batch = clips.batch(min(size, len(clips)), SEED, number).to(place)
        real, still = model.infer(batch), model.infer(frozen_future(batch))
        nothing = still.mean(0, keepdim=True).expand_as(real)  # what is always said says nothing
        distance("real", real, nothing)
        distance("still", still, nothing)
        distance("other", real, real.roll(1, 0))
        distance("shifted", model.infer(redrawn(batch, shifted)), real)
        mixed = model.infer(exchanged(batch))
        distance("from the change", mixed, real)
        distance("from the scene", mixed, real.roll(-1, 0))
        if MASKS in batch.columns and bool((batch.columns[MASKS] == BODIES["rival"]).any()):
            for body in BODIES:
                distance(body, model.infer(without_motion_of(batch, body)), real)
    model.train(was_training)
    means = {name: sum(parts) / len(parts) for name, parts in sums.items()}
    found = {
        "audit_transitions": float(min(len(clips), batches * size)),
        "audit_zero": ratio(means["still"], means["real"]) ** 0.5,
        "audit_shift": ratio(means["shifted"], means["other"]) ** 0.5,
        "audit_shortcut": ratio(means["from the change"], means["from the change"] + means["from the scene"]),
    }
    if "rival" in means:
        found["audit_rival"] = ratio(means["rival"], means["rival"] + means["agent"])
    return found


def audit_verdict(found: dict[str, float]) -> str:
    """One line: do latents tell what happened, or the scene?"""
    if found["audit_transitions"] < LEAST_TRANSITIONS:
        return "too few held-out transitions to tell what latents tell"
    if all(found[name] == 1.0 for name in list(AUDITS)[:3]):
        return "latents that never differ tell nothing"
    if found["audit_zero"] > MOST_STILL:
        return "latents like those of an untrained model: they differ as much when nothing happens"
    return f"{100 * found['audit_zero']:.0f} % of the latents' spread is left when nothing happens"


def ratio(part: float, whole: float) -> float:
    """A share; latents that never differ say nothing, which is the worst answer to everything."""
    return part / whole if whole > 1e-12 else 1.0


def frozen_future(batch: Batch) -> Batch:
    """The same clips if nothing happened from now on; what frozen networks said of them no longer holds."""
    now = batch.offsets.index(0)
    places = [min(place, now) for place in range(len(batch.offsets))]
    columns = {name: column[:, places] for name, column in in_time(batch).items() if name != "codes"}
    return Batch(batch.frames[:, places], batch.offsets, columns)


def in_time(batch: Batch) -> dict[str, Tensor]:
    """Columns that say something of every frame; somebody's own dataset may have others."""
    known = batch.columns.items()
    return {name: column for name, column in known if column.ndim > 1 and column.shape[1] == len(batch.offsets)}


def redrawn(batch: Batch, draw: Callable[[Tensor], Tensor]) -> Batch:
    """Clips whose pixels are drawn otherwise, masks included; of them nothing else is known yet."""
    columns = {name: draw(column) for name, column in batch.columns.items() if name == MASKS}
    return Batch(draw(batch.frames), batch.offsets, columns)


def shifted(images: UInt8[Tensor, "b k h w *c"]) -> UInt8[Tensor, "b k h w *c"]:
    """All frames alike, down and to the right; what enters repeats the border."""
    rows, columns = (torch.arange(side, device=images.device).sub(SHIFT).clamp_min(0) for side in images.shape[2:4])
    return images.index_select(2, rows).index_select(3, columns)


def exchanged(batch: Batch) -> Batch:
    """What happens in each clip, happening in the next one's scene, whose past stays as it was."""
    now = batch.offsets.index(0)
    scene, frames = batch.frames.roll(-1, 0), batch.frames.to(torch.int16)
    happened = scene[:, [now]] + (frames[:, now + 1 :] - frames[:, [now]])
    # Masks stay those of the change: where it is drawn, the agent is what changes.
    columns = {name: column for name, column in batch.columns.items() if name == MASKS}
    future = happened.clamp(0, 255).to(torch.uint8)
    return Batch(torch.cat([scene[:, : now + 1], future], 1), batch.offsets, columns)


def without_motion_of(batch: Batch, body: str) -> Batch:
    """The same clips, but that one body stays as it is now: where it is or will be, pixels are those of now."""
    now, masks = batch.offsets.index(0), batch.columns[MASKS]
    mine = (masks == BODIES[body]) | (masks[:, [now]] == BODIES[body])
    mine[:, : now + 1] = False
    frames = torch.where(mine[..., None], batch.frames[:, [now]], batch.frames)
    return Batch(frames, batch.offsets, {MASKS: masks})
