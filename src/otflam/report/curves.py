"""Learning curves of experts."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

from otflam.core.errors import UserError
from otflam.core.files import replacing
from otflam.report.style import SERIES

matplotlib.use("Agg")


def draw_expert_curves(logs: dict[str, Path], path: Path) -> Path:
    """Draw the mean evaluation return of each training log against the decisions taken."""
    figure, axes = plt.subplots(figsize=(7, 3.4), dpi=120)
    for (name, log), colour in zip(logs.items(), SERIES, strict=False):
        try:
            rows = [json.loads(line) for line in log.read_text().splitlines()]
            points = [(row["decisions"], sum(row["returns"]) / len(row["returns"])) for row in rows if "returns" in row]
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"{log} is no training log ({error})", "give log.jsonl of 'otflam expert train'") from None
        axes.plot([x / 1e3 for x, _ in points], [y for _, y in points], color=colour, label=name)
    axes.set(xlabel="thousand decisions", ylabel="return at repeat 1", ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.tight_layout()
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png")
    plt.close(figure)
    return path
