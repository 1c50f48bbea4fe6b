"""Makes the samples of the campaign with the package's own commands, each part once and only if a case needs it."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from otflam.core import Progress, UserError
from otflam.envs import load_expert
from otflam.evaluate import Cell, write_record
from otflam.experiments.campaign.process import Death, run_command
from otflam.experiments.campaign.samples import COLLECT, ENCODE, LABEL, LAOM, MOVER, PLAYER, RECORDS, VIDEOS, VOCAB
from otflam.report import write_video

LIMIT_SECONDS = 300.0
"""Seconds that a command of the preparation may take."""
MARKS_FOLDER = "made"
"""Folder in which every part that was made leaves a mark."""
COPIES = {"cheetah": ("victim", "part")}
"""Parts that are copies of another: one that nobody may touch, and one with columns of its own."""
SEER = "lam train lapo-64 mine --preset tiny --steps 2 --out seer"


@dataclass(frozen=True)
class Step:
    """A command that makes a part of the samples, from other parts."""

    makes: str
    words: str
    needs: tuple[str, ...] = ()
    killed_at: tuple[str, int] | None = None
    """Killed once this file has so many lines."""


STEPS = (
    Step("cheetah", COLLECT.format("cheetah")),
    Step("begun-collection", COLLECT.format("begun-collection"), (), ("begun-collection/parts.jsonl", 2)),
    Step("mine", VIDEOS.format("clips.csv", "mine")),
    Step("begun-import", VIDEOS.format("clips.csv", "begun-import"), (), ("begun-import/parts.jsonl", 2)),
    Step("seer", SEER, ("mine",)),
    Step("cheetah.hdf5", "data export laom cheetah --out cheetah.hdf5", ("cheetah",)),
    Step("begun-laom", LAOM.format("begun-laom"), ("cheetah.hdf5",), ("begun-laom/parts.jsonl", 2)),
    Step("vocab", VOCAB.format("vocab"), ("cheetah",)),
    Step("begun-vocab", VOCAB.format("begun-vocab"), ("cheetah",), ("begun-vocab/metrics.jsonl", 5)),
    Step("part.derived", ENCODE.format("part"), ("part", "vocab"), ("part.derived/*/parts.jsonl", 2)),
    Step("mover", MOVER.format("mover"), ("cheetah", "vocab")),
    Step("begun-mover", MOVER.format("begun-mover"), ("cheetah", "vocab"), ("begun-mover/metrics.jsonl", 3)),
    Step("cheetah.derived", LABEL.format("cheetah"), ("cheetah", "vocab", "mover")),
    Step("player", PLAYER.format("player"), ("cheetah", "mover")),
    Step(
        "begun-player", PLAYER.format("begun-player"), ("cheetah", "mover"), ("begun-player/decoder/metrics.jsonl", 1)
    ),
)


def prepare(folder: Path, wanted: set[str], progress: Progress) -> None:
    """Make what is wanted and not there yet, and what it is made from."""
    for step in reversed(STEPS):
        if wanted.intersection((step.makes, *COPIES.get(step.makes, ()))):
            wanted |= {step.makes, *step.needs}
    if not (folder / RECORDS).exists():
        make_foreign(folder)
        make_records(folder)
    steps = [step for step in STEPS if step.makes in wanted and not (folder / MARKS_FOLDER / step.makes).exists()]
    for number, step in enumerate(steps, start=1):
        run_step(folder, step)
        progress.reach(number, len(steps))


def run_step(folder: Path, step: Step) -> None:
    """Make one part, and mark it as made."""
    death = None if step.killed_at is None else Death(lines=step.killed_at)
    ended = run_command(shlex.split(step.words), folder, LIMIT_SECONDS, death)
    if ended.code != (0 if death is None else -death.signal):
        raise UserError(f"'otflam {step.words}' ended with {ended.code}", " ".join(ended.errors) or "try it by hand")
    for copy in COPIES.get(step.makes, ()):
        shutil.copytree(folder / step.makes, folder / copy)
    (folder / MARKS_FOLDER).mkdir(exist_ok=True)
    (folder / MARKS_FOLDER / step.makes).touch()


def make_foreign(folder: Path) -> None:
    """Files that other programs write: videos, images, actions, a PPO checkpoint; and an expert."""
    rng, counts = np.random.default_rng(0), {}
    (folder / "clips" / "still").mkdir(parents=True)
    for index in range(4):
        frames = rng.integers(0, 256, (8, 24, 24, 3), np.uint8)
        write_video(frames, Fraction(10), folder / "clips" / f"{index}.mp4")
        counts[f"{index}.mp4"] = len(frames)
    for index in range(5):
        picture = Image.fromarray(rng.integers(0, 256, (24, 24, 3), np.uint8))
        picture.save(folder / "clips" / "still" / f"{index}.{'png' if index % 2 else 'jpg'}")
    counts["still"] = 5
    tables = {name: rng.uniform(-1, 1, (count, 2)).astype(np.float32) for name, count in counts.items()}
    lines = [f"{name},{t},{row[0]:.6f},{row[1]:.6f}" for name, table in tables.items() for t, row in enumerate(table)]
    (folder / "clips.csv").write_text("\n".join(["video,frame,left,right", *lines]) + "\n")
    np.savez(folder / "clips.npz", allow_pickle=False, **tables)
    load_expert("cheetah-run").save(folder / "skilled.safetensors", {})  # as this version writes one
    expert = load_expert("cheetah-run")
    state = {"obs_rms.mean": torch.from_numpy(expert.mean), "obs_rms.var": torch.from_numpy(expert.std**2)}
    for number, layer in enumerate(expert.layers):
        names = [f"actor_mean.{2 * number}.{part}" for part in ("weight", "bias")]
        state |= dict(zip(names, map(torch.from_numpy, layer), strict=True))
    torch.save(state, folder / "skilled.pt")


def make_records(folder: Path) -> None:
    """Records of one experiment, and a page that shows them."""
    names = ("source_mse", "target_mse", "source_nmse", "target_nmse", "drop", "drop_normalised", "train_seconds")
    names += ("source_shuffled_nmse", "target_shuffled_nmse", "source_bits_per_token", "target_bits_per_token")
    rng = np.random.default_rng(0)
    for method in ("otf", "monolithic"):
        for seed in range(2):
            task = "walker-run-to-cheetah-run"
            cell = Cell("transfer", method, task, "tiny", seed, {}, "0" * 32, {"codes": 1}, None, {"order": 1})
            metrics: dict[str, float | list[float]] = {name: float(rng.uniform(0.1, 2)) for name in names}
            write_record(folder / RECORDS, cell, metrics, 1.0, "otflam reproduce transfer --preset tiny")
    (folder / "page.md").write_text("# A page\n\n<!-- table transfer tiny -->\n<!-- end of table -->\n")
