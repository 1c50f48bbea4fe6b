"""What a plan will cost: a few real steps of everything in it are timed and weighed on this machine."""

from __future__ import annotations

import dataclasses
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otflam.core import Progress, UserError
from otflam.data import DEFAULT_SEQUENCES, SHARES
from otflam.envs import level_of
from otflam.evaluate import (
    ALL_ACTIONS,
    ALL_LABELS,
    DIGITS,
    FINETUNE,
    GAMES,
    IDM,
    LABELS_ONLY,
    RELABEL,
    UNTRAINED,
    redrawn_as,
    source_of,
)
from otflam.experiments import agents, general, lams, readers, tuning
from otflam.experiments.calibration import Calibration, Cost
from otflam.experiments.cells import PlannedCell, Site
from otflam.experiments.datasets import Lab, collection_of, redrawn_world
from otflam.experiments.sources import PREFIX, amount_of
from otflam.experiments.tokenizers import tokenizer_folder, training_of
from otflam.lam import METHODS
from otflam.presets import Preset

PROBE_SECONDS = 6.0
"""All probes of one cell of alignment, measured at laptop size; hardly anything beside the rest."""
HELD_OUT = 0.5
"""Share of the episodes that nothing is trained on: the pool of labels, and probes."""
ON_CORES = ("collect", "draw", "play")
"""Kinds of work that no GPU takes over; an agent's network is the least part of its playing."""
NETWORKS = {"innovations": 2, "ambiguities": 2}
"""How many networks read from frames what could be read at best, once for all cells of a data set."""
EPISODE_STEPS = 1000
"""Steps of an episode to its time limit, in every task of the suite."""
LEVEL_STEPS = {"procgen-coinrun": 50, "procgen-bigfish": 150, "procgen-starpilot": 140}
"""How long levels of games last, about: they end when one dies or wins (measured with experts)."""


@dataclass(frozen=True)
class Piece:
    """A part of the work that is done once for all cells that need it."""

    key: Any
    kind: str
    """What it is like: pieces of one kind cost the same per unit."""
    amount: float | int
    """Steps, frames or probes."""


@dataclass(frozen=True)
class Work:
    """What is missing of a plan, and what a few steps of each of its kinds cost on one core here."""

    cells: int
    missing: int
    away: tuple[str, ...]
    """Data sets that are not here yet."""
    pieces: tuple[Piece, ...]
    costs: dict[str, Cost]
    unknown: dict[str, str]
    """Kinds whose cost nobody knows, and why."""

    @property
    def kinds(self) -> list[str]:
        return list(dict.fromkeys(piece.kind for piece in self.pieces))

    def alike(self, kind: str) -> list[Piece]:
        return [piece for piece in self.pieces if piece.kind == kind]

    def told(self) -> Iterator[str]:
        """What comes before any table of costs."""
        yield f"{self.cells} cells, {self.cells - self.missing} recorded, {self.missing} to do"
        if self.away:
            yield f"not here yet: {', '.join(self.away)}; records of them count as missing until they are made"
        for kind, problem in self.unknown.items():
            yield f"{kind}: unknown, for {problem}"


def measure_work(site: Site, plan: list[PlannedCell], progress: Progress) -> Work:
    """Find out what is missing, and time and weigh every kind of it."""
    missing = [plan[number] for number in site.missing(plan)]
    away = {name for planned in missing for name in planned.needs if not site.lab.has(name)}
    pieces = dict.fromkeys(piece for planned in missing for piece in pieces_of(site.lab, planned))
    work = Work(len(plan), len(missing), tuple(sorted(away)), tuple(pieces), {}, {})
    with tempfile.TemporaryDirectory() as folder:
        calibration = Calibration(Path(folder), site.lab)
        for number, kind in enumerate(work.kinds):
            try:
                work.costs[kind] = Cost(PROBE_SECONDS) if kind == "probes" else calibration.cost(kind)
            except UserError as error:
                work.unknown[kind] = str(error)
            progress.reach(number + 1, len(work.kinds))
    return work


