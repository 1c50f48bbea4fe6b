"""Returns of agents and of what they must be compared with, in both worlds."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from otflam.core import learning_curve, read_release, retry_busy, stable_hash, to_json, training_seconds, versions
from otflam.envs import can_simulate, level_of
from otflam.evaluate import (
    CONTROL_VERSION,
    DRAWN_VERSION,
    EVALUATION,
    STARTS_VERSION,
    Cell,
    Metrics,
    Stretches,
    kinds_of,
    names,
    play,
    return_metrics,
    start_metrics,
)
from otflam.experiments import lams
from otflam.experiments.datasets import Lab, distracting, redrawn
from otflam.lam import METHODS
from otflam.policy import (
    AGENT_VERSION,
    CLONE_KIND,
    CLONE_VERSION,
    DECODER_VERSION,
    AgentPlan,
    Grounding,
    PolicyConfig,
    Splits,
    clone_key,
    train_agent,
    train_reference,
    way_of,
)
from otflam.presets import Preset, steps_on_labels

SEEDS = (0, 1, 2)
NEW_BACKGROUNDS_EVERY = 4
"""New backgrounds are met in one of so many of the episodes."""
WAYS: dict[str, Grounding] = {names.FINETUNE: "finetune", names.RELABEL: "relabel"}
"""Ways to ground latent actions that are not the paper's, by the end of a method's name."""
RELABELLED = ("otf-lam-dino",)
"""With which `+relabel` is compared: it earned no more than decoding, and the same costs another clone a seed."""
BODY, DISTRACTING = (names.UNLIKE,), (names.ALIKE, *names.DOSES)
"""Redrawn worlds in which agents play with all seeds, and those in which they play with one."""
WITHOUT_DISTRACTORS = (names.BASELINE, names.LABELS_ONLY)
"""Whose returns must be good where only the agent moves; LAPO was made for such worlds."""


@dataclass(frozen=True)
class Job:
    """One method on one data set with one budget of labelled episodes."""

    method: str
    data: str
    labels: int
    seed: int
    codes: int = 0
    """Size of the tokenizer's vocabulary; 0: the preset's."""
    steps: int = 0
    """Steps on labelled episodes; 0: the preset's."""

    def __str__(self) -> str:
        named = {"labels": self.labels, "codes": self.codes, "steps": self.steps}
        facts = [f"{count} {what}" for what, count in named.items() if count]
        return ", ".join([f"{self.method} on {self.data}", *facts, f"seed {self.seed}"])


VOCABULARIES = (16, 32, 0, 128)
"""Sizes of the vocabulary; 0: the preset's, which is 64."""


def plan(preset: Preset, experiment: str) -> list[Job]:
    """The jobs of an experiment."""
    plans = {"control": plan_control, "supervision": plan_supervision, "vocabulary": plan_vocabulary}
    return (plans | {"ambiguity": plan_ambiguity, "suite": plan_suite, "games": plan_games})[experiment](preset)


def plan_suite(preset: Preset) -> list[Job]:
    """Every true action imitated in every world, between floor and ceiling: alone, beside another body, and with
    distractors. The tasks of all other studies are recorded there."""
    tasks = [task + names.NOISY if preset.noise else task for task in names.SUITE if task not in names.CONTROL]
    worlds = [task + end for end in (names.VANILLA, names.UNLIKE, "") for task in tasks]
    return [Job(name, data, 0, SEEDS[0]) for data, name in itertools.product(worlds, names.BOUNDS)]


def plan_ambiguity(preset: Preset) -> list[Job]:
    """Beside a rival, and with one distractor at a time: floors and ceilings, the labels alone, the main methods.

    All seeds play beside an unlike body, where others are compared too; in all other redrawn worlds one does: a clone
    is a minute of a core, and ten worlds would take as many hours as everything that they are compared with.
    """
    bodies, others = ([data + end for end in ends for data in distracting(preset)] for ends in (BODY, DISTRACTING))
    drawn = [(data, seed) for data in bodies for seed in SEEDS] + [(data, SEEDS[0]) for data in others]
    rows = [(name, 0) for name in names.BOUNDS]
    rows += [(name, preset.compared[-1]) for name in (*names.REFERENCES, *names.GROUNDED)]
    return [Job(name, data, labels, seed) for (name, labels), (data, seed) in itertools.product(rows, drawn)]


