"""The figures of the report, from records alone, each as SVG and PNG and the same bytes whenever it is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from otflam.report.canvas import Sketch, Sketcher, sketched, write_figure
from otflam.report.curves import sketch_convergence
from otflam.report.figures_growth import sketch_growth
from otflam.report.figures_models import sketch_alignment, sketch_health, sketch_leakage, sketch_transfer
from otflam.report.figures_returns import sketch_returns, sketch_supervision, sketch_vocabulary, sketch_worlds
from otflam.report.figures_worth import sketch_worth
from otflam.report.games import sketch_named
from otflam.report.sides import sketch_doses, sketch_sides

FIGURES: dict[str, Sketcher] = {
    "transfer": sketch_transfer,
    "returns": sketch_returns,
    "worth": sketch_worth,
    "worlds": sketch_worlds,
    "convergence": sketch_convergence,
    "supervision": sketch_supervision,
    "vocabulary": sketch_vocabulary,
    "alignment": sketch_alignment,
    "leakage": sketch_leakage,
    "health": sketch_health,
    "growth": sketch_growth,
    "sides": sketch_sides,
    "doses": sketch_doses,
    "named": sketch_named,
}
"""Who draws what; none is drawn while its records are missing."""


def sketch_figures(records: Path, preset: str) -> Iterator[tuple[str, Sketch]]:
    """Every figure that the records of a preset suffice for, with its name."""
    for name, sketch in FIGURES.items():
        if (found := sketched(sketch, records, preset)) is not None:
            yield name, found


def draw_figures(records: Path, preset: str, out: Path) -> list[Path]:
    """Write every figure that the records of a preset suffice for, as SVG and as PNG."""
    sketches = sketch_figures(records, preset)
    return [write_figure(each.figure, out / f"{name}.{kind}") for name, each in sketches for kind in ("svg", "png")]
