"""Independent jobs: in parallel processes that never outlive their parent, or on a SLURM cluster through submitit."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from otflam.core.errors import UserError
from otflam.core.extras import missing_extra
from otflam.core.progress import SILENT, Progress

POLL_SECONDS = 0.2

_worker: Any = None
_progress = SILENT
STOPPING = (signal.SIGINT, signal.SIGTERM)
CLUSTER_POLL_SECONDS = 0.5
LARGEST_ARRAY = 1000
"""Jobs in an array; SLURM's own default allows no more."""


class SharedProgress(Progress):
    """Counts, for the parent, what a worker process gets done."""

    def __init__(self, ticks: Any) -> None:
        self.ticks = ticks

    def advance(self, count: int = 1) -> None:
        with self.ticks.get_lock():
            self.ticks.value += count


def is_main_process() -> bool:
    """Whether this process is the one that prints, of those that train together on one machine or several."""
    return os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"


def default_workers() -> int:
    """One process per core that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # only Linux tells
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def run_jobs(
    make_worker: Callable[..., Any],
    arguments: tuple,
    jobs: Iterable[int],
    workers: int,
    progress: Progress = SILENT,
    method: Literal["spawn", "fork"] = "spawn",
) -> Iterator[tuple[int, Any]]:
    """Yield the number of each job as it is done, and what came out.

    `make_worker(*arguments)` runs once in every process; the result is called as `worker(job, progress)` and may
    `advance` that. Jobs may finish in any order. With one worker everything stays in this process.
    Forked processes have what this one has loaded, and are for one that has no threads and no GPU in use.
    """
    jobs = list(jobs)
    if workers <= 1 or len(jobs) <= 1:
        if not jobs:
            return
        worker = make_worker(*arguments)
        for job in jobs:
            yield job, worker(job, progress)
        return
    context = multiprocessing.get_context(method)
    ticks, reported = context.Value("q", 0), 0
    pool = ProcessPoolExecutor(min(workers, len(jobs)), context, _start, (make_worker, arguments, ticks))
    try:
        # Workers start at the first jobs and must not hear a Ctrl-C before they have learnt to ignore it.
        deaf = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread() else None
        pending = {pool.submit(_work, job) for job in jobs}
        if deaf is not None:
            signal.signal(signal.SIGINT, deaf)
        while pending:
            with delay_interrupts():  # between the locks of all futures an interrupt would leave some held for ever
                finished, pending = wait(pending, POLL_SECONDS, FIRST_COMPLETED)
            progress.advance(ticks.value - reported)
            reported = ticks.value
            for future in finished:
                yield future.result()
    except BrokenProcessPool:
        raise UserError(
            "a worker process died", "run the same command to continue, with fewer --workers if memory is short"
        ) from None
    finally:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _start(make_worker: Callable[..., Any], arguments: tuple, ticks: Any) -> None:
    global _worker, _progress
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a forked worker has the parent's handler, which would complain
    threading.Thread(target=_follow_parent, daemon=True).start()
    _progress = SharedProgress(ticks)
    try:
        _worker = make_worker(*arguments)
    except UserError as error:  # told by the first job: an error here would only break the pool
        _worker = error
    except ModuleNotFoundError as error:
        if (missing := missing_extra(error)) is None:
            raise
        _worker = missing


def _follow_parent() -> None:
    """End this process when the parent is gone, even if it was killed and could not say so."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(job: int) -> tuple[int, Any]:
    if isinstance(_worker, UserError):
        raise _worker
    return job, _worker(job, _progress)


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def delay_interrupts() -> Generator[None]:
    """Hold Ctrl-C and SIGTERM back until the end: where C calls Python back, what they raise would be lost."""
    if not in_main_thread():  # signals are never heard there
        yield
        return
    heard: list[int] = []

    def remember(number: int, frame: Any) -> None:
        heard.append(number)

    handlers = {number: signal.signal(number, remember) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if heard:
            signal.raise_signal(heard[0])


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


@dataclass(frozen=True)
class Launcher:
    """Where independent jobs run, and how many of them at a time."""

    workers: int | None = None
    """Processes, or jobs of a cluster, at a time; by default one per core. They change no result."""
    launcher: Literal["local", "slurm", "submitit"] = "local"
    """Run jobs as processes of this machine, as SLURM jobs, or as submitit's jobs on this machine, to try that."""
    cluster: Cluster = field(default_factory=Cluster)
    logs: Path = Path("runs/jobs")
    """Folder for what SLURM jobs print and return, on a disk that all machines see."""

    @property
    def parallel(self) -> int:
        """Jobs at a time."""
        return default_workers() if self.workers is None else self.workers

    def share(self, jobs: int) -> int:
        """Cores for each of so many jobs."""
        return max(1, self.parallel // jobs) if self.launcher == "local" else self.cluster.cpus

    def run(
        self, make_worker: Callable[..., Any], arguments: tuple, jobs: Iterable[int], progress: Progress = SILENT
    ) -> Iterator[tuple[int, Any]]:
        """Like `run_jobs`, here or on a cluster; `progress` hears only of work that is done here."""
        if self.launcher == "local":
            return run_jobs(make_worker, arguments, jobs, self.parallel, progress)
        executor = "slurm" if self.launcher == "slurm" else "local"
        return submit_jobs(make_worker, arguments, jobs, self.parallel, self.cluster, self.logs, executor=executor)


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
    remote, pending = partial(_work_there, make_worker, arguments), {}
    try:
        for first in range(0, len(numbers), LARGEST_ARRAY):
            part = numbers[first : first + LARGEST_ARRAY]
            pending |= dict(zip(part, queue.map_array(remote, part), strict=True))
        while pending:
            for number, job in list(pending.items()):
                if job.done():
                    del pending[number]
                    yield number, outcome(job, logs)
            time.sleep(CLUSTER_POLL_SECONDS if pending else 0)
    finally:  # an interrupted command leaves no jobs behind: run again it would send them twice
        for job in pending.values():
            job.cancel(check=False)


def _work_there(make_worker: Callable[..., Any], arguments: tuple, job: int) -> Any:
    """Make a worker where the job runs."""
    return make_worker(*arguments)(job, SILENT)


def outcome(job: Any, logs: Path) -> Any:
    """What a submitted job returned, or why it did not."""
    problem = job.exception()
    return job.result() if problem is None else Failure(f"job {job.job_id} ended early; see {logs} ({_last(problem)})")


def _last(problem: BaseException) -> str:
    """The line of a traceback that says what happened."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt): ", line)]
    return (raised or lines or [type(problem).__name__])[-1 if raised else 0]