def estimate_work(site: Site, plan: list[PlannedCell], progress: Progress) -> Iterator[str]:
    """Lines that tell what is missing, its time and its disk."""
    work = measure_work(site, plan, progress)
    yield from work.told()
    if not work.missing:
        return
    yield f"{'part':28} {'times':>6} {'amount':>14} {'hours':>8} {'GB':>8}"
    hours, disk = defaultdict[str, float](float), defaultdict[str, float](float)
    for kind in work.kinds:
        alike, cost = work.alike(kind), work.costs.get(kind)
        amount = sum(piece.amount for piece in alike)
        if cost is not None:
            hours[kind] = cost.seconds * amount / 3600
            disk[kind] = (cost.per_unit * amount + cost.each * len(alike)) / 1e9
        columns = f"{hours[kind]:8.2f} {disk[kind]:8.2f}" if cost is not None else f"{'?':>8} {'?':>8}"
        yield f"{kind:28} {len(alike):6} {amount:14,.0f} {columns}"
    cores = sum(spent for kind, spent in hours.items() if on_cores(kind))
    total, parallel = sum(hours.values()), site.jobs.parallel
    yield (
        f"about {total - cores:,.1f} hours of one core, or of a GPU at its own speed, for networks, and {cores:,.1f} "
        f"of one core for pictures and physics; {total / parallel:,.1f} in all with {parallel} at a time that "
        f"do not slow each other, and {sum(disk.values()):,.1f} GB"
    )


def on_cores(kind: str) -> bool:
    """Whether a kind of work stays with the processor."""
    return kind.partition(" ")[0] in ON_CORES


def pieces_of(lab: Lab, planned: PlannedCell) -> Iterator[Piece]:
    """Everything that a cell needs and that may have to be made."""
    preset, kind, job = lab.preset, planned.kind, planned.job
    for name in planned.needs:
        if not lab.has(name):
            yield from data_pieces(preset, name)
    if kind == "tokenizers":
        yield from tokenizer_pieces(lab, job.source, job.model, job.seed)
    elif kind == "general":
        yield Piece(job, f"tokenizer {job.method}", general.training_of(preset, job).steps)
    elif kind == "lams":
        yield from lam_pieces(lab, job)
    elif kind in ("alignments", "games", "innovations", "ambiguities", "vocabularies"):
        model = lams.job_for(job.method, job.data, job.labels, job.seed)
        yield from lam_pieces(lab, model)
        yield label_piece(preset, model, HELD_OUT)
        yield Piece(planned, "probes", 1)
        if networks := NETWORKS.get(kind):
            yield Piece((kind, job.data, "ceilings"), "clone", networks * preset.policy.clone.steps)
    elif kind == "weights":
        yield from lam_pieces(lab, job.model)
        yield Piece(planned, "probes", 1)
    elif kind == "readers":
        networks = 2 if job.data in GAMES and job.method == ALL_LABELS else 1  # choices, and what moves
        yield Piece(planned, "clone", networks * readers.training_of(preset, job).steps)
    else:
        yield from agent_pieces(lab, job)
        steps = tuning.EPISODES * (preset.played or EPISODE_STEPS) if kind == "tuning" else played(preset, job)
        yield Piece((job, kind), "play games" if job.data in GAMES else "play", steps)


def data_pieces(preset: Preset, name: str) -> Iterator[Piece]:
    if name.startswith(PREFIX):
        amount = amount_of(preset)
        yield Piece(name, "collect", amount.episodes * amount.steps)
        return
    if name in DIGITS:
        yield Piece(name, "draw digits", (preset.mnist.sequences or DEFAULT_SEQUENCES["train"]) * preset.mnist.frames)
        return
    if redrawn_as(name):
        yield from data_pieces(preset, source_of(name))
    kind = "draw again" if redrawn_as(name) else "collect games" if name in GAMES else "collect"
    yield Piece(name, kind, frames(preset, name))


def frames(preset: Preset, name: str = "") -> int:
    """Frames of a data set of one task; of a game about so many."""
    plan = collection_of(preset, name)
    return plan.episodes * at_most(plan.steps, name)


