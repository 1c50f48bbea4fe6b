"""What lies behind the claims: figures, films and tables, under the topics that claims have."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from otflam.core import Progress
from otflam.report.bodies import body_figures
from otflam.report.explorer import Figure, as_figure
from otflam.report.figures import sketch_figures
from otflam.report.game_films import game_figures
from otflam.report.inside import inside_figures
from otflam.report.tables import TABLES, Table, tables_with_rows

FIGURES_OF: dict[str, tuple[str, ...]] = {
    "Motion codes": ("transfer",),
    "Latent actions": ("health", "alignment", "leakage", "growth"),
    "Whose action?": ("sides", "doses"),
    "Labels inside the training": (),
    "Games": ("named",),
    "Control": ("returns", "worth", "worlds", "convergence", "supervision", "vocabulary"),
}
"""Figures from records, by topic."""
STUDIES_OF: dict[str, tuple[str, ...]] = {
    "Motion codes": ("transfer", "general", "tokenizer", "carrier"),
    "Latent actions": ("lam", "alignment", "innovation"),
    "Whose action?": ("ambiguity",),
    "Labels inside the training": ("labels",),
    "Games": ("games",),
    "Control": ("baselines", "tuning", "supervision", "vocabulary", "suite"),
}
"""Studies whose tables belong to a topic."""
OTHER = "Further"
"""Topic of what is in no list."""


@dataclass
class Evidence:
    """What is shown of a topic."""

    figures: list[Figure] = field(default_factory=list)
    tables: list[list[Table]] = field(default_factory=list)


def gather_evidence(runs: Path | None, records: Path, preset: str, progress: Progress) -> dict[str, Evidence]:
    """Everything that can be shown, by topic; topics without anything are left out."""
    topics = {name: Evidence() for name in (*FIGURES_OF, OTHER)}
    films = {"Whose action?": body_figures, "Games": game_figures, "Latent actions": inside_figures}
    for topic, draw in films.items():
        topics[topic].figures += draw(runs, progress)
    for name, sketch in sketch_figures(records, preset):
        topics[topic_of(name, FIGURES_OF)].figures.append(as_figure(name, sketch))
    for name, parts in tables_with_rows(records, preset):
        if not TABLES[name].brief:
            topics[topic_of(TABLES[name].study, STUDIES_OF)].tables.append(parts)
    return {name: found for name, found in topics.items() if found.figures or found.tables}


def take_first(topics: dict[str, Evidence]) -> Figure | None:
    """The first figure that is no film, taken from its topic to be shown before all."""
    for found in topics.values():
        for place, figure in enumerate(found.figures):
            if figure.src.startswith("data:image/svg"):
                return found.figures.pop(place)
    return None


def topic_of(name: str, lists: dict[str, tuple[str, ...]]) -> str:
    return next((topic for topic, names in lists.items() if name in names), OTHER)
