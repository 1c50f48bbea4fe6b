"""The paper's tables and figures as commands: plans, estimates, clusters."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from threadpoolctl import threadpool_info, threadpool_limits

from otflam import cli
from otflam.core.errors import UserError
from otflam.core.pool import Cluster, Failure, Launcher, submit_jobs
from otflam.core.progress import SILENT
from otflam.data.moving_mnist import MovingMNIST, make_moving_mnist
from otflam.evaluate.names import DIGITS
from otflam.evaluate.records import read_records
from otflam.experiments import agents, lams
from otflam.experiments.calibration import Calibration
from otflam.experiments.cells import PlannedCell, Site, named_so, run_cells
from otflam.experiments.datasets import Lab
from otflam.experiments.estimate import estimate_work, pieces_of
from otflam.experiments.plans import plan_demo
from otflam.experiments.studies import APART, STUDIES, draw_transfer
from otflam.presets import get_preset
from otflam.report.tables import TABLES

TINY, LAPTOP = get_preset("tiny"), get_preset("laptop")
SLEEPER = "lambda job, progress: __import__('time').sleep(job)"
"""A worker whose jobs are the seconds they take, as a text: its process need not load this file."""


def test_every_result_of_the_paper_has_a_study() -> None:
    wanted = {"transfer", "convergence", "baselines", "supervision", "vocabulary", "alignment", "pictures", "all"}
    assert wanted <= set(STUDIES)
    assert {table.study for table in TABLES.values()} <= STUDIES.keys()
    every = {name: study.plan(LAPTOP) for name, study in STUDIES.items()}
    for name, plan in every.items():
        assert plan and len(set(plan)) == len(plan), name
        assert name in APART or set(plan) <= set(every["all"])


def test_studies_agree_on_what_they_share() -> None:
    """The same cell of two studies is one cell: convergence and supervision reuse what the baselines recorded."""
    plan = {name: set(STUDIES[name].plan(LAPTOP)) for name in ("baselines", "convergence", "supervision", "vocabulary")}
    assert {t for t in plan["convergence"] if t.kind == "agents"} <= plan["baselines"]
    shared = plan["supervision"] & plan["baselines"]
    methods = ("otf-lam-dino", "lapo-256", "labels-only")
    assert {(t.job.method, t.job.labels) for t in shared} == {(name, labels) for name in methods for labels in (8, 32)}
    assert {t.job.codes for t in plan["vocabulary"] & plan["supervision"]} == {16, 32, 0, 128}


def test_the_demo_tells_the_whole_story() -> None:
    plan = plan_demo(get_preset("demo"))
    assert {planned.kind for planned in plan} == {"tokenizers", "lams", "agents"}
    played = {planned.job.method for planned in plan if planned.kind == "agents"}
    assert played == {"otf-lam-pixel", "lapo-256", "zero", "random", "expert", "all-actions", "labels-only", "idm"}
    assert plan[0].job.method == "otf-lam-pixel" and {each.job.method for each in plan[-3:]} == {
        "zero",
        "random",
        "expert",
    }


def test_a_sweep_of_two_jobs_through_submitit(tmp_path: Path) -> None:
    """The very jobs of a cluster, as processes of this machine; a second call finds both."""
    pytest.importorskip("submitit", reason="needs otflam[slurm]")
    jobs = Launcher(2, "submitit", Cluster(hours=0.1, cpus=1, memory=1), tmp_path / "jobs")
    site = Site(Lab(tmp_path / "root", TINY), tmp_path / "records", jobs)
    plan = [PlannedCell("lams", lams.Job("lapo-128", "cheetah-run-vanilla", seed)) for seed in (0, 1)]
    run_cells(site, plan, "otflam x", SILENT)
    records = list(read_records(tmp_path / "records", "lam"))
    assert [record["seed"] for record in records] == [0, 1]
    assert not site.missing(plan)
    began = time.monotonic()
    run_cells(site, plan, "otflam x", SILENT)
    assert time.monotonic() - began < 1 and list(read_records(tmp_path / "records", "lam")) == records


@pytest.mark.campaign
def test_motion_of_other_digits_is_redrawn(tmp_path: Path) -> None:
    """Figure dcs_transfer, with tokenizers that are trained for it if there are none."""
    image = np.zeros((28, 28), np.uint8)
    image[6:22, 10:18] = 255
    np.savez(tmp_path / "digits.npz", images=[image] * 10, labels=np.arange(10, dtype=np.uint8))
    for name, split in zip(DIGITS, ("train", "transfer"), strict=True):
        config = MovingMNIST(split=split, sequences=21, digits=str(tmp_path / "digits.npz"))
        make_moving_mnist(config, tmp_path / "data" / name)
    path = draw_transfer(Lab(tmp_path, TINY), DIGITS)
    assert path.name == "mnist-train-to-mnist-transfer.png" and len(list((tmp_path / "tokenizers").iterdir())) == 2
    with Image.open(path) as picture:
        assert min(picture.size) > 200 and np.asarray(picture.convert("L")).std() > 10


def test_a_job_that_the_cluster_loses_is_told(tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="needs otflam[slurm]")
    cluster = Cluster(hours=0.1, cpus=1, memory=1)
    # The worker cannot even be made: int("x") raises where the job runs.
    ((number, problem),) = submit_jobs(int, ("x",), [7], 2, cluster, tmp_path, "local")
    assert number == 7 and isinstance(problem, Failure) and "ValueError: invalid literal" in problem
    assert not list(submit_jobs(int, ("x",), [], 2, cluster, tmp_path, "local"))


def test_an_interrupted_command_cancels_its_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitit = pytest.importorskip("submitit", reason="needs otflam[slurm]")
    cancelled, cancel = [], submitit.LocalJob.cancel

    def spy(job: Any, check: bool = True) -> None:
        cancelled.append(job)
        cancel(job, check)

    monkeypatch.setattr(submitit.LocalJob, "cancel", spy)
    jobs = submit_jobs(eval, (SLEEPER,), [0, 20], 2, Cluster(hours=0.1, cpus=1, memory=1), tmp_path, "local")
    assert next(jobs) == (0, None) and not cancelled
    jobs.close()  # what an interruption does to a generator
    assert len(cancelled) == 1
    cancelled[0]._process.wait(30)


def test_slurm_where_there_is_none_is_told(tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="needs otflam[slurm]")
    with pytest.raises(UserError, match=r"no SLURM here .*--launcher local"):
        list(submit_jobs(int, ("x",), [0], 1, Cluster(), tmp_path))


def test_a_dry_run_tells_time_and_disk_and_makes_nothing(tmp_path: Path) -> None:
    site = Site(Lab(tmp_path / "root", TINY), tmp_path / "records", Launcher(2))
    jobs = [agents.Job("lapo-256", "cheetah-run-noisy", 1, seed) for seed in (0, 1)]
    lines = list(estimate_work(site, [PlannedCell("agents", job) for job in jobs], SILENT))
    assert lines[0] == "2 cells, 0 recorded, 2 to do" and not list(tmp_path.iterdir())
    assert "cheetah-run-noisy" in lines[1]
    rows = {line[:28].strip(): line[28:].split() for line in lines[3:-1]}
    # Both need the same data, model and latents; each its own clone, decoder and episodes.
    assert {name: row[0] for name, row in rows.items()} == {
        "collect": "2", "lam lapo-256": "1", "latents lapo-256": "1", "clone": "2", "decoder": "2", "play": "2",
    }  # fmt: skip
    steps = TINY.policy.clone.steps
    assert rows["clone"][1] == str(2 * steps) and rows["play"][1] == str(2 * 2 * 2 * 24)
    assert re.search(r"about [\d.]+ hours of one core.* and [\d.]+ GB", lines[-1])


def test_costs_are_of_one_thread_and_in_proportion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    threadpool_limits(2, user_api="blas")
    calibration = Calibration(tmp_path, Lab(tmp_path, TINY))
    assert torch.get_num_threads() == 1
    assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {1}
    cost = calibration.cost("lam lapo-128")
    assert 0 < cost.seconds < 5 and cost.each > 1000 and calibration.cost("lam lapo-128") is cost
    assert cost.frames >= 4 * TINY.lam_training["lapo-128"].batch, "stacks of three frames, now and ahead"
    # A batch that is too large to try is timed at a small one and costs in proportion.
    monkeypatch.setattr("otflam.experiments.calibration.MAX_TIMED_BATCH", 4)
    monkeypatch.setattr("otflam.experiments.calibration.REDUCED_BATCH", 2)
    (tmp_path / "again").mkdir()
    other = Calibration(tmp_path / "again", Lab(tmp_path, TINY)).cost("lam lapo-128")
    assert other.seconds > cost.seconds / 2


def test_what_is_trained_already_costs_nothing(tmp_path: Path) -> None:
    """Only the cells' own work is left; weights that are not here are told and do not stop the rest."""
    site = Site(Lab(tmp_path / "root", TINY), tmp_path / "records", Launcher(1))
    job = lams.Job("lapo-128", "cheetah-run-noisy")
    run_cells(site, [PlannedCell("lams", job)], "otflam x", SILENT)
    other = Site(Lab(tmp_path / "root", TINY), tmp_path / "elsewhere", Launcher(1))
    assert other.missing([PlannedCell("lams", job)]) == [0] and not list(pieces_of(other.lab, PlannedCell("lams", job)))
    dino = PlannedCell("lams", lams.Job("otf-lam-dino", "cheetah-run-noisy"))
    assert site.missing([PlannedCell("lams", job), dino]) == [1]
    failed = run_cells(site, [PlannedCell("lams", job), dino], "otflam x", SILENT)
    assert len(failed) == 1 and "no DINOv2 weights" in failed[str(dino.job)]


