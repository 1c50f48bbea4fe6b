"""Rows of the tables that hear labels in training, and what frames tell without latents."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from otflam.commands import COMMANDS
from otflam.core.config import stable_hash
from otflam.core.errors import UserError
from otflam.core.pool import Launcher
from otflam.core.progress import SILENT
from otflam.data.store import Store
from otflam.evaluate.names import ALL_LABELS, HEARD, HEARING, LABELS_ALONE
from otflam.evaluate.records import read_records
from otflam.evaluate.results import chosen_weight, models
from otflam.experiments import agents, lams, readers, weights
from otflam.experiments.cells import PlannedCell, Site, run_cells
from otflam.experiments.datasets import Lab, prepare_data
from otflam.experiments.estimate import pieces_of
from otflam.experiments.plans import plan_labels
from otflam.lam.labels import SHARE, WEIGHT, with_labels
from otflam.policy import way_of
from otflam.policy.train import Splits
from otflam.presets import get_preset
from otflam.report.claims_labels import judge_hearing
from otflam.report.rendering import as_markdown
from otflam.report.tables import TABLES, fill

TINY, LAPTOP, DATA = get_preset("tiny"), get_preset("laptop"), "cheetah-run-noisy"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Twice the tiny data: a pool of two episodes to draw from."""
    more = dataclasses.replace(TINY.collection, episodes=8)
    found = Lab(tmp_path_factory.mktemp("heard"), dataclasses.replace(TINY, collection=more, labels={1: 8, 2: 8}))
    prepare_data(found, DATA, 1)
    return found


def test_rows_and_their_models() -> None:
    plain, heard = (lams.job_for("lapo-256" + end, DATA, 8, 2, 16) for end in ("", HEARD))
    assert plain == lams.job_for("lapo-256+finetune", DATA, 8, 2, 16) == lams.Job("lapo-256", DATA, codes=16)
    assert heard == lams.Job("lapo-256", DATA, codes=16, labels=8, draw=2)
    assert (plain.called, heard.called) == ("lapo-256", "lapo-256+labels")
    low = lams.low_of(lams.Job("hilam", DATA, labels=8, draw=2))
    assert low == lams.Job("lapo-64", DATA)  # what it stands on is shared with the method that hears nothing
    assert way_of("lapo-256+labels") == way_of("lapo-256") == "decode" and way_of("lapo-256+relabel") == "relabel"


def test_what_is_heard_decides_the_model(lab: Lab) -> None:
    """Other labels are another model; the same ones in another order are not; no label is trained or watched on."""
    store = lab.store(DATA)
    one, other = (lams.job_for("lapo-128+labels", DATA, 1, draw) for draw in (0, 1))
    chosen = [Splits.of(store).labelled(1, draw).tolist() for draw in (0, 1)]
    assert (lams.lam_folder(lab, one) == lams.lam_folder(lab, other)) == (chosen[0] == chosen[1])
    whole = {lams.lam_folder(lab, lams.job_for("lapo-128+labels", DATA, 2, draw)) for draw in range(3)}
    assert len(whole) == 1 and lams.lam_folder(lab, lams.Job("lapo-128", DATA)) not in whole
    trained, held = lams.split(lab.preset, one, store)
    labels = lams.heard_by(store, one)
    assert labels is not None and list(labels.episodes) == chosen[0]
    assert not {*trained.tolist(), *held.tolist()} & {*labels.episodes}
    assert lams.training_for(lab.preset, one).weights["labels"] > 0
    assert "labels" not in lams.training_for(lab.preset, dataclasses.replace(one, labels=0)).weights