def at_most(steps: int | None, data: str) -> int:
    """Steps of an episode that is cut after so many, if at all."""
    usual = LEVEL_STEPS.get(data, EPISODE_STEPS)
    return min(steps or usual, usual)


def tokenizer_pieces(lab: Lab, source: str, model: Any, seed: int) -> Iterator[Piece]:
    if lab.has(source) and finished(tokenizer_folder(lab, source, model, seed)):
        return
    kind = f"tokenizer {model.method}" + (" (digits)" if source in DIGITS else "")
    yield Piece(("tokenizer", source, model, seed), kind, training_of(lab.preset, source, seed).steps)


def finished(folder: Path) -> bool:
    return (folder / "model.safetensors").exists()


def lam_pieces(lab: Lab, job: lams.Job) -> Iterator[Piece]:
    """A latent action model and what it stands on."""
    preset = lab.preset
    try:
        if all(lab.has(name) for name in lams.needs(job)) and finished(lams.lam_folder(lab, job)):
            return
    except UserError:  # without its weights nobody knows; the calibration will say so
        pass
    method = METHODS[job.method]
    if method.base == "motion tokenizer" and not job.packaged:
        yield from tokenizer_pieces(lab, lams.vocabulary(job), lams.tokenizer_of(preset, job), job.seed)
    if method.base == "frame tokenizer":
        yield Piece(("frames", job.data), "tokenizer of frames", preset.frame_training.steps)
    if method.features and preset.featured:
        share = (preset.featured + lams.HELD_OUT) / preset.collection.episodes
        yield Piece(("features", job.data), "dino features", share * frames(preset, job.data))
    if method.low:
        yield from lam_pieces(lab, lams.low_of(job))
    yield Piece(job, f"lam {job.method}", lams.training_for(preset, job).steps)


def label_piece(preset: Preset, job: lams.Job, share: float) -> Piece:
    """Latents of a share of the frames."""
    return Piece(("latents", job, share), f"latents {job.method}", share * frames(preset, job.data))


def agent_pieces(lab: Lab, job: agents.Job) -> Iterator[Piece]:
    """An agent and what it plays."""
    config, relabelled = agents.config_of(lab.preset, job), job.method.endswith(RELABEL)
    if relabelled or job.method in (IDM, LABELS_ONLY, ALL_ACTIONS):
        inverse = (config.inverse or config.clone).steps if job.method == IDM else 0
        yield Piece((job, "clone"), "clone", config.clone.steps + inverse)
    if agents.has_lam(job):
        model = agents.lam_job(job)
        yield from lam_pieces(lab, model)
        # Where features are stored, latents of the episodes that a model was trained on cost next to nothing.
        if not (METHODS[model.method].features and lab.preset.featured):
            yield label_piece(lab.preset, model, 1 - HELD_OUT)
        if not relabelled:
            yield Piece((model, job.seed, "clone"), "clone", config.clone.steps)
        if job.method.endswith(FINETUNE):
            yield Piece((job, "finetune"), "clone", config.finetune.steps)
        else:
            yield Piece((job, "decoder"), "decoder", config.decode.steps)


def shows_videos(preset: Preset, data: str) -> bool:
    world, end = preset.collection.world, redrawn_as(data)
    changes = redrawn_world(preset, data, end) if end else {}
    return level_of(dataclasses.replace(world, **changes)).videos != 0


def played(preset: Preset, job: agents.Job) -> int:
    """Steps that an agent plays: whole episodes, some of them again with new backgrounds, and stretches."""
    if job.data in GAMES:
        return preset.levels * at_most(preset.played, job.data)
    again = shows_videos(preset, job.data) and job.method not in UNTRAINED
    episodes = preset.evaluated + again * -(-preset.evaluated // agents.NEW_BACKGROUNDS_EVERY)
    held_out = round(preset.collection.episodes * SHARES[2])
    return episodes * (preset.played or EPISODE_STEPS) + held_out * (preset.collection.steps or EPISODE_STEPS)
