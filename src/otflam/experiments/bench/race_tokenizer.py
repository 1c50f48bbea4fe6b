"""A race of tokenizers at the size of the authors': same data, batch, step size and warm-up, one thread."""

from __future__ import annotations

import io
import tempfile
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from otflam.data import Clips, export_laom, split_episodes
from otflam.evaluate import normalised_error
from otflam.experiments.bench import benchmark
from otflam.experiments.bench.models import HELD_OUT_CLIPS, train_endlessly, walker
from otflam.experiments.bench.opponents import Clock, Enough, TimeIsUpError, find_clone, load_modules, race_to_error
from otflam.presets import PUBLIC, get_preset
from otflam.tokenizer import TokenizerConfig, motion_clips

PATCH, WARMUP, SHARE = 7, 40, 0.5
"""Pixels of a patch, steps without quantisation, and the share of the episodes that the authors' data set trains on."""
SECONDS = 240.0
"""How long the opponent trains before its error becomes the goal."""


@benchmark(">= 20", "x", opponent="lam_agent_ambiguity")
def race_tokenizer() -> tuple[float, dict[str, float]]:
    """tokenizer, 98 px: CPU time to the held-out error that the opponent has after 240 s, opponent over ours"""
    clone, plain = find_clone("lam_agent_ambiguity"), replace(tokenizer(), decoder=PUBLIC)
    opponent = partial(ours, plain) if clone is None else partial(theirs, clone)
    return race_to_error(opponent, {"ours": partial(ours, tokenizer())}, SECONDS)


def tokenizer() -> TokenizerConfig:
    return replace(get_preset("laptop").tokenizer, patch=PATCH, warmup=WARMUP)


def unseen() -> Clips:
    store = walker()
    return motion_clips(store, tokenizer(), split_episodes(store, SHARE, 1 - SHARE)[1])


def ours(config: TokenizerConfig, enough: Enough) -> Clock:
    """A tokenizer of ours in our loop."""
    held_out, clocks = unseen(), list[Clock]()

    def after_step(model: Any, step: int) -> None:
        if not clocks:  # once the model is there; its first step is not counted, for either side
            error = partial(normalised_error, model, held_out, HELD_OUT_CLIPS)
            clocks.append(Clock(error, enough, get_preset("laptop").tokenizer_training.batch, WARMUP))
        clocks[0].step()

    train_endlessly(config, after_step, SHARE)
    return clocks[0]


def theirs(clone: Path, enough: Enough) -> Clock:
    """The authors' own training, told to stop by a hook of its optimiser."""
    public, conf = load_modules(clone, "otf_vqvae.model", "omegaconf")
    build, clocks = public.build_optimizer, list[Clock]()

    def built(model: Any, options: Any) -> Any:
        optimiser = build(model, options)
        batch = get_preset("laptop").tokenizer_training.batch

        def after_step(*_: Any) -> None:
            if not clocks:
                clocks.append(Clock(partial(error_of, public, model), enough, batch, WARMUP))
            clocks[0].step()

        optimiser.register_step_post_hook(after_step)
        return optimiser

    public.build_optimizer = built
    try:
        with tempfile.TemporaryDirectory() as folder, suppress(TimeIsUpError), redirect_stdout(io.StringIO()):
            export_laom(walker(), file := Path(folder) / "walker.hdf5")
            config = conf.OmegaConf.load(clone / "configs" / "otf_vqvae" / "walker.yaml")
            public.train(conf.OmegaConf.merge(config, changes(file)))
    finally:
        public.build_optimizer = build
    return clocks[0]


def changes(file: Path) -> dict[str, Any]:
    """What the authors' configuration for walker-run needs to meet ours; the transform is that of their script."""
    store, mine, training = walker(), tokenizer(), get_preset("laptop").tokenizer_training
    rows = sum(int(store.lengths[index]) - mine.motion.stride for index in split_episodes(store, SHARE, 1 - SHARE)[0])
    epoch = -(-rows // training.batch)
    return {
        "run_name": "race",
        "output_dir": str(file.parent / "run"),
        "device": "cpu",
        "data": {"path": str(file)},
        "model": {"codebook_size": mine.codebook.codes, "motion_transform": mine.motion.transform},
        # Half a step less, for it is rounded up.
        "train": {
            "num_epochs": 10**6,
            "warmup_epoch": (WARMUP - 0.5) / epoch,
            "batch_size": training.batch,
            "num_workers": 0,
        },
        "optim": {"lr": training.lr},
        "checkpoint": {"save": False},
        "wandb": {"enabled": False},
    }


def error_of(public: Any, model: Any) -> float:
    """The normalised error of the authors' model on the clips that ours is judged by."""
    clips, size = unseen(), tokenizer().grid * PATCH
    batch = clips.gather(clips.evenly_spaced(HELD_OUT_CLIPS))
    now, ahead = (F.interpolate(batch.images(offset), (size, size), mode="bilinear") for offset in batch.offsets)
    model.eval()
    with torch.no_grad():
        signal = public.make_motion_signal({"current": now, "next": ahead}, "velocity", model.motion_transform)
        drawn = model(signal, reference_frame=now, use_quantization=True)["reconstruction"]
    model.train()
    return float((drawn - signal).square().sum() / signal.square().sum())
