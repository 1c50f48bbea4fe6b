"""Independent jobs in parallel processes that never outlive their parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Literal, TypeVar

from otflam.core.errors import UserError
from otflam.core.interrupts import in_main_thread, interrupted_later
from otflam.core.progress import SILENT, Progress

T = TypeVar("T")
POLL_SECONDS = 0.2

_worker: Any = None
_told = SILENT


class Ticks(Progress):
    """Counts, for the parent, what a worker process gets done."""

    def __init__(self, ticks: Any) -> None:
        self.ticks = ticks

    def advance(self, count: int = 1) -> None:
        with self.ticks.get_lock():
            self.ticks.value += count


def default_workers() -> int:
    """One process per core that this process may use."""
    return len(os.sched_getaffinity(0))


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
            with interrupted_later():  # between the locks of all futures an interrupt would leave some held for ever
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
    global _worker, _told
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a forked worker has the parent's handler, which would complain
    threading.Thread(target=_follow_parent, daemon=True).start()
    _told = Ticks(ticks)
    try:
        _worker = make_worker(*arguments)
    except UserError as error:  # told by the first job: an error here would only break the pool
        _worker = error


def _follow_parent() -> None:
    """End this process when the parent is gone, even if it was killed and could not say so."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(job: int) -> tuple[int, Any]:
    if isinstance(_worker, UserError):
        raise _worker
    return job, _worker(job, _told)
