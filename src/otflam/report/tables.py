"""Tables: the one list of all, with title, study and builder, and where they go."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from otflam.core import require_name, write_text
from otflam.report import games, general, sides, tables_models, tables_returns
from otflam.report.published import SCALE
from otflam.report.rendering import Table, as_csv, as_latex, as_markdown

SEEDS = "±: half of the 95 % interval over seeds (Student's t)."
DRAWS = "±: half of the 95 % interval over draws of labels (Student's t)"
RETURNS = f"{SEEDS} RMS deviation: of episodes, the paper's second number too."
Build = Callable[[Path, str], tables_models.Body]


@dataclass(frozen=True)
class TableSpec:
    """A table that can be made of the records of a preset."""

    title: str
    caption: str
    """What its rows are, what ± is, and how far the paper's values can be compared."""
    study: str
    """Whose command makes its records."""
    build: Build
    further: Mapping[str, Build] = field(default_factory=dict)
    """Further parts by their titles."""
    brief: bool = False
    """Whether another one has the same rows and more."""

    def make(self, folder: Path, preset: str) -> list[Table]:
        """The parts of the table, with or without rows."""
        command = f"otflam reproduce {self.study} --preset {preset}"
        parts = {self.title: self.build, **self.further}
        return [Table(title, self.caption, command, *build(folder, preset)) for title, build in parts.items()]


