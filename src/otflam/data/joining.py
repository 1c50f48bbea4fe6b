"""Many stores become one: jobs write a shard each, here or on a cluster, and what they wrote is read as one store.

Each shard is an ordinary store that only its own job writes, because files that many machines write at once are where
shared disks fail. Joining writes one `meta.json`, which names them; nothing is copied.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from otflam.core import Launcher, Progress, UserError
from otflam.data.store import Store
from otflam.data.writing import write_meta


def join_stores(path: Path, episodes: Sequence[tuple[Store, int]], config: Any, extra: dict[str, Any]) -> Store:
    """A store at `path` of episodes that lie in others: of each the store and its place there, in their order."""
    model, shards, first, end, parts = episodes[0][0], [], {}, 0, []
    for store, place in episodes:
        if store.columns != model.columns:
            raise UserError(
                f"{store.path} has other columns than {model.path}", "join what was made by the same command"
            )
        shard, row = store.locate(place)
        folder = os.path.relpath(shard.folder, path)
        if folder not in first:
            shards.append({"folder": folder, "rows": shard.rows})
            first[folder], end = end, end + shard.rows
        parts.append(store.episodes[place] | {"start": first[folder] + row})
    path.mkdir(parents=True, exist_ok=True)
    return write_meta(path, model.meta["columns"], parts, config, extra | {"shards": shards})


def cut(episodes: Sequence[int], shards: int) -> list[list[int]]:
    """Neighbouring episodes for each of so many jobs."""
    if not 1 <= shards <= len(episodes):
        raise UserError(f"--shards {shards} of {len(episodes)} episodes", f"give 1 to {len(episodes)}")
    edges = [number * len(episodes) // shards for number in range(shards + 1)]
    return [list(episodes[edges[number] : edges[number + 1]]) for number in range(shards)]


class ShardWorker(ABC):
    """Makes shards by their numbers; what goes wrong with one is told, so that the others count."""

    @abstractmethod
    def work(self, number: int, progress: Progress) -> None:
        """Make a shard, or continue it, or find it done."""

    def __call__(self, number: int, progress: Progress) -> str | None:
        try:
            self.work(number, progress)
        except UserError as error:
            return str(error)
        return None


def make_shards(
    jobs: Launcher, worker: type[ShardWorker], arguments: tuple, numbers: Sequence[int], progress: Progress
) -> None:
    """Let jobs make shards; all are tried before the first problem is told."""
    bar, failed = progress.part("", "shards"), {}
    bar.start(0, len(numbers))
    for number, problem in jobs.run(worker, arguments, numbers):
        if problem is not None:
            failed[number] = problem
        bar.advance()
    if failed:
        number, problem = min(failed.items())
        raise UserError(
            f"{len(failed)} of {len(numbers)} shards failed, the first being {number} ({problem})",
            "all others are there; run the same command to continue",
        )
