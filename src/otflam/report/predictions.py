"""Pictures of what latent action models predict and are made of: slots over places, skills over time.

Axes: b transitions, c h w pixels, n tokens, s features, p places, k slots, t times.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from otflam.core import Batch, UserError, read_release, replacing
from otflam.data import Clips, Store
from otflam.lam import FEATURES, IMAGINED, LAM, LAM_KIND, Flam, Hilam, load_lam
from otflam.report.palette import code_colours, show_frame
from otflam.report.style import MUTED, SERIES
from otflam.report.vocabulary import draw_grid

Show = Callable[[Tensor], "UInt8[np.ndarray, 'h w 3']"]
matplotlib.use("Agg")
DIM = 0.2
"""What remains of a frame where a slot owns nothing."""
SWATCH_PARTS = 9
"""Parts of a frame's side that the mark of a slot's colour is one of."""
FILM_FRAMES = 12
"""Frames over the time line of an episode."""
Pictures = UInt8[np.ndarray, "b h w 3"]


def make_renderer(model: LAM, clips: Clips) -> Show:
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
        show = make_renderer(model, clips)
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
    true, predicted = [], []
    for step in range(steps):
        now = start + step * model.stride
        batch = clips.gather(np.array([now]))
        latent = model.infer(batch)
        futures = model.predict_all(model.observe(replace_past(model, batch, now, imagined)), latent)
        for offset, future in futures.items():
            imagined.setdefault(now + offset, future[0])
        true.append(model.future(batch)[0])
        predicted.append(futures[model.stride][0])
    return true, predicted


def replace_past(model: LAM, batch: Batch, now: int, imagined: dict[int, Tensor]) -> Batch:
    """The batch with what was imagined in place of what was seen; the future stays."""
    frames, columns = batch.frames.clone(), {name: column.clone() for name, column in batch.columns.items()}
    if isinstance(model, Flam):  # imagines features, but stored are tokens
        columns[IMAGINED] = torch.stack([model.features(batch, offset) for offset in batch.offsets], 1)
    for place, offset in enumerate(batch.offsets):
        past = imagined.get(now + offset)
        if past is None or offset > 0:
            continue
        if past.dim() == 3:
            frames[0, place] = (255 * past.clamp(0, 1)).round().byte().permute(1, 2, 0)
        for name in (FEATURES, IMAGINED):
            if past.dim() == 2 and name in columns:
                columns[name][0, place] = past.to(columns[name].dtype)
    return Batch(frames, batch.offsets, columns)


def draw_rollout(model: LAM, clips: Clips, title: str, path: Path, steps: int) -> Path:
    """A strip of true frames over the frames imagined from latents alone."""
    steps = min(steps, (len(clips) - 1) // model.stride)
    if steps < 1:
        raise UserError("an episode too short to imagine a step of", "choose a longer one")
    start = max(0, (len(clips) - steps * model.stride) // 2)
    show, (true, imagined) = make_renderer(model, clips), roll_out(model, clips, start, steps)
    rows = [("true", [show(frame) for frame in true]), ("from latents", [show(frame) for frame in imagined])]
    return draw_grid(rows, [f"+{(step + 1) * model.stride}" for step in range(steps)], title, path)


def draw_inside(store: Store, folder: Path, samples: int, episode: int | None, out: Path) -> Path:
    """Slots of a factorised model, or skills of a hierarchical one, on an episode held out from its training."""
    config, (model, parts) = read_release(folder, LAM_KIND), load_lam(folder)
    if not isinstance(model, Flam | Hilam):
        raise UserError(f"{config['method']} has neither slots nor skills", "see 'otflam lam predict'")
    parts.check_frames(store.columns["frames"].shape)
    held = config["episodes"][1] if config["data"] == store.hash else [0]
    shown = held[0] if episode is None else episode
    if samples < 1:
        raise UserError(f"--samples {samples}", "give at least 1")
    if not 0 <= shown < len(store):
        raise UserError(f"--episode {shown} of {len(store)}", f"give 0 to {len(store) - 1}")
    title = f"{config['method']} on {store.path.name}, episode {shown}"
    clips = Clips(store, model.offsets, (), [shown], pad=True)  # whole, as it is labelled
    if isinstance(model, Flam):
        return draw_slots(model, clips, title, out, samples)
    return draw_skills(model, clips, title, out)


@torch.inference_mode()
def draw_slots(model: Flam, clips: Clips, title: str, path: Path, samples: int) -> Path:
    """Frames, which slot owns which place most, and what each slot sees of them."""
    batch = clips.gather(np.linspace(0, len(clips) - 1, samples).astype(np.int64))
    shares = model.observe(batch).shares[:, -2]
    frames = batch.images(0)
    side, size = round(shares.shape[-1] ** 0.5), frames.shape[-1]
    masks = torch.nn.functional.interpolate(shares.unflatten(-1, (side, side)), (size, size), mode="bilinear")
    colours = code_colours(shares.shape[1])
    owners = colours[masks.argmax(1).numpy()]
    pictures = np.stack([show_frame(frame) for frame in frames])
    rows = [("frame", list(pictures)), ("owner", list(blend(pictures, owners)))]
    for slot in range(shares.shape[1]):
        light = DIM + (1 - DIM) * masks[:, slot] / masks[:, slot].amax((1, 2), keepdim=True).clamp_min(1e-6)
        owned, seen = 100 * float(shares[:, slot].mean()), (pictures * light[..., None].numpy()).astype(np.uint8)
        seen[:, : size // SWATCH_PARTS, : size // SWATCH_PARTS] = colours[slot]  # as in the row of owners
        rows.append((f"slot {slot + 1} ({owned:.0f} %)", list(seen)))
    return draw_grid(rows, [str(number) for number in range(samples)], title, path)


def blend(pictures: Pictures, colours: Pictures) -> Pictures:
    """Colours over the grey of pictures."""
    grey = pictures.mean(-1, keepdims=True)
    return (0.45 * grey + 0.55 * colours).astype(np.uint8)


@torch.inference_mode()
def draw_skills(model: Hilam, clips: Clips, title: str, path: Path) -> Path:
    """One episode: its frames, its skills as coloured segments, where they begin and how likely chunks do."""
    index = np.arange(0, len(clips), model.stride)
    if len(index) < 2:
        raise UserError("an episode too short to show skills of", "choose a longer one")
    skills, likely, begins = [], [], []
    # Windows follow each other from the start, as they do when an episode is labelled.
    for part in np.split(index, range(model.config.window, len(index), model.config.window)):
        found, new = model.stages(model.observe(clips.gather(part[-1:])).sequence), len(part)
        skills.append(found.skills[0, -new:])
        likely.append(found.chunks.likely[0, -new:])
        begins.append((found.chunks.begins & found.bundles.begins.gather(1, found.chunks.chunk))[0, -new:])
    figure, (film, bar, curve) = plt.subplots(
        3, 1, figsize=(11, 3.6), dpi=120, height_ratios=(1.05, 0.8, 1.75), layout="constrained"
    )
    shown = clips.gather(index[np.linspace(0, len(index) - 1, min(FILM_FRAMES, len(index))).astype(int)]).images(0)
    film.imshow(np.concatenate([show_frame(frame) for frame in shown], 1), aspect="auto")
    film.set_axis_off()
    figure.suptitle(title, x=0.01, ha="left")
    times = clips.anchors(index) - clips.anchors(index[:1])
    bar.imshow(colours_of(torch.cat(skills))[None], aspect="auto", extent=(times[0], times[-1] + model.stride, 0, 1))
    bar.set(yticks=[], ylabel="skill")
    bar.tick_params(labelbottom=False)
    curve.plot(times, torch.cat(likely).numpy(), color=SERIES[1], linewidth=0.9)
    curve.axhline(0.5, color=np.array(MUTED) / 255, linewidth=0.6, linestyle=":")
    chosen = torch.cat(begins).numpy()
    curve.plot(times[chosen], np.full(chosen.sum(), 1.06), "v", color=SERIES[0], markersize=4)
    curve.set(
        xlim=(times[0], times[-1] + model.stride), ylim=(0, 1.15), xlabel="step", ylabel="a chunk begins\n(▾ a skill)"
    )
    curve.spines[["top", "right"]].set_visible(False)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png")
    plt.close(figure)
    return path


def colours_of(vectors: Float[Tensor, "t s"]) -> Float[np.ndarray, "t 3"]:
    """Vectors as colours: alike where they are alike."""
    centred = vectors - vectors.mean(0)
    axes = torch.linalg.svd(centred, full_matrices=False).Vh[:3]
    places = torch.nn.functional.pad(centred @ axes.T, (0, 3 - len(axes)))
    return (0.5 + 0.4 * places / places.abs().amax(0).clamp_min(1e-6)).clamp(0, 1).double().numpy()
