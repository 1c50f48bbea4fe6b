"""The whole story in minutes, from an empty folder: what is there already is kept, so it can be interrupted."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from otflam.core.files import read_json
from otflam.core.training import Hardware
from otflam.data.clips import Clips, split_episodes
from otflam.data.collect import collect
from otflam.data.store import Store
from otflam.evaluate.transfer import transfer_metrics
from otflam.lam.train import train_lam
from otflam.presets import preset
from otflam.report.predictions import draw_predictions
from otflam.report.progress import Progress
from otflam.report.sheet import contact_sheet
from otflam.report.vocabulary import draw_atlas, draw_strips
from otflam.tokenizer.build import motion_clips, train_tokenizer
from otflam.tokenizer.model import OTF, MotionAutoencoder

SOURCE, TARGET = "walker-run", "cheetah-run"


def demo(out: Path, size: str, workers: int, bar: Progress) -> Iterator[str]:
    """Tell the story, a line for each result: data, vocabulary, its transfer to another body, latent actions."""
    stores = {}
    for task in (SOURCE, TARGET):
        plan = preset(size).collection
        plan = dataclasses.replace(plan, world=dataclasses.replace(plan.world, task=task))
        store = collect(plan, out / "data" / task, workers, bar.begin(f"collect {task}", "frames"), bar.advance)
        returns = [episode["return"] for episode in store.episodes]
        sheet = contact_sheet(store, out / f"{task}.png", f"{task}, {plan.world.difficulty}, {store.rows} frames")
        yield f"{task}: {len(store)} episodes, {store.rows} frames, return {sum(returns) / len(returns):.0f}: {sheet}"
        stores[task] = store
    trained = {method: _tokenizer(out, size, method, stores[SOURCE], bar) for method in ("otf", "monolithic")}
    otf, target = trained["otf"], motion_clips(stores[TARGET], trained["otf"].config)
    if isinstance(otf, OTF):
        atlas = draw_atlas(otf, motion_clips(stores[SOURCE], otf.config), out / "atlas.png")
        yield f"what the {otf.codes} motion codes mean: {atlas}"
    title = f"Learned on {SOURCE}, applied to {TARGET}"
    yield f"transfer to another body, redrawn: {draw_strips(trained, target, title, out / 'transfer.png')}"
    for method, tokenizer in trained.items():
        held_out = motion_clips(stores[SOURCE], tokenizer.config, split_episodes(stores[SOURCE], 0.5, 0.5)[1])
        found = transfer_metrics(tokenizer, held_out, target)
        yield (
            f"{method}: normalised error {found['source_nmse']:.2f} on {SOURCE}, "
            f"{found['target_nmse']:.2f} on {TARGET} (drop {100 * found['drop_normalised']:.0f} %)"
        )
    yield from _latent_actions(out, size, stores[SOURCE], bar)


def _latent_actions(out: Path, size: str, store: Store, bar: Progress) -> Iterator[str]:
    """Learn latent actions twice, from codes and from whole frames, and show what each predicts."""
    train, held = split_episodes(store, 0.5, 0.5)
    models = {}
    for method, tokenizer in {"otf-lam-pixel": out / "otf", "lapo-256": None}.items():
        folder, training = out / method, preset(size).lam_training[method]
        model = train_lam(
            method, store, (train, held), preset(size).lam[method], training, Hardware(), folder, tokenizer,
            on_part=bar.part, on_start=bar.later(f"train {method}", "steps"), on_step=bar.advance,
        )  # fmt: skip
        models[method] = model
        yield f"{method}: {read_json(folder / 'health.json', 'delete the folder')['verdict']}"
    clips = Clips(store, sorted({offset for model in models.values() for offset in model.offsets}), (), held)
    title = f"Held-out {SOURCE}, predicted {models['otf-lam-pixel'].stride} steps ahead"
    yield f"what latent actions predict: {draw_predictions(models, clips, title, out / 'predictions.png', 6)}"


def _tokenizer(out: Path, size: str, method: str, store: Store, bar: Progress) -> MotionAutoencoder:
    model = dataclasses.replace(preset(size).tokenizer, method=method)
    episodes, start = split_episodes(store, 0.5, 0.5)[0], bar.begin(f"train {method} tokenizer", "steps")
    training = preset(size).tokenizer_training
    return train_tokenizer(store, episodes, model, training, Hardware(), out / method, start, bar.advance)
