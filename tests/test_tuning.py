"""Steps on labels: the same trials for every row, chosen on validation seeds, and taken by whoever trains."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from otflam.data.collect import collect_episodes
from otflam.evaluate.control import EVALUATION, VALIDATION
from otflam.evaluate.names import GROUNDED, REFERENCES, TUNED
from otflam.evaluate.results import chosen_steps
from otflam.experiments import agents, tuning
from otflam.experiments.datasets import Lab
from otflam.policy.config import way_of
from otflam.presets import get_preset, steps_on_labels

LAPTOP = get_preset("laptop")


def test_every_row_has_as_many_trials() -> None:
    jobs = tuning.plan(LAPTOP, "tuning")
    trials = Counter((job.method, job.data, job.labels) for job in jobs)
    assert set(trials.values()) == {len(LAPTOP.trials)} and {job.seed for job in jobs} == {0}
    assert {labels for _, _, labels in trials} == set(LAPTOP.compared)
    rows = {method for method, _, _ in trials}
    assert {*GROUNDED, *REFERENCES, *(f"{name}+finetune" for name in GROUNDED)} == rows == set(TUNED)


def test_the_best_over_both_tasks_is_chosen() -> None:
    """Each task counts as a share of its own mean, so that the one with greater returns does not decide alone."""

    def trial(task: str, steps: int, earned: float) -> dict:
        metrics = {"return_mean": earned}
        return {"method": "idm", "labels": 8, "task": task, "steps": steps, "metrics": metrics}

    near = [trial("a", 500, 100.0), trial("a", 1500, 105.0), trial("b", 500, 30.0), trial("b", 1500, 20.0)]
    assert chosen_steps(near) == {"idm": {8: 500}}
    assert chosen_steps(near[:2]) == {"idm": {8: 1500}}
    assert chosen_steps([]) == {}


def test_steps_go_where_the_labels_are() -> None:
    chosen = dataclasses.replace(LAPTOP, steps={"decode": {8: 700, 32: 900}, "lapo-256": {8: 800}, "idm": {8: 600}})
    assert [way_of(row) for row in ("hilam", "hilam+finetune", "idm")] == ["decode", "finetune", "idm"]
    assert steps_on_labels(chosen, "lapo-256", 8) == steps_on_labels(chosen, "lapo-256", 32) == 800
    assert [steps_on_labels(chosen, "hilam", labels) for labels in (2, 8, 32)] == [700, 700, 900]
    assert steps_on_labels(chosen, "hilam+finetune", 8) is None
    assert steps_on_labels(get_preset("paper"), "lapo-256", 32) == 5000  # by the paper's own table
    config = LAPTOP.policy
    assert config.with_steps("decode", 7).decode.steps == 7 and config.with_steps("labels-only", 7).clone.steps == 7
    assert config.with_steps("finetune", 7).finetune.steps == 7 and config.with_steps("all-actions", 7) == config
    inverse = config.with_steps("idm", 7).inverse
    assert inverse == dataclasses.replace(config.clone, steps=7)
    assert config.with_steps("idm", 7).seeded(3).inverse == dataclasses.replace(config.clone, steps=7, seed=3)


@pytest.mark.parametrize("method", ["labels-only", "idm"])
def test_a_trial_plays_on_validation_seeds(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path, get_preset("tiny"))
    plan = dataclasses.replace(lab.preset.collection, episodes=8, noise=0.5)
    collect_episodes(plan, tmp_path / "data" / "cheetah-run-noisy", 1)
    seeds, whole = [], tuning.play

    def watched(player, world, seed, *rest, **more):
        seeds.append(seed)
        return whole(player, world, seed, *rest, **more)

    monkeypatch.setattr(tuning, "play", watched)
    job = agents.Job(method, "cheetah-run-noisy", 1, 0, steps=3)
    assert len(tuning.measure(lab, job)["returns"]) == tuning.EPISODES
    assert seeds == [VALIDATION] and VALIDATION != EVALUATION
    cells = [tuning.cell(lab, dataclasses.replace(job, steps=steps)) for steps in (3, 4)]
    assert cells[0].config_hash != cells[1].config_hash and cells[0].extra["steps"] == 3
