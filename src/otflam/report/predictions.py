"""Pictures of what latent action models predict.

Axes: b transitions, c h w pixels, n tokens, s features.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from otflam.core import Batch, UserError
from otflam.data import Clips
from otflam.lam import FEATURES, IMAGINED, LAM, Flam
from otflam.report.vocabulary import draw_grid, show_frame

Show = Callable[[Tensor], "UInt8[np.ndarray, 'h w 3']"]


def shower(model: LAM, clips: Clips) -> Show:
    """How to show what a model predicts: frames as they are, features by their three main directions."""
    seen = model.future(clips.gather(np.linspace(0, len(clips) - 1, min(64, len(clips))).astype(np.int64)))
    if seen.dim() == 4:
        return lambda frame: show_frame(frame.clamp(0, 1))
    flat = seen.flatten(0, 1)
    centre = flat.mean(0)
    directions = torch.linalg.svd(flat - centre, full_matrices=False).Vh[:3]
    reach = ((flat - centre) @ directions.T).abs().quantile(0.98, dim=0)

    def show(features: Float[Tensor, "n s"]) -> np.ndarray:
        colours = (0.5 + 0.5 * (features - centre) @ directions.T / reach).clamp(0, 1)
        side = round(len(colours) ** 0.5)
        return (255 * colours).byte().view(side, side, 3).numpy()

    return show


@torch.inference_mode()
def draw_predictions(models: dict[str, LAM], clips: Clips, title: str, path: Path, samples: int) -> Path:
    """Frame, true future, each model's prediction, and its prediction with the latent of another transition.

    `clips` must have the frames of all models, which must have one stride.
    """
    if samples < 2 or len(clips) < 2:
        raise UserError("fewer than two transitions to show", "one of them lends the other its latent")
    rows: list[tuple[str, list[np.ndarray]]] = []
    batch = clips.gather(np.linspace(0, len(clips) - 1, samples).astype(np.int64))
    for name, model in models.items():
        show = shower(model, clips)
        seen = model.observe(batch)
        latent = model.infer_latent(seen)
        if not rows:
            rows.append(("frame", [show_frame(frame) for frame in batch.images(0)]))
            rows.append((f"{model.stride} steps later", [show_frame(frame) for frame in batch.images(model.stride)]))
        if model.future(batch).dim() == 3:
            rows.append((f"{name}: target", [show(features) for features in model.future(batch)]))
        rows.append((name, [show(future) for future in model.predict_future(seen, latent)]))
        rows.append(("  another's latent", [show(future) for future in model.predict_future(seen, latent.roll(1, 0))]))
    return draw_grid(rows, [str(number) for number in range(samples)], title, path)


@torch.inference_mode()
def roll_out(model: LAM, clips: Clips, start: int, steps: int) -> tuple[list[Tensor], list[Tensor]]:
    """True and imagined futures: each imagined from what was imagined before, with the latents of the real transitions.

    `clips` are those of one episode, and `start` is the number of the first transition.
    """
    imagined: dict[int, Tensor] = {}
    true, told = [], []
    for step in range(steps):
        now = start + step * model.stride
        batch = clips.gather(np.array([now]))
        latent = model.infer(batch)
        futures = model.predict_all(model.observe(replace_past(model, batch, now, imagined)), latent)
        for offset, future in futures.items():
            imagined.setdefault(now + offset, future[0])
        true.append(model.future(batch)[0])
        told.append(futures[model.stride][0])
    return true, told


def replace_past(model: LAM, batch: Batch, now: int, imagined: dict[int, Tensor]) -> Batch:
    """The batch with what was imagined in place of what was seen; the future stays."""
    frames, columns = batch.frames.clone(), {name: column.clone() for name, column in batch.columns.items()}
    if isinstance(model, Flam):  # imagines features, but stored are tokens
        columns[IMAGINED] = torch.stack([model.features(batch, offset) for offset in batch.offsets], 1)
    for place, offset in enumerate(batch.offsets):
        known = imagined.get(now + offset)
        if known is None or offset > 0:
            continue
        if known.dim() == 3:
            frames[0, place] = (255 * known.clamp(0, 1)).round().byte().permute(1, 2, 0)
        for name in (FEATURES, IMAGINED):
            if known.dim() == 2 and name in columns:
                columns[name][0, place] = known.to(columns[name].dtype)
    return Batch(frames, batch.offsets, columns)


def draw_rollout(model: LAM, clips: Clips, title: str, path: Path, steps: int) -> Path:
    """A strip of true frames over the frames imagined from latents alone."""
    steps = min(steps, (len(clips) - 1) // model.stride)
    if steps < 1:
        raise UserError("an episode too short to imagine a step of", "choose a longer one")
    start = max(0, (len(clips) - steps * model.stride) // 2)
    show, (true, imagined) = shower(model, clips), roll_out(model, clips, start, steps)
    rows = [("true", [show(frame) for frame in true]), ("from latents", [show(frame) for frame in imagined])]
    return draw_grid(rows, [f"+{(step + 1) * model.stride}" for step in range(steps)], title, path)