def plan_games(preset: Preset) -> list[Job]:
    """Floors and ceilings; what learns from the labels alone, and the telling methods; then all others once."""
    bounds = itertools.product(names.GAMES, names.BOUNDS, SEEDS)
    jobs = [Job(name, data, 0, seed) for data, name, seed in bounds]
    rows = [*names.REFERENCES, *names.TELLING]
    jobs += [
        Job(row, data, preset.compared[0], seed) for seed, data, row in itertools.product(SEEDS, names.GAMES, rows)
    ]
    others = [name for name in lams.methods(preset) if name not in rows and not METHODS[name].features]
    return jobs + [Job(row, data, preset.compared[0], SEEDS[0]) for data, row in itertools.product(names.GAMES, others)]


def plan_supervision(preset: Preset) -> list[Job]:
    """Every budget of labels: OTF-LAM-DINO with every vocabulary, LAPO-256, and what the labels alone are worth."""
    swept, *others = names.SUPERVISED
    kinds = [(swept, codes) for codes in VOCABULARIES] + [(method, 0) for method in others]
    # Neighbours share neither model nor clone, so that none waits until another has trained it.
    every = itertools.product(preset.labels, SEEDS, distracting(preset), kinds)
    return [Job(method, data, labels, seed, codes) for labels, seed, data, (method, codes) in every]


def plan_vocabulary(preset: Preset) -> list[Job]:
    """Every vocabulary at the first budget."""
    every = itertools.product(SEEDS, distracting(preset), names.OURS, VOCABULARIES)
    return [Job(method, data, preset.compared[0], seed, codes) for seed, data, method, codes in every]


def plan_control(preset: Preset) -> list[Job]:
    """Floors and ceilings everywhere; with distractors what was tuned at all compared budgets, then all other methods;
    without, what tells whether the pipeline is sound.

    How returns with distractors grow with labels is the study of supervision.
    """
    plain, compared = redrawn(preset), preset.compared
    every = itertools.product(names.BOUNDS, [*distracting(preset), *plain], SEEDS)
    jobs = [Job(name, data, 0, seed) for name, data, seed in every]
    tuned = [*names.REFERENCES, *names.GROUNDED, *(name + names.FINETUNE for name in names.GROUNDED)]
    others = [name for name in lams.methods(preset) if name not in names.GROUNDED]
    others += [name + names.RELABEL for name in RELABELLED]
    for methods, budgets in ((tuned, compared), (others, compared[:1])):
        every = itertools.product(budgets, methods, SEEDS, distracting(preset))
        jobs += [Job(method, data, labels, seed) for labels, method, seed, data in every]
    every = itertools.product(plain, WITHOUT_DISTRACTORS, SEEDS)
    return jobs + [Job(method, data, compared[-1], seed) for data, method, seed in every]


def needs(job: Job) -> list[str]:
    return lams.needs(lam_job(job)) if has_lam(job) else [job.data]


def has_lam(job: Job) -> bool:
    return job.method not in (*names.BOUNDS, *names.REFERENCES)


def lam_job(job: Job) -> lams.Job:
    return lams.job_for(job.method, job.data, job.labels, job.seed, job.codes)


def config_of(preset: Preset, job: Job) -> PolicyConfig:
    config = preset.policy.seeded(job.seed)
    steps = preset.clone_steps.get(job.method.partition("+")[0], config.clone.steps)
    steps = (preset.game_steps if job.data in names.GAMES else None) or steps
    config = dataclasses.replace(config, clone=dataclasses.replace(config.clone, steps=steps))
    return config.with_steps(way_of(job.method), job.steps or steps_on_labels(preset, job.method, job.labels))


def most(preset: Preset, job: Job) -> int:
    """Episodes to imitate: those with stored features where features are costly, else all."""
    return preset.featured if has_lam(job) and METHODS[lam_job(job).method].features else 0


def trained_agent(lab: Lab, job: Job) -> tuple[Path, Path]:
    """The folders of a job's agent and of its clone, trained if they are missing."""
    (facts, stages, _), store, preset = agent_facts(lab, job), lab.store(job.data), lab.preset
    key = stable_hash([facts, store.hash, stages, versions("torch", "numpy")])
    out = lab.root / "agents" / f"{job.data}-{job.method}-{job.labels}-seed{job.seed}-{key[:12]}"
    task = AgentPlan(store, job.labels or 1, config_of(preset, job), preset.hardware, out, most(preset, job))
    if job.method in (*names.REFERENCES, names.ALL_ACTIONS):
        train_reference(task, job.method)
        return out, out / "clone"
    model = lam_job(job)
    lam, dino = retry_busy(lambda: lams.trained_lam(lab, model)), lams.backbone_for(lab, model)
    # The clone of a model's latents is shared by all budgets and by what goes on from it.
    shared = lab.root / "clones" / f"{job.data}-{model.called}-seed{job.seed}-{clone_key(task, lam)[:12]}"
    way = WAYS.get(job.method.removeprefix(model.method), "decode")
    retry_busy(lambda: train_agent(task, lam, dino, way, shared))
    return out, out / "clone" if way == "relabel" else shared