TABLES = {
    "transfer": TableSpec(
        "Does a vocabulary of motion transfer to another body?",
        "Rows: a tokenizer and its order of differences, trained on the source and applied to the target; below, their "
        f"difference at the same seed. {SEEDS} At laptop size OTF has 0.23 M parameters (0.26 M on digits), monolithic "
        f"15.8 M (25.5 M), for the same bits. The paper, which calls the rise a drop, has it in Table 1. {SCALE}",
        "transfer",
        tables_models.transfer_table,
        {"Monolithic minus OTF, paired by seed": tables_models.paired_table},
    ),
    "general": TableSpec(
        "Is there one vocabulary of motion for anything?",
        "Rows: a vocabulary by the domains that it was trained on; values: nMSE on held-out episodes of every domain, "
        "one seed. What OTF learned on all domains took four times as many steps. Of latent actions: one model each, "
        f"read linearly. {DRAWS}; of differences over the same held-out episodes.",
        "general",
        general.general_table,
        {
            "A domain that was never seen": general.left_out_table,
            "Still patches alone": general.stillness_table,
            "Latent actions on motion-general-64, and on a vocabulary of the task's own": general.latents_table,
        },
    ),
    "tokenizer": TableSpec(
        "What does each vocabulary know?",
        f"Rows: a vocabulary of K codes, measured on held-out episodes. {SEEDS}",
        "tokenizer",
        tables_models.tokenizer_table,
    ),
    "carrier": TableSpec(
        "Do codes know the motion, or the digit that moves?",
        f"Rows: what a linear probe reads; values: how often it is right. {SEEDS} Raw motion has no seeds.",
        "carrier",
        tables_models.carrier_table,
    ),
    "lam": TableSpec(
        "Is every latent action model healthy?",
        f"Rows: a latent action model on held-out transitions of its data. {SEEDS} Values without ± are of one "
        "training. Methods predict in different spaces: compare percentages, not errors.",
        "lam",
        tables_models.lam_table,
        {"What latents say besides what happened (audits)": tables_models.audits_table},
    ),
    "inside": TableSpec(
        "What is inside FLAM and HiLAM?",
        "Rows: a FLAM or a HiLAM, its first seed on held-out transitions.",
        "lam",
        tables_models.inside_table,
    ),
    "alignment": TableSpec(
        "What do latent actions know of true actions and of distractors?",
        "Rows: latents of one model of each method, read by a probe with so many labelled episodes, tested on "
        "held-out ones. ±: half of the 95 % interval (Student's t) over draws of labels, which are all the same where "
        "the budget is the whole pool; in the difference from LAPO-256 over held-out episodes; never over trainings.",
        "alignment",
        tables_models.alignment_table,
        {
            "Difference from LAPO-256 with the same labels; ± over the same held-out episodes": (
                tables_models.paired_alignment_table
            )
        },
    ),
    "alignment_brief": TableSpec(
        "What do latent actions know of true actions with few labels?",
        f"Rows: latents of one model of each method, read by a probe with {tables_models.BRIEF} labelled episodes, "
        "tested on held-out ones. ±: half of the 95 % interval over draws of labels (Student's t), not over trainings.",
        "alignment",
        partial(tables_models.alignment_table, only=tables_models.BRIEF),
        brief=True,
    ),
    "innovation": TableSpec(
        "What do latent actions know that no state could have told?",
        "Rows: latents of one model of each method. R² of what no state could have told of the action, read by a "
        "linear probe and by a small network with so many labelled episodes, on held-out ones. ±: half of the 95 % "
        "interval over draws of labels. Ceilings, with all labels, have their 95 % interval over held-out episodes; "
        "shares only where it excludes 0.",
        "innovation",
        tables_models.innovation_table,
    ),
    "tuning": TableSpec(
        "How long is each row trained on labelled actions?",
        "Rows: what is trained on labelled actions. Mean return of ten episodes on validation seeds after so many "
        "steps, with the first draw of labels; *: the best on that task. The preset has the best over both tasks.",
        "tuning",
        tables_returns.tuning_table,
    ),
    "summary": TableSpec(
        "What does each method earn, and what do its latents know?",
        "Rows: a method with so many labelled episodes, with distractors. Return: of whole episodes that all rows "
        "meet. Minus labels alone: in the same episodes. From starts: of stretches from recorded states, where doing "
        "nothing is 0 % and the expert 100 %. Innovation R²: what latents know of the action that no state could have "
        f"told, with their ceilings below. {SEEDS} Of differences: over paired episodes.",
        "baselines",
        tables_returns.summary_table,
    ),
    "headline": TableSpec(
        "What does each method earn, in a row?",
        "Rows: a method, with distractors, and its floors and ceilings. Columns: as in the table of all budgets, side "
        f"by side; innovation R² at the largest. {SEEDS}",
        "baselines",
        tables_returns.headline_table,
        brief=True,
    ),
    "control": TableSpec(
        "What do agents earn?",
        f"Rows: a method with so many labelled episodes, between floor and ceiling. {SEEDS} The bootstrap interval, "
        "over seeds and their episodes, is too narrow with three seeds.",
        "baselines",
        tables_returns.control_table,
    ),
    "baselines": TableSpec(
        "What do agents earn with distractors, beside the paper?",
        f"Rows: a method, with distractors. {RETURNS} The paper's values are at 32 labelled trajectories, of OTF-LAM "
        f"with the vocabulary that earned most. {SCALE}",
        "baselines",
        tables_returns.baselines_table,
    ),
    "vocabulary": TableSpec(
        "How do returns depend on the size of the vocabulary?",
        f"Rows: a method, with distractors, and the size K of its vocabulary. {RETURNS} The paper's values are at 32 "
        f"labelled trajectories. {SCALE}",
        "vocabulary",
        tables_returns.vocabulary_table,
    ),
    "supervision": TableSpec(
        "How do returns grow with labelled episodes?",
        f"Rows: a method, its vocabulary K and its labelled episodes, with distractors. {RETURNS} The paper's values "
        f"are at as many labelled trajectories, of its sweep from 16 to 128. {SCALE}",
        "supervision",
        tables_returns.supervision_table,
    ),
    "ambiguity": TableSpec(
        "Whose action do latents name?",
        "Rows: latents of one model of each method in pictures of two bodies. R² of the executed actions of each, and "
        "of what no state could have told of them, read linearly with so many labelled episodes of that side; beside "
        "what a network reads from frames with all labels (% of frames: innovation R² as a share of it), the controls, "
        f"and how much of the picture moves with each body. {DRAWS}; of differences over the same held-out episodes.",
        "ambiguity",
        sides.ambiguity_table,
        {"Difference from LAPO-256 with the same labels; below 0 is better": sides.paired_sides_table},
    ),
    "doses": TableSpec(
        "Which distractor costs how much?",
        "Rows: latents of one model of each method. R² of the agent's executed actions, read linearly with so many "
        f"labelled episodes, on the same episodes drawn with one distractor at a time. {DRAWS}.",
        "ambiguity",
        sides.doses_table,
    ),
    "games": TableSpec(
        "What do latents know of choices in games?",
        "Rows: latents of one model of each method, read by a linear classifier with so many labelled levels, on "
        "held-out ones; all-labels and labels-alone are networks that see frames, one draw. Balanced: steps at which "
        "the choice changed count as much as all others; an action that is one of ten at random, and the expert's own "
        f"draw, no state tells. {DRAWS}.",
        "games",
        games.choices_table,
        {"Who is named: R² of the motion of every kind": games.movers_table},
    ),
    "gameplay": TableSpec(
        "What do agents earn in games?",
        f"Rows: a method with so many labelled episodes, on easy levels that nobody has seen. {SEEDS} Without ±: one "
        "seed. Experts look at states.",
        "games",
        games.gameplay_table,
        {"Do vocabularies of motion transfer between games? Held-out levels": games.words_table},
    ),
    "suite": TableSpec(
        "In which worlds can be seen what to do?",
        "Rows: a task with or without distractors. Values: returns; all-actions imitates the true action of every "
        f"frame of all episodes. {SEEDS} Without ±: one seed. From starts: as beside a rival.",
        "suite",
        tables_returns.suite_table,
    ),
    "rivalry": TableSpec(
        "What do agents earn beside a rival?",
        f"Rows: a method with so many labelled episodes, between floor and ceiling. {SEEDS} % of expert: of its return "
        "in the same world. From starts: of stretches from recorded states, doing nothing is 0 %, the expert 100 %.",
        "ambiguity",
        sides.rivalry_table,
    ),
}
LISTED = ("methods", "benchmarks", "times", "ranges", "weights")
"""Tables without a caption: methods as they declare themselves, and what was measured or tried on the way."""
LISTS: dict[str, Build] = {name: getattr(tables_models, f"{name}_table") for name in LISTED}
PLACE = re.compile(r"(<!-- table (\w+) (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def fill(page: str, folder: Path) -> str:
    """A Markdown page whose marked tables are made anew."""

    def made(place: re.Match[str]) -> str:
        if (build := LISTS.get(place[2])) is not None:
            parts = [Table(place[2], "", "otflam tables", *build(folder, place[3]))]
        else:
            parts = TABLES[require_name("table", place[2], [*TABLES, *LISTS])].make(folder, place[3])
        return place[1] + as_markdown(*parts) + place[4]

    return PLACE.sub(made, page)


def study_tables(study: str, folder: Path, preset: str) -> Iterator[str]:
    """The tables that a study makes as Markdown, each under its caption."""
    for listed in TABLES.values():
        if listed.study == study and not listed.brief:
            yield f"{listed.caption}\n\n{as_markdown(*listed.make(folder, preset))}"


def tables_with_rows(folder: Path, preset: str) -> Iterator[tuple[str, list[Table]]]:
    """Every table that has rows, by name, with those of its parts that have some."""
    for name, listed in TABLES.items():
        if parts := [part for part in listed.make(folder, preset) if part.rows]:
            yield name, parts


def export_tables(folder: Path, preset: str, out: Path) -> Iterator[Path]:
    """Write every table as CSV and LaTeX; one with several parts becomes several files."""
    for name, parts in tables_with_rows(folder, preset):
        for number, part in enumerate(parts, 1):
            stem = f"{name}-{preset}" + (f"-{number}" if len(parts) > 1 else "")
            for suffix, render in (("csv", as_csv), ("tex", as_latex)):
                write_text(out / f"{stem}.{suffix}", render(part))
                yield out / f"{stem}.{suffix}"
