"""What a plan will cost: a few real steps of everything in it are timed and weighed on this machine."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otflam.core import Progress, UserError
from otflam.data import DEFAULT_SEQUENCES, SHARES
from otflam.evaluate import ALL_ACTIONS, DIGITS, FINETUNE, IDM, LABELS_ONLY, RELABEL, UNTRAINED, VANILLA
from otflam.experiments import agents, lams, tuning
from otflam.experiments.calibration import Calibration, Cost
from otflam.experiments.cells import Site, Task
from otflam.experiments.datasets import collection_of
from otflam.experiments.tokenizers import tokenizer_folder, training_of
from otflam.lam import METHODS
from otflam.presets import preset

PROBE_SECONDS = 6.0
"""All probes of one cell of alignment, measured at laptop size; hardly anything beside the rest."""
HELD_OUT = 0.5
"""Share of the episodes that nothing is trained on: the pool of labels, and probes."""
ON_CORES = ("collect", "draw", "play")
"""Kinds of work that no GPU takes over; an agent's network is the least part of its playing."""
EPISODE = 1000
"""Steps of an episode to its time limit, in every task of the suite."""


@dataclass(frozen=True)
class Piece:
    """A part of the work that is done once for all cells that need it."""

    key: Any
    kind: str
    """What it is like: pieces of one kind cost the same per unit."""
    amount: float | int
    """Steps, frames or probes."""