def measure(lab: Lab, job: Job) -> Metrics:
    """Play with the agent, or with a policy that needs none, whole episodes and stretches; also on new backgrounds."""
    preset, world, player, parts = lab.preset, lab.world(job.data), job.method, {}
    if job.method not in names.UNTRAINED:
        player, clone = trained_agent(lab, job)
        parts = {"clone": clone, "decoder": player / "decoder", "finetune": player / "finetune"}
    seed, episodes, game = EVALUATION + job.seed, episodes_of(preset, job.data), job.data in names.GAMES
    world = dataclasses.replace(world, split="validation") if game else world  # levels that nobody has seen
    play_on = partial(play, steps=preset.played, hardware=preset.hardware)
    metrics = dict(return_metrics(play_on(player, world, seed, episodes, 1)))
    if can_simulate(world.task):
        metrics |= start_metrics(player, stretches_of(lab, job.data), preset.hardware)
    if isinstance(player, Path):
        if level_of(world).videos and not game:
            other, few = dataclasses.replace(world, split="validation"), -(-episodes // NEW_BACKGROUNDS_EVERY)
            metrics["return_new_backgrounds"] = return_metrics(play_on(player, other, seed, few, 1))["return_mean"]
        metrics["imitated_episodes"] = float(len(read_release(parts["clone"], CLONE_KIND)["episodes"]))
    for part, folder in parts.items():
        if (folder / "metrics.jsonl").exists():
            metrics[f"{part}_seconds"] = training_seconds(folder)
    if has_lam(job):
        metrics["curve_steps"], metrics["curve_clone"] = learning_curve(parts["clone"], "clone")
    if (parts.get("decoder", lab.root) / "metrics.jsonl").exists():
        metrics["decoder_steps"], metrics["decoder_mse"] = learning_curve(parts["decoder"], "check/held_out")
    return metrics


def episodes_of(preset: Preset, data: str) -> int:
    """How many episodes are played."""
    return preset.levels if data in names.GAMES else preset.evaluated


def stretches_of(lab: Lab, data: str) -> Stretches:
    """Where short stretches begin: in the episodes that are held out from everything."""
    store = lab.store(data)
    probes = tuple(int(index) for index in Splits.of(store).probes)
    return Stretches(store.path, probes, lab.preset.stretch)


def agent_facts(lab: Lab, job: Job) -> tuple[dict[str, Any], dict[str, int], dict[str, Any]]:
    """What decides a job's agent: settings, versions of stages, and what tables name beside them."""
    facts, stages, extra = {}, {}, {}
    if job.method not in names.UNTRAINED:
        policy = to_json(config_of(lab.preset, job))
        if not job.method.endswith(names.FINETUNE):
            del policy["finetune"]  # decides nothing else
        facts |= {"policy": policy, "most": most(lab.preset, job)}
        stages |= {"clone": CLONE_VERSION, "decoder": DECODER_VERSION, "agent": AGENT_VERSION}
    if has_lam(job):
        model = lams.cell(lab, lam_job(job))
        facts["lam"], extra = [model.config, kinds_of(model.stages)], model.extra
    return facts, stages, extra | {"labels": job.labels}


def cell(lab: Lab, job: Job) -> Cell:
    """What a job's result is of."""
    (facts, stages, extra), preset = agent_facts(lab, job), lab.preset
    played = {"episodes": episodes_of(preset, job.data), "steps": preset.played, "stretch": preset.stretch}
    measured = stages | {"control": CONTROL_VERSION, "starts": STARTS_VERSION}
    if job.data in names.GAMES and job.method not in names.UNTRAINED:
        measured["drawn"] = DRAWN_VERSION
    return lab.cell(experiment_of(job.data), job, facts | played, measured, extra)


def experiment_of(data: str) -> str:
    """What returns are recorded as."""
    if data in names.GAMES:
        return "gameplay"
    if names.task_of(data) not in names.CONTROL:
        return "suite"
    return "control" if names.redrawn_as(data) in ("", names.VANILLA) else "rivalry"
