"""Rerun's recordings, out: a file for each episode, to look at frames, codes and all numbers on one time line."""

from __future__ import annotations

from dataclasses import dataclass

from otflam.data.formats.format import Format, register_format


@dataclass(frozen=True)
class RerunExport:
    fps: float | None = None
    """Frames a second; by default as the data say."""
    episodes: int = 0
    """Only this many episodes, from the first on; 0: all."""


register_format(
    Format(
        name="rerun",
        what="recordings for Rerun's viewer",
        writes="otflam.data.formats.rerun.recordings:export_rerun",
        target="The new folder, with a .rrd file for each episode: open them with 'rerun OUT/*.rrd'.",
        needs="The data set; it needs frames with three colours.",
        writing=RerunExport,
        beside=True,
    )
)