def test_every_kind_of_work_is_estimated(tmp_path: Path) -> None:
    lab = Lab(tmp_path, LAPTOP)
    plan = STUDIES["all"].plan(LAPTOP)
    kinds = {piece.kind for planned in plan for piece in pieces_of(lab, planned)}
    assert {f"lam {name}" for name in lams.methods(LAPTOP)} | {"lam lapo-64", "dino features", "probes"} <= kinds
    once = {piece for planned in plan for piece in pieces_of(lab, planned)}
    assert len({piece.key for piece in once}) == len(once), "equal keys cost the same"


def test_names_of_studies(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["reproduce"])
    listed = capsys.readouterr().out
    assert all(name in listed for name in STUDIES)
    with pytest.raises(SystemExit):
        cli.main(["reproduce", "suprevision"])
    assert "did you mean 'supervision'" in capsys.readouterr().err


def test_some_cells_only(capsys: pytest.CaptureFixture[str]) -> None:
    """Every word narrows; words that fit nothing are one line that shows a name."""
    plan = STUDIES["ambiguity"].plan(TINY)
    some = named_so(plan, ("lapo-256", "cheetah-run-noisy-unlike", "seed 0"))
    heard = named_so(STUDIES["labels"].plan(TINY), ("lapo-256+labels", "walker-run-noisy", "1 labels", "seed 2"))
    assert {planned.kind for planned in heard} == {"alignments", "lams", "agents"} and named_so([], ("x",)) == []
    assert {(p.job.method, p.job.data, p.job.seed) for p in some} == {("lapo-256", "cheetah-run-noisy-unlike", 0)}
    assert {planned.kind for planned in some} == {"ambiguities", "lams", "agents"} and named_so(plan, ()) == plan
    with pytest.raises(SystemExit, match="2"):
        cli.main(["reproduce", "lam", "--preset", "tiny", "--only", "lapo-256", "nobody"])
    assert "no cell is named lapo-256 and nobody: they have names such as" in capsys.readouterr().err
