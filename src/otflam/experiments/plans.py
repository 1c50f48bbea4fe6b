"""Which cells each study has, the cheap and telling first."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from otflam.evaluate import BASELINE, BODIES, BOUNDS, CONTROL, DIGITS, GROUNDED, OURS, REFERENCES, names, redrawn_as
from otflam.experiments import lams
from otflam.experiments.agents import SEEDS, Job
from otflam.experiments.cells import KINDS, PlannedCell
from otflam.experiments.datasets import distracting, redrawn
from otflam.presets import Preset

Plan = Callable[[Preset], list[PlannedCell]]


def every(kind: str, experiment: str) -> Plan:
    """All cells of an experiment."""
    return lambda preset: [PlannedCell(kind, job) for job in KINDS[kind].plan(preset, experiment)]


def plan_convergence(preset: Preset) -> list[PlannedCell]:
    """Curves of cloning, and of decoding at every budget."""
    worlds, main, first = distracting(preset), GROUNDED, preset.compared[0]
    cloned = [planned for planned in every("agents", "control")(preset) if planned.job.labels == first]
    return [
        planned
        for planned in every("alignments", "alignment")(preset) + cloned
        if planned.job.data in worlds and planned.job.method in main
    ]


def plan_pictures(preset: Preset) -> list[PlannedCell]:
    """The tokenizers that pictures are drawn with: of the motion that the preset's own have."""
    shown = {CONTROL[0]: preset.tokenizer.motion, DIGITS[0]: preset.digit_tokenizer.motion}
    plan = every("tokenizers", "transfer")(preset)
    return [
        planned for planned in plan if planned.job.seed == 0 and planned.job.model.motion == shown[planned.job.source]
    ]


def plan_shapes(preset: Preset) -> list[PlannedCell]:
    """Variants that learn more in a second than what they vary: healthy, and what do their latents know?"""
    noisy, plain, variants = distracting(preset), redrawn(preset), lams.variants(preset)
    models = [PlannedCell("lams", lams.Job(name, data)) for data in (*noisy, *plain) for name in variants]
    # With distractors no latent knows anything of innovations, without them actions follow from states.
    read = itertools.product([("alignments", noisy), ("innovations", plain)], variants, preset.compared, SEEDS)
    return models + [
        PlannedCell(kind, Job(name, data, labels, seed))
        for (kind, worlds), name, labels, seed in read
        for data in worlds
    ]


def plan_ambiguity(preset: Preset) -> list[PlannedCell]:
    """What latents know of two bodies, audits of their models, who plays beside a rival; then single distractors."""
    read, played = every("ambiguities", "ambiguity")(preset), every("agents", "ambiguity")(preset)
    beside = [planned for planned in read if redrawn_as(planned.job.data) in BODIES]
    asked = [planned.job for planned in read if redrawn_as(planned.job.data) in (*BODIES, *names.CAMERAS)]
    models = [PlannedCell("lams", lams.Job(job.method, job.data)) for job in asked]
    first = [planned for planned in played if redrawn_as(planned.job.data) in BODIES]
    return list(dict.fromkeys([*beside, *models, *first, *read, *played]))


def plan_labels(preset: Preset) -> list[PlannedCell]:
    """The main methods with labels inside their training and without, with distractors and beside another body.

    What latents know is read at further budgets too, with one draw: a model that hears other labels is another one.
    """
    rows = [name + end for name in names.HEARING for end in ("", names.HEARD)]
    kinds = {"": "alignments", names.UNLIKE: "ambiguities"}
    drawn = [(labels, seed) for labels in preset.compared for seed in SEEDS]
    drawn += [(labels, SEEDS[0]) for labels in sorted(preset.labels)[-2:] if labels not in preset.compared]
    every = itertools.product(kinds, distracting(preset), rows, drawn)
    jobs = [(kinds[world], Job(row, data + world, labels, seed)) for world, data, row, (labels, seed) in every]
    models = [PlannedCell("lams", lams.job_for(job.method, job.data, job.labels, job.seed)) for _, job in jobs]
    read = [PlannedCell(kind, job) for kind, job in jobs]
    played = [PlannedCell("agents", job) for _, job in jobs if job.labels in preset.compared]
    return list(dict.fromkeys([*models, *read, *played]))


def plan_games(preset: Preset) -> list[PlannedCell]:
    """Bounds; what frames tell; what the telling latents know of choices and of everything that moves, and who plays
    with them; the same of all others; and whether vocabularies transfer."""
    read, played = every("games", "games")(preset), every("agents", "games")(preset)
    models = [PlannedCell("lams", lams.Job(planned.job.method, planned.job.data)) for planned in read]
    bounds = [planned for planned in played if planned.job.method in BOUNDS]
    rows = (*names.TELLING, *REFERENCES)
    first = [planned for planned in (*read, *models, *played) if planned.job.method in rows]
    frames, words = every("readers", "games")(preset), every("tokenizers", "games")(preset)
    return list(dict.fromkeys([*bounds, *frames, *first, *read, *models, *played, *words]))


def plan_general(preset: Preset) -> list[PlannedCell]:
    """Vocabularies, each tested on all domains; latent actions on the packaged one, and those on one of the task's own,
    which other studies have too."""
    read = every("vocabularies", "general")(preset)
    own = [replace(planned.job, method=OURS[0]) for planned in read]
    kinds = [("alignments", distracting(preset)), ("innovations", [*distracting(preset), *redrawn(preset)])]
    beside = [PlannedCell(kind, job) for kind, worlds in kinds for job in own if job.data in worlds]
    return [*every("general", "general")(preset), *read, *beside]


def plan_demo(preset: Preset) -> list[PlannedCell]:
    """The whole story on one task, with one seed: a vocabulary, its transfer, latent actions, agents, references."""
    first, data = preset.compared[0], next(data for data in distracting(preset) if data.startswith("cheetah-run"))
    words = [planned for planned in plan_pictures(preset) if planned.job.source in CONTROL]
    models = [planned for planned in every("lams", "lam")(preset) if planned.job.data == data]
    played = [
        planned
        for planned in every("agents", "control")(preset)
        if planned.job.data == data and planned.job.seed == 0 and planned.job.labels in (0, first)
    ]
    ours, baseline = ([planned for planned in models if planned.job.method == name] for name in (OURS[0], BASELINE))
    agents = [each for each in played if each.job.method in (OURS[0], BASELINE, *REFERENCES, *BOUNDS)]
    # The longest first and the shortest last, so that at the end no core waits long for the other.
    turn = {names.IDM: 0, **dict.fromkeys(names.UNTRAINED, 2)}
    return ours + words + baseline + sorted(agents, key=lambda planned: turn.get(planned.job.method, 1))