def test_from_labels_to_tables(lab: Lab, tmp_path: Path) -> None:
    """Model, alignment, agent and readers, worked off as a study does it; a second run finds everything."""
    site = Site(lab, tmp_path / "records", Launcher(1))
    row = agents.Job("lapo-128+labels", DATA, 1, 0)
    plan = [
        PlannedCell("lams", lams.job_for(row.method, DATA, 1, 0)),
        PlannedCell("alignments", row),
        PlannedCell("agents", row),
        PlannedCell("readers", agents.Job(ALL_LABELS, DATA, 0, 0)),
        PlannedCell("readers", agents.Job(LABELS_ALONE, DATA, 1, 0)),
    ]
    assert {piece.kind for planned in plan for piece in pieces_of(lab, planned)} >= {"lam lapo-128", "clone", "play"}
    assert run_cells(site, plan, "test", SILENT) == {}
    assert site.missing(plan) == []
    (model,) = read_records(site.records, "lam")
    assert (model["method"], model["labels"], model["seed"]) == ("lapo-128+labels", 1, 0)
    assert {"audit_zero", "audit_shift", "audit_shortcut"} <= set(model["metrics"])
    found = {record["method"]: record for record in read_records(site.records, "alignment")}
    assert set(found) == {"lapo-128+labels", ALL_LABELS, LABELS_ALONE}
    for reader in (ALL_LABELS, LABELS_ALONE):
        metrics = found[reader]["metrics"]
        assert metrics["action_mse"] == pytest.approx(np.mean(metrics["episode_mse"]))
        assert metrics["action_r2_interval"][0] <= metrics["action_r2"] <= metrics["action_r2_interval"][1]
    for table in ("lam", "alignment", "control"):
        assert "lapo-128+labels" in as_markdown(*TABLES[table].make(site.records, "tiny"))
    assert ALL_LABELS in as_markdown(*TABLES["alignment"].make(site.records, "tiny"))


def test_a_row_that_hears_is_grounded_as_one_that_does_not() -> None:
    """Otherwise a table would compare how long decoders are trained."""
    for method, labels in itertools.product(HEARING, LAPTOP.compared):
        plain, heard = (agents.config_of(LAPTOP, agents.Job(method + end, DATA, labels, 0)) for end in ("", HEARD))
        assert plain == heard


def test_one_choice_stands_in_one_place() -> None:
    command = COMMANDS["lam train lapo-256"].defaults("laptop")
    assert (command.label_weight, command.label_share) == (WEIGHT, SHARE)
    heavy = dataclasses.replace(TINY.lam_training["lapo-128"], weights={"next": 1000.0})
    assert with_labels(heavy).weights == {"next": 1000.0, "labels": 1000 * WEIGHT}  # losses have their own scales


def test_budgets_are_not_mixed(tmp_path: Path) -> None:
    """Models that heard other numbers of labels are other rows; the same model of several draws counts once."""
    for labels, seed, config in ((8, 0, "a"), (8, 1, "b"), (32, 0, "c"), (32, 1, "c"), (0, 0, "d")):
        method = "lapo-256" + (HEARD if labels else "")
        facts = {"experiment": "lam", "method": method, "task": DATA, "preset": "laptop", "seed": seed}
        fixed = {"data_hash": "", "stages": {}, "versions": {}, "seconds": 1.0, "command": "", "config_hash": config}
        metrics = {"latent_rank": float(labels + seed)}
        record = facts | fixed | ({"labels": labels} if labels else {}) | {"metrics": metrics}
        (tmp_path / f"{labels}-{seed}.json").write_text(json.dumps(record | {"digest": stable_hash(record)}))
    counts = Counter(record["method"] for record in models(tmp_path, "laptop"))
    assert counts == {"lapo-256": 1, "lapo-256+labels (8)": 2, "lapo-256+labels (32)": 1}


def test_nothing_left_to_validate_on(lab: Lab) -> None:
    with pytest.raises(UserError, match="all 2 episodes of the pool"):
        weights.measure(lab, weights.Job("lapo-128", DATA, 2, 0, 0.05))


def test_readers_see_their_labels_only(lab: Lab) -> None:
    store: Store = lab.store(DATA)
    few, all_of_them = (
        readers.known_to(lab, agents.Job(*each, 1)) for each in ((LABELS_ALONE, DATA, 1), (ALL_LABELS, DATA, 0))
    )
    splits = Splits.of(store)
    assert few.tolist() == splits.labelled(1, 1).tolist()
    assert not set(all_of_them.tolist()) & set(splits.probes.tolist())
    steps = {job.labels: readers.training_of(LAPTOP, job).steps for job in readers.plan(LAPTOP, "alignment")}
    assert steps == {0: LAPTOP.policy.clone.steps, **LAPTOP.steps["idm"]}


