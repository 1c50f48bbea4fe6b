"""Independent jobs on a SLURM cluster, through submitit; the same workers as in `core/pool.py`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from otflam.core.errors import UserError
from otflam.core.progress import SILENT

POLL_SECONDS = 0.5
LARGEST_ARRAY = 1000
"""Jobs in an array; SLURM's own default allows no more."""


@dataclass(frozen=True)
class Cluster:
    """What every job asks the cluster for."""

    partition: str | None = None
    """Partition of a SLURM cluster; by default the cluster's own choice."""
    hours: float = 12.0
    """Longest time of a job; one that is cut off continues when the command is run again."""
    cpus: int = 1
    """Cores of a job."""
    gpus: int = 0
    """GPUs of a job."""
    memory: int = 16
    """Gigabytes of memory of a job."""


class Failure(str):
    """What went wrong with a job of which nothing came back."""


def submit_jobs(
    make_worker: Callable[..., Any],
    arguments: tuple,
    jobs: Iterable[int],
    parallel: int,
    cluster: Cluster,
    logs: Path,
    executor: Literal["slurm", "local"] = "slurm",
) -> Iterator[tuple[int, Any]]:
    """Like `run_jobs`, on a cluster: yield the number of each job as it is done, and what came out.

    A job that the cluster loses yields a `Failure`, so that the others count. The `local` executor runs submitit's jobs
    as processes of this machine.
    """
    try:
        import submitit
    except ImportError:
        raise UserError("a cluster needs submitit", "pip install 'otflam[slurm]'") from None
    try:
        queue = submitit.AutoExecutor(logs, cluster=executor)
    except RuntimeError as error:
        raise UserError(
            f"no SLURM here ({error})", "run this on a machine that submits jobs, or use --launcher local"
        ) from None
    queue.update_parameters(
        name="otflam",
        timeout_min=max(round(60 * cluster.hours), 1),
        cpus_per_task=cluster.cpus,
        gpus_per_node=cluster.gpus,
        mem_gb=cluster.memory,
        slurm_array_parallelism=parallel,
        slurm_partition=cluster.partition,
    )
    numbers = list(jobs)
    if not numbers:
        return
    remote, pending = Remote(make_worker, arguments), {}
    try:
        for first in range(0, len(numbers), LARGEST_ARRAY):
            part = numbers[first : first + LARGEST_ARRAY]
            pending |= dict(zip(part, queue.map_array(remote, part), strict=True))
        while pending:
            for number, job in list(pending.items()):
                if job.done():
                    del pending[number]
                    yield number, outcome(job, logs)
            time.sleep(POLL_SECONDS if pending else 0)
    finally:  # an interrupted command leaves no jobs behind: run again it would send them twice
        for job in pending.values():
            job.cancel(check=False)


@dataclass(frozen=True)
class Remote:
    """A worker that is made where the job runs."""

    make_worker: Callable[..., Any]
    arguments: tuple

    def __call__(self, job: int) -> Any:
        return self.make_worker(*self.arguments)(job, SILENT)


def outcome(job: Any, logs: Path) -> Any:
    """What a submitted job returned, or why it did not."""
    problem = job.exception()
    return job.result() if problem is None else Failure(f"job {job.job_id} ended early; see {logs} ({_last(problem)})")


def _last(problem: BaseException) -> str:
    """The line of a traceback that says what happened."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt): ", line)]
    return (raised or lines or [type(problem).__name__])[-1 if raised else 0]
