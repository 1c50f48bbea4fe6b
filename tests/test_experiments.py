"""Recorded experiments: cells leave records, are reused, and tables come from the records alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from otflam.core.errors import UserError
from otflam.core.pool import Launcher
from otflam.core.progress import Progress
from otflam.data.moving_mnist import make_moving_mnist
from otflam.data.options import MovingMNIST
from otflam.evaluate.carrier import carrier_metrics
from otflam.evaluate.records import Cell, find_record, read_record, read_records, write_record
from otflam.evaluate.stats import estimate
from otflam.experiments import lams
from otflam.experiments.cells import PlannedCell, Site, check_failures, run_cells
from otflam.experiments.datasets import Lab
from otflam.experiments.tokenizers import plan
from otflam.presets import get_preset
from otflam.report.rendering import as_markdown
from otflam.report.tables import TABLES
from otflam.tokenizer.build import build_tokenizer, motion_clips

ROOT = Path(__file__).parents[1]


class Heard(Progress):
    """Counts what an experiment tells."""

    def __init__(self) -> None:
        self.cells: list[str] = []
        self.known = self.all = 0

    def start(self, done: int, total: int) -> None:
        self.known, self.all = done, total

    def note(self, text: str) -> None:
        self.cells.append(text)


TINY = get_preset("tiny")
CELL = Cell("transfer", "otf", "a to b", "tiny", 0, {"x": 1}, "data", {"codes": 1}, None, {"order": 1})
FIELDS = "experiment method task preset seed metrics backgrounds config_hash data_hash stages versions"
FIELDS += " seconds command"


def test_records_are_found_only_while_true(tmp_path: Path) -> None:
    record = write_record(tmp_path, CELL, {"drop": 0.5, "bad": float("nan")}, 1.0, "otflam x")
    assert set(FIELDS.split()) <= set(record) and record["order"] == 1 and record["metrics"]["bad"] is None
    assert find_record(tmp_path, CELL) == record
    for change in ({"config": {"x": 2}}, {"data_hash": "other"}, {"stages": {"codes": 2}}):
        assert find_record(tmp_path, dataclasses.replace(CELL, **change)) is None
    assert list(read_records(tmp_path, "transfer")) == [record] and not list(read_records(tmp_path, "other"))


def test_estimates() -> None:
    three = estimate([1.0, 2.0, 3.0])
    assert three.mean == 2 and three.half == pytest.approx(4.302653 / 3**0.5, rel=1e-5)
    assert str(estimate([0.5])) == "0.500"


def test_plans_cover_what_is_asked() -> None:
    jobs = plan(get_preset("laptop"), "transfer")
    kinds = {(job.source, job.model.method, job.model.motion.order, job.seed) for job in jobs}
    assert len(kinds) == len(jobs) == 24
    codes = {(job.source, job.model.codebook.codes) for job in plan(get_preset("laptop"), "tokenizer")}
    assert {(task, k) for task in ("walker-run", "cheetah-run") for k in (16, 32, 64, 128)} <= codes
    labels = {job.label for job in plan(get_preset("laptop"), "tokenizer")}
    assert {"no-reference", "repulsion", "patch7", "patch10"} <= labels


def test_a_small_experiment_runs_resumes_and_makes_its_table(tmp_path: Path) -> None:
    jobs = [job for job in plan(TINY, "transfer") if job.seed == 0 and job.source == "walker-run"][:2]
    site = Site(Lab(tmp_path / "root", TINY), tmp_path / "records", Launcher(1))
    cells = [PlannedCell("tokenizers", job) for job in jobs]
    heard, again = Heard(), Heard()
    run_cells(site, cells, "otflam x", heard)
    assert len(heard.cells) == 2 and heard.known == 0
    table = as_markdown(*TABLES["transfer"].make(tmp_path / "records", "tiny"))
    assert table.count("walker-run → cheetah-run") == 3 and "49.3" in table and "64.8" in table
    assert "paired by seed" in table and found_rows(table) == 3
    run_cells(site, cells, "otflam x", again)
    assert not again.cells and again.known == again.all == 2
    record = next(read_records(tmp_path / "records", "transfer"))
    found = record["metrics"]
    assert found["drop"] == pytest.approx((found["target_mse"] - found["source_mse"]) / found["source_mse"])


def found_rows(table: str) -> int:
    """Rows of figures in a Markdown text."""
    return sum(line.startswith("| walker") for line in table.splitlines())


def test_carrier_features_know_the_motion(tmp_path: Path) -> None:
    """Raw motion of drawn digits tells the direction even on digits the probe has never seen."""
    train = make_moving_mnist(MovingMNIST("train", 126, 8, 64), tmp_path / "train")
    unseen = make_moving_mnist(MovingMNIST("transfer", 63, 8, 64), tmp_path / "transfer")
    torch.manual_seed(0)
    config = dataclasses.replace(TINY.digit_tokenizer, grid=8, warmup=1)
    model = build_tokenizer(config)
    clips = motion_clips(train, config)
    for step in range(4):
        model(clips.batch(8, 0, step))
    found = carrier_metrics(model.eval(), train, np.arange(84, 126), unseen)
    assert found["raw_motion_accuracy"] > 2 / 21  # twice chance, from 84 sequences of 21 motions
    assert set(found) == {f"{f}_{w}_accuracy" for f in ("histogram", "latent", "raw") for w in ("motion", "digit")}


def test_recorded_results_are_whole() -> None:
    """Every committed record has all fields and a command of ours."""
    for path in sorted((ROOT / "results" / "records").glob("*.json")):
        record = read_record(path)
        assert set(FIELDS.split()) <= set(record), path
        assert record["command"].startswith("otflam ") and record["seconds"] > 0


def test_latent_action_models_are_recorded(tmp_path: Path, save_dino: Callable[..., Path]) -> None:
    """On the same episodes with and without distractors; weights that are not the official ones are named."""
    assert len({(job.method, job.data) for job in lams.plan(get_preset("laptop"), "lam")}) == 10 * 2 + 6 * 2 + 2
    jobs = [lams.Job("otf-lam-dino", "walker-run-noisy"), lams.Job("lapo-128", "walker-run-vanilla")]
    save_dino(tmp_path / "root" / "dino")
    site, heard = Site(Lab(tmp_path / "root", TINY), tmp_path / "records", Launcher(1)), Heard()
    for _ in range(2):
        run_cells(site, [PlannedCell("lams", job) for job in jobs], "otflam x", heard)
    assert len(heard.cells) == 2
    dino, lapo = sorted(read_records(tmp_path / "records", "lam"), key=lambda record: record["method"], reverse=True)
    assert dino["backbone"] == "dino" and {"gain_over_shuffled", "codes_used"} <= dino["metrics"].keys()
    assert lapo["task"] == "walker-run-vanilla" and "backbone" not in lapo
    table = as_markdown(*TABLES["lam"].make(tmp_path / "records", "tiny"))
    assert table.count("otf-lam-dino (dino)") == 2 and "(audits):" in table  # a row for each in both parts
    assert len(table.splitlines()) == 4 + 3 + 4
    job = lams.Job("lapo-128", "walker-run-vanilla", seed=1)
    assert lams.cell(site.lab, job).config_hash != lapo["config_hash"]


def test_a_failed_cell_is_told_and_does_not_stop_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [PlannedCell("lams", lams.Job("lapo-128", "walker-run-vanilla", seed)) for seed in range(3)]

    def measure(lab: Lab, job: lams.Job) -> dict[str, float]:
        if job.seed == 1:
            raise ZeroDivisionError("no luck")
        return {"error": float(job.seed)}

    monkeypatch.setattr(lams, "measure", measure)
    site = Site(Lab(tmp_path / "root", TINY), tmp_path / "records", Launcher(1))
    heard = Heard()
    failed = run_cells(site, cells, "otflam x", heard)
    name, problem = "lapo-128 on walker-run-vanilla, seed 1", "ZeroDivisionError: no luck"
    assert failed == {name: problem} and heard.cells[1] == f"{name} FAILED: {problem}" and len(heard.cells) == 3
    check_failures({})
    with pytest.raises(UserError, match=f"1 cells failed, the first being {name}"):
        check_failures(failed)
    assert {record["seed"] for record in read_records(tmp_path / "records", "lam")} == {0, 2}
