"""What a study would take on a machine that is not here: rates of this one, and stated assumptions about that one.

On paper: nothing here was ever run there. Where the assumptions come from is told in docs/benchmarks.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from otflam.core import Progress, UserError
from otflam.experiments.calibration import Cost
from otflam.experiments.cells import PlannedCell, Site
from otflam.experiments.estimate import Piece, Work, frames, measure_work, on_cores
from otflam.presets import Preset

CORE_SHARE = 0.3
"""Share of a matrix product's speed that our training steps reach on a core: the middle of share_of_peak."""
FIXED = ("decoder", "probes", "play", "draw digits")
"""Work that does not grow with the frames: it is about labels, played episodes and digits."""
SIDE = 1024
"""Rows and columns of the product that this core's speed is measured by."""
COPIED = 1 << 27
"""Bytes of the copy that its memory is measured by: more than any cache has."""
COLUMNS = (
    f"{'part':28} {'times':>6} {'amount':>16} {'here, /s':>9} {'hours':>9} {'frames/s':>11} {'GB/s':>7} {'GB':>10}"
)


@dataclass(frozen=True)
class Accelerated:
    """A machine, as far as a plan must know it."""

    about: str
    gpus: int
    flops: float
    """Operations a second of one GPU, dense bfloat16, as its maker states them."""
    used: float
    """Share of them that a training step is assumed to reach."""
    bandwidth: float
    """Bytes a second of one GPU's memory, as its maker states them."""
    cores: int
    """Each taken to draw and simulate as fast as one here."""
    disk: float
    """Gigabytes a second that its disks deliver."""


MACHINES = {
    "gpu1": Accelerated("one H100, 16 cores", 1, 989e12, 0.1, 3.35e12, 16, 3.0),
    "gpu8": Accelerated("eight H100, 128 cores", 8, 989e12, 0.1, 3.35e12, 128, 12.0),
}


@dataclass(frozen=True)
class Line:
    """One kind of work on a machine."""

    kind: str
    times: int
    amount: float
    here: float
    """Units of it, steps or frames, in a second of one core here: all that is measured."""
    hours: float
    """Of the whole machine, waiting for the disk included."""
    rate: float
    """Frames a second that must be read while it runs at full speed."""
    written: float
    """Bytes that it leaves on disk."""


@dataclass(frozen=True)
class Core:
    """What one core here does, measured in its own seconds, for others may share it."""

    flops: float
    """Operations a second of a large matrix product."""
    bandwidth: float
    """Bytes a second that a large copy reads and writes."""


def measure_core() -> Core:
    left, right = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    source, copy = torch.zeros(COPIED, dtype=torch.uint8), torch.zeros(COPIED, dtype=torch.uint8)
    product, moved = best_seconds(lambda: left @ right), best_seconds(lambda: copy.copy_(source))
    return Core(2 * SIDE**3 / product, 2 * COPIED / moved)


def best_seconds(work: Callable[[], object]) -> float:
    """The least time of several turns."""
    seconds = []
    for _ in range(8):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def speedup(machine: Accelerated, core: Core) -> float:
    """How many times as fast as this core one GPU does what networks do: by arithmetic or by memory, the lesser."""
    return min(machine.flops * machine.used / (core.flops * CORE_SHARE), machine.bandwidth / core.bandwidth)


def scale(piece: Piece, share: float) -> float:
    """How much of a piece there is with `share` times the frames: data grow, and trainings keep their epochs."""
    return piece.amount * (1.0 if piece.kind in FIXED else share)


def line_of(machine: Accelerated, core: Core, cost: Cost, pieces: list[Piece], share: float, frame: int) -> Line:
    """A kind of work, shared by the whole machine, at the pace of what is slower: computing or reading."""
    kind, amount = pieces[0].kind, sum(scale(piece, share) for piece in pieces)
    units = machine.cores if on_cores(kind) else machine.gpus * speedup(machine, core)
    seconds = cost.seconds * amount / units
    read = cost.frames * amount
    waited = max(seconds, read * frame / (machine.disk * 1e9))
    rate = read / seconds if seconds else 0.0
    here, written = 1 / cost.seconds if cost.seconds else 0.0, cost.per_unit * amount + cost.each * len(pieces)
    return Line(kind, len(pieces), amount, here, waited / 3600, rate, written)


def plan_work(
    site: Site, plan: list[PlannedCell], machine: Accelerated, wanted: float | None, progress: Progress
) -> Iterator[str]:
    """Lines that tell what a plan takes on a machine, with so many frames in each data set."""
    share = check_frames(site.lab.preset, wanted)
    work = measure_work(site, plan, progress)
    yield from work.told()
    if work.missing:
        yield from tell_plan(machine, measure_core(), work, share, site.lab.preset)


def check_frames(preset: Preset, wanted: float | None) -> float:
    """How many times the preset's frames are wanted."""
    if wanted is not None and not 1 <= wanted < float("inf"):
        raise UserError(f"--frames {wanted:g}", "give a number of frames, such as 1e8")
    return 1.0 if wanted is None else wanted / frames(preset)


def tell_plan(machine: Accelerated, core: Core, work: Work, share: float, preset: Preset) -> Iterator[str]:
    """The plan itself."""
    frame = preset.collection.world.size**2 * 3
    lines = [line_of(machine, core, work.costs[kind], work.alike(kind), share, frame) for kind in work.costs]
    yield f"{machine.about}; {share * frames(preset):,.0f} frames in each data set of control"
    yield "on paper: measured are only the rates of one core here ('here, /s'), nothing on such a machine"
    yield (
        f"assumed: a GPU does the work of {speedup(machine, core):,.0f} cores like this one, the lesser of arithmetic "
        f"({machine.flops / 1e12:,.0f} TFLOP/s, {machine.used:.0%} of it used; here {core.flops / 1e9:,.0f} GFLOP/s, "
        f"{CORE_SHARE:.0%} used) and memory ({machine.bandwidth / 1e12:.2f} TB/s; here {core.bandwidth / 1e9:,.0f} "
        f"GB/s); a core draws as fast as this one, the disk reads {machine.disk:g} GB/s"
    )
    yield COLUMNS
    for line in lines:
        moved = f"{line.rate:11,.0f} {line.rate * frame / 1e9:7.2f} {line.written / 1e9:10,.1f}"
        yield f"{line.kind:28} {line.times:6} {line.amount:16,.0f} {line.here:9,.2f} {line.hours:9,.2f} {moved}"
    most = max((line.rate for line in lines), default=0.0)
    needed, space = most * frame / 1e9, sum(line.written for line in lines) / 1e9
    enough = "enough" if needed <= machine.disk else f"too much for {machine.disk:g}: the hours above wait for it"
    yield (
        f"about {sum(line.hours for line in lines):,.1f} hours in all; the loader must deliver up to {most:,.0f} "
        f"frames a second, so the disk {needed:,.2f} GB/s ({enough}), and {space:,.1f} GB of space"
    )
