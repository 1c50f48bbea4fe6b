"""The paper's tables and figures as commands: plans, estimates, clusters."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otflam import cli
from otflam.core.cluster import Cluster, Failure, submit_jobs
from otflam.core.errors import UserError
from otflam.evaluate.records import read_records
from otflam.experiments import agents, lams
from otflam.experiments.cells import Site, Task, run_tasks
from otflam.experiments.estimate import estimate_work, pieces_of
from otflam.experiments.studies import STUDIES, demo_tasks
from otflam.report.tables import TABLES


class Silent:
    """Hears nothing."""

    def data(self, name: str) -> Callable[[int, int], None]:
        return lambda done, total: None

    def frames(self, count: int) -> None: ...

    def start(self, done: int, total: int) -> None: ...

    def finished(self, name: str, seconds: float) -> None: ...


def test_every_result_of_the_paper_has_a_study() -> None:
    wanted = {"transfer", "convergence", "baselines", "supervision", "vocabulary", "alignment", "pictures", "all"}
    assert wanted <= set(STUDIES)
    assert {name for study in STUDIES.values() for name in study.tables} <= set(TABLES)
    every = {name: study.tasks("laptop") for name, study in STUDIES.items()}
    for name, tasks in every.items():
        assert tasks and len(set(tasks)) == len(tasks), name
        assert set(tasks) <= set(every["all"])


def test_studies_agree_on_what_they_share() -> None:
    """The same cell of two studies is one cell: convergence and supervision reuse what the baselines recorded."""
    tasks = {
        name: set(STUDIES[name].tasks("laptop")) for name in ("baselines", "convergence", "supervision", "vocabulary")
    }
    assert {t for t in tasks["convergence"] if t.kind == "agents"} <= tasks["baselines"]
    shared = tasks["supervision"] & tasks["baselines"]
    assert {(t.job.method, t.job.labels) for t in shared} == {("otf-lam-dino", 8), ("lapo-256", 8), ("labels-only", 8)}
    assert {t.job.codes for t in tasks["vocabulary"] & tasks["supervision"]} == {16, 32, 0, 128}


def test_the_demo_tells_the_whole_story() -> None:
    tasks = demo_tasks("demo")
    assert {task.kind for task in tasks} == {"tokenizers", "lams", "agents"}
    played = {task.job.method for task in tasks if task.kind == "agents"}
    assert played == {"otf-lam-pixel", "lapo-256", "zero", "random", "expert", "all-actions", "labels-only", "idm"}


def test_a_sweep_of_two_jobs_through_submitit(tmp_path: Path) -> None:
    """The very jobs of a cluster, as processes of this machine; a second call finds both."""
    pytest.importorskip("submitit", reason="needs otflam[slurm]")
    site = Site(tmp_path / "root", tmp_path / "records", "tiny", 2, "submitit", Cluster(hours=0.1, cpus=1, memory=1))
    tasks = [Task("lams", lams.Job("lapo-128", "cheetah-run-vanilla", seed)) for seed in (0, 1)]
    run_tasks(site, tasks, "otflam x", Silent())
    records = list(read_records(tmp_path / "records", "lam"))
    assert [record["seed"] for record in records] == [0, 1]
    assert not site.missing(tasks)
    began = time.monotonic()
    run_tasks(site, tasks, "otflam x", Silent())
    assert time.monotonic() - began < 1 and list(read_records(tmp_path / "records", "lam")) == records


class Weak:
    """A worker that dies of some jobs."""

    def __init__(self, deadly: int) -> None:
        self.deadly = deadly

    def __call__(self, job: int, tick: Callable[[], None]) -> Any:
        if job == self.deadly:
            raise MemoryError("too large")
        return 10 * job


def test_a_job_that_the_cluster_loses_does_not_stop_the_others(tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="needs otflam[slurm]")
    cluster = Cluster(hours=0.1, cpus=1, memory=1)
    found = dict(submit_jobs(Weak, (1,), [1, 2], 2, cluster, tmp_path, "local"))
    assert found[2] == 20 and isinstance(found[1], Failure) and "too large" in found[1]
    assert not list(submit_jobs(Weak, (1,), [], 2, cluster, tmp_path, "local"))


def test_slurm_where_there_is_none_is_told(tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="needs otflam[slurm]")
    with pytest.raises(UserError, match=r"no SLURM here .*--launcher local"):
        list(submit_jobs(Weak, (1,), [0], 1, Cluster(), tmp_path))


def test_a_dry_run_tells_time_and_disk_and_makes_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path / "root", tmp_path / "records", "tiny", 2)
    jobs = [agents.Job("lapo-256", "cheetah-run-noisy", 1, seed) for seed in (0, 1)]
    lines = list(estimate_work(site, [Task("agents", job) for job in jobs], lambda done, total: None))
    assert lines[0] == "2 cells, 0 recorded, 2 to do" and not list(tmp_path.iterdir())
    rows = {line[:28].strip(): line[28:].split() for line in lines[2:-1]}
    # Both need the same data, model and latents; each its own clone, decoder and episodes.
    assert {name: row[0] for name, row in rows.items()} == {
        "collect": "2", "lam lapo-256": "1", "latents lapo-256": "1", "clone": "2", "decoder": "2", "play": "2",
    }  # fmt: skip
    assert all(float(row[2]) >= 0 and float(row[3]) >= 0 for row in rows.values())
    assert re.search(r"about [\d.]+ hours of one core .* and [\d.]+ GB", lines[-1])


def test_every_kind_of_work_is_estimated(tmp_path: Path) -> None:
    site = Site(tmp_path, tmp_path, "laptop", 2)
    tasks = STUDIES["all"].tasks("laptop")
    kinds = {piece.kind for task in tasks for piece in pieces_of(site, task)}
    assert {f"lam {name}" for name in lams.methods("laptop")} | {"lam lapo-64", "dino features", "probes"} <= kinds
    once = {piece for task in tasks for piece in pieces_of(site, task)}
    assert len({piece.key for piece in once}) == len(once), "equal keys cost the same"


def test_names_of_studies(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["reproduce"])
    listed = capsys.readouterr().out
    assert all(name in listed for name in STUDIES)
    with pytest.raises(SystemExit):
        cli.main(["reproduce", "suprevision"])
    assert "did you mean 'supervision'" in capsys.readouterr().err