def estimate_work(site: Site, tasks: list[Task], progress: Progress) -> Iterator[str]:
    """Lines that tell what is missing, its time and its disk."""
    missing = [tasks[number] for number in site.missing(tasks)]
    yield f"{len(tasks)} cells, {len(tasks) - len(missing)} recorded, {len(missing)} to do"
    if away := {name for task in missing for name in task.needs if not site.has(name)}:
        yield f"not here yet: {', '.join(sorted(away))}; records of them count as missing until they are made"
    if not missing:
        return
    pieces = dict.fromkeys(piece for task in missing for piece in pieces_of(site, task))
    kinds = list(dict.fromkeys(piece.kind for piece in pieces))
    costs: dict[str, Cost | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        calibration = Calibration(Path(folder), site.root, site.size)
        for number, kind in enumerate(kinds):
            try:
                costs[kind] = Cost(PROBE_SECONDS) if kind == "probes" else calibration.cost(kind)
            except UserError as error:
                costs[kind] = None
                yield f"{kind}: unknown, for {error}"
            progress.reach(number + 1, len(kinds))
    yield f"{'part':28} {'times':>6} {'amount':>14} {'hours':>8} {'GB':>8}"
    hours, disk = defaultdict[str, float](float), defaultdict[str, float](float)
    for kind in kinds:
        alike = [piece for piece in pieces if piece.kind == kind]
        amount, cost = sum(piece.amount for piece in alike), costs[kind]
        if cost is not None:
            hours[kind] = cost.seconds * amount / 3600
            disk[kind] = (cost.per_unit * amount + cost.each * len(alike)) / 1e9
        told = [f"{hours[kind]:8.2f} {disk[kind]:8.2f}" if cost is not None else f"{'?':>8} {'?':>8}"]
        yield f"{kind:28} {len(alike):6} {amount:14,.0f} {told[0]}"
    cores = sum(spent for kind, spent in hours.items() if kind.partition(" ")[0] in ON_CORES)
    total = sum(hours.values())
    yield (
        f"about {total - cores:,.1f} hours of one core, or of a GPU at its own speed, for networks, and {cores:,.1f} "
        f"of one core for pictures and physics; {total / site.workers:,.1f} in all with {site.workers} at a time that "
        f"do not slow each other, and {sum(disk.values()):,.1f} GB"
    )


def pieces_of(site: Site, task: Task) -> Iterator[Piece]:
    """Everything that a task needs and that may have to be made."""
    size, job = site.size, task.job
    for name in task.needs:
        if not site.has(name):
            yield from data_pieces(size, name)
    if task.kind == "tokenizers":
        yield from tokenizer_pieces(site, job.source, job.model, job.seed)
    elif task.kind == "lams":
        yield from lam_pieces(site, job)
    elif task.kind in ("alignments", "innovations"):
        model = lams.Job(job.method, job.data)
        yield from lam_pieces(site, model)
        yield label_piece(size, model, HELD_OUT)
        yield Piece(task, "probes", 1)
        if task.kind == "innovations":  # two networks that read from frames, for all cells of a data set
            yield Piece((job.data, "ceilings"), "clone", 2 * preset(size).policy.clone.steps)
    else:
        yield from agent_pieces(site, job)
        steps = tuning.EPISODES * (preset(size).played or EPISODE) if task.kind == "tuning" else played(size, job)
        yield Piece((job, task.kind), "play", steps)


def data_pieces(size: str, name: str) -> Iterator[Piece]:
    chosen = preset(size)
    if name in DIGITS:
        yield Piece(name, "draw digits", (chosen.mnist.sequences or DEFAULT_SEQUENCES["train"]) * chosen.mnist.frames)
        return
    if name.endswith(VANILLA):
        yield from data_pieces(size, name.removesuffix(VANILLA))
    yield Piece(name, "draw again" if name.endswith(VANILLA) else "collect", frames(size))


def frames(size: str) -> int:
    """Frames of a data set of one task."""
    plan = collection_of(size, "")
    return plan.episodes * (plan.steps or EPISODE)


def tokenizer_pieces(site: Site, source: str, model: Any, seed: int) -> Iterator[Piece]:
    if site.has(source) and finished(tokenizer_folder(site.root, site.size, source, model, seed)):
        return
    kind = f"tokenizer {model.method}" + (" (digits)" if source in DIGITS else "")
    yield Piece(("tokenizer", source, model, seed), kind, training_of(site.size, source, seed).steps)


def finished(folder: Path) -> bool:
    return (folder / "model.safetensors").exists()


def lam_pieces(site: Site, job: lams.Job) -> Iterator[Piece]:
    """A latent action model and what it stands on."""
    size, chosen = site.size, preset(site.size)
    try:
        if all(site.has(name) for name in lams.needs(job)) and finished(lams.lam_folder(site.root, size, job)):
            return
    except UserError:  # without its weights nobody knows; the calibration will say so
        pass
    method = METHODS[job.method]
    if method.base == "motion tokenizer":
        yield from tokenizer_pieces(site, lams.vocabulary(job), lams.tokenizer_of(size, job), job.seed)
    if method.base == "frame tokenizer":
        yield Piece(("frames", job.data), "tokenizer of frames", chosen.frame_training.steps)
    if method.features and chosen.featured:
        share = (chosen.featured + lams.HELD_OUT) / chosen.collection.episodes
        yield Piece(("features", job.data), "dino features", share * frames(size))
    if method.low:
        yield from lam_pieces(site, lams.low_of(job))
    yield Piece(job, f"lam {job.method}", lams.training_for(size, job).steps)


def label_piece(size: str, job: lams.Job, share: float) -> Piece:
    """Latents of a share of the frames."""
    return Piece(("latents", job, share), f"latents {job.method}", share * frames(size))


def agent_pieces(site: Site, job: agents.Job) -> Iterator[Piece]:
    """An agent and what it plays."""
    size = site.size
    config, relabelled = agents.config_of(size, job), job.method.endswith(RELABEL)
    if relabelled or job.method in (IDM, LABELS_ONLY, ALL_ACTIONS):
        inverse = (config.inverse or config.clone).steps if job.method == IDM else 0
        yield Piece((job, "clone"), "clone", config.clone.steps + inverse)
    if agents.has_lam(job):
        model = agents.lam_job(job)
        yield from lam_pieces(site, model)
        # Where features are stored, latents of the episodes that a model was trained on cost next to nothing.
        if not (METHODS[model.method].features and preset(size).featured):
            yield label_piece(size, model, 1 - HELD_OUT)
        if not relabelled:
            yield Piece((model, job.seed, "clone"), "clone", config.clone.steps)
        if job.method.endswith(FINETUNE):
            yield Piece((job, "finetune"), "clone", config.finetune.steps)
        else:
            yield Piece((job, "decoder"), "decoder", config.decode.steps)


def played(size: str, job: agents.Job) -> int:
    """Steps that an agent plays: whole episodes, some of them again with new backgrounds, and stretches."""
    chosen = preset(size)
    again = not job.data.endswith(VANILLA) and job.method not in UNTRAINED
    episodes = chosen.evaluated + again * -(-chosen.evaluated // agents.NEW)
    held_out = round(chosen.collection.episodes * SHARES[2])
    return episodes * (chosen.played or EPISODE) + held_out * (chosen.collection.steps or EPISODE)
