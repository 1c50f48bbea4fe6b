"""The whole story in minutes, from an empty folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from otflam.data.collect import collect
from otflam.data.store import Store
from otflam.presets import preset
from otflam.report.sheet import contact_sheet

TASKS = ("cheetah-run", "walker-run")


def demo(
    out: Path,
    size: str,
    workers: int,
    on_start: Callable[[str], Callable[[int, int], None]],
    on_frames: Callable[[int], None],
) -> list[tuple[Store, Path]]:
    """Collect a small set per task and draw its contact sheet; what is there already is kept."""
    results = []
    for task in TASKS:
        plan = preset(size).collection
        plan = dataclasses.replace(plan, world=dataclasses.replace(plan.world, task=task))
        store = collect(plan, out / "data" / task, workers, on_start(f"collect {task}"), on_frames)
        sheet = contact_sheet(store, out / f"{task}.png", f"{task}, {plan.world.difficulty}, {store.rows} frames")
        results.append((store, sheet))
    return results