def test_the_plan_of_labels() -> None:
    """With and without, in both worlds, for every seed and budget; models before what is read from them."""
    plan = plan_labels(LAPTOP)
    for method in HEARING:
        for end in ("", HEARD):
            rows = [planned.job for planned in plan if planned.kind == "agents" and planned.job.method == method + end]
            assert {(job.labels, job.seed) for job in rows} == {(n, s) for n in (8, 32) for s in (0, 1, 2)}
            read = [planned.job for planned in plan if planned.kind != "agents" and planned.job.method == method + end]
            assert {(job.labels, job.seed) for job in read} >= {(job.labels, job.seed) for job in rows} | {(16, 0)}
            assert {job.data for job in rows} == {
                f"{task}-run-noisy{world}" for task in ("cheetah", "walker") for world in ("", "-unlike")
            }
    kinds = [planned.kind for planned in plan]
    assert kinds.index("agents") > kinds.index("alignments") > max(i for i, kind in enumerate(kinds) if kind == "lams")


def test_trials_of_weights(lab: Lab, tmp_path: Path) -> None:
    """Other weights are other models; a trial is judged on episodes that are neither heard nor tested on."""
    jobs = weights.plan(LAPTOP, "weights")
    trials = Counter((job.method, job.data) for job in jobs)
    assert set(trials.values()) == {len(weights.WEIGHTS)} and WEIGHT in weights.WEIGHTS
    one, other = (weights.Job("lapo-128", DATA, 1, 0, weight) for weight in (0.05, 0.5))
    usual = lams.job_for("lapo-128+labels", DATA, 1, 0)
    assert lams.lam_folder(lab, one.model) == lams.lam_folder(lab, usual) != lams.lam_folder(lab, other.model)
    site = Site(lab, tmp_path / "records", Launcher(1))
    plan = [PlannedCell("weights", job) for job in (one, other)]
    assert {piece.kind for planned in plan for piece in pieces_of(lab, planned)} == {"lam lapo-128", "probes"}
    assert run_cells(site, plan, "test", SILENT) == {} and site.missing(plan) == []
    records = list(read_records(site.records, "weights"))
    assert {record["weight"] for record in records} == {0.05, 0.5}
    best = max(records, key=lambda record: record["metrics"]["action_r2"])
    assert chosen_weight(records) == best["weight"] and chosen_weight([]) is None
    (page,) = (fill("<!-- table weights tiny -->\n<!-- end of table -->", site.records),)
    assert "| data | method | weight 0.05 | weight 0.5 |" in page and page.count("*") == 1


@pytest.mark.parametrize(
    ("heard", "status"),
    [
        ((0.5, 0.5, 0.5, 1.0), "holds"),
        ((0.5, 1.0, 1.0, 1.0), "open"),
        ((1.5, 1.0, 1.0, 1.0), "fails"),
        ((), "unmeasured"),
    ],
)
def test_a_verdict_on_hearing(tmp_path: Path, heard: tuple[float, ...], status: str) -> None:
    """Errors of a world with labels, as a share of those without, at both budgets."""
    worlds = [f"{task}-run-noisy{end}" for end in ("", "-unlike") for task in ("cheetah", "walker")]
    rng = np.random.default_rng(0)
    for world, share in zip(worlds, heard, strict=False):
        study, errors = ("ambiguity", "agent_r2_errors") if "unlike" in world else ("alignment", "episode_mse")
        for labels, seed in ((16, 0), (32, 0), (32, 1)):
            plain = 1 + 0.1 * rng.random(16)
            for method, values in (("laom", plain), ("laom+labels", plain * (share + 0.02 * rng.standard_normal(16)))):
                facts = {"experiment": study, "method": method, "task": world, "preset": "laptop", "seed": seed}
                fixed = {
                    "data_hash": "",
                    "stages": {},
                    "versions": {},
                    "seconds": 1.0,
                    "command": "",
                    "config_hash": "",
                }
                record = facts | fixed | {"labels": labels, "metrics": {errors: values.tolist()}}
                name = f"{method}-{world}-{labels}-{seed}.json"
                (tmp_path / name).write_text(json.dumps(record | {"digest": stable_hash(record)}))
    verdict = judge_hearing(tmp_path, "laptop")[HEARING.index("laom")]
    assert verdict.status == status and ("32 labels" in verdict.ours or not heard)
