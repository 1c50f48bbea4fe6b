"""Tables from records alone, as Markdown."""

from __future__ import annotations

import re
from pathlib import Path

from otflam.core.errors import require_name
from otflam.evaluate.stats import estimate
from otflam.report.markdown import chosen, fastest, group, markdown, over_seeds
from otflam.report.policy_tables import (
    BRIEF,
    alignment_table,
    brief_alignment_table,
    control_table,
    named,
    paired_alignment_table,
)
from otflam.report.published import SCALE, TRANSFER
from otflam.report.reproduced import baselines_table, supervision_table, vocabulary_table
from otflam.report.summary import innovation_table, summary_table, tuning_table


def transfer_table(folder: Path, size: str) -> str:
    """Table 1 with intervals, the paper's values beside ours, and normalised errors."""
    records = chosen(folder, "transfer", size)
    rows = []
    for (task, order, method), found in sorted(group(records, "task", "order", "method").items(), reverse=True):
        plain = [over_seeds(found, name) for name in ("source_mse", "target_mse")]
        normal = [over_seeds(found, name) for name in ("source_nmse", "target_nmse")]
        rises = [over_seeds(found, name, 100.0, 1) for name in ("drop", "drop_normalised")]
        paper = TRANSFER[method, order] if task.startswith("walker") else None
        told = "–" if paper is None else f"{paper[0]:.3f} / {paper[1]:.3f} / {paper[2]:.1f}"
        rows.append(
            [task.replace("-to-", " → "), str(order), method, *plain, rises[0], told, *normal, rises[1]],
        )
    head = ["source → target", "order", "method", "source MSE", "target MSE", "rise of MSE %", "paper, all three"]
    return markdown([*head, "source nMSE", "target nMSE", "rise of nMSE %"], rows)


def tokenizer_table(folder: Path, size: str) -> str:
    """Held-out errors and statistics of codes for every vocabulary and variant."""
    records = chosen(folder, "tokenizer", size)
    groups = group(records, "task", "codes", "variant")
    names = ("nmse", "shuffled_nmse", "kmeans_nmse", "moving_perplexity", "active_codes", "place_information")
    names += ("overlap", "ablation_in_area", "locality", "non_redundancy")
    rows = [
        [task, str(codes), variant, *(over_seeds(found, name) for name in names), fastest(found, "train_seconds")]
        for (task, codes, variant), found in sorted(
            groups.items(), key=lambda item: (item[0][0], item[0][2], item[0][1])
        )
    ]
    head = ["task", "K", "variant", "nMSE", "codes shuffled", "k-means nMSE", "perplexity (moving)", "codes a frame"]
    return markdown([*head, "bits on place", "overlap", "in area", "locality", "non-redundancy", "seconds"], rows)


def carrier_table(folder: Path, size: str) -> str:
    """Which features know the motion on unseen digits, and which the digit."""
    records = chosen(folder, "carrier", size)
    rows = []
    for (method,), found in sorted(group(records, "method").items(), reverse=True):
        for name, view in {"histogram": "codes, without place", "latent": "codes, in place"}.items():
            both = [over_seeds(found, f"{name}_{what}_accuracy") for what in ("motion", "digit")]
            rows.append([f"{method} {view}", *both])
    if records:  # the raw signal is the same whoever encodes it
        rows.append(["raw motion", *(over_seeds(records[:1], f"raw_{what}_accuracy") for what in ("motion", "digit"))])
    return markdown(["features", "motion on digits 5-9 (chance 0.048)", "digit among 0-4 (chance 0.2)"], rows)


def paired_table(folder: Path, size: str) -> str:
    """The claim itself: monolithic minus OTF at the same seed."""
    records = chosen(folder, "transfer", size)
    rows = []
    for (task, order), found in sorted(group(records, "task", "order").items(), reverse=True):
        by = {(record["method"], record["seed"]): record["metrics"] for record in found}
        seeds = [seed for method, seed in by if method == "otf" and ("monolithic", seed) in by]
        pairs = [(by["monolithic", seed], by["otf", seed]) for seed in seeds]
        gaps = [[m[name] - o[name] for m, o in pairs] for name in ("target_nmse", "drop_normalised", "drop")]
        if pairs:
            rows.append(
                [task.replace("-to-", " → "), str(order), str(len(pairs)), *(str(estimate(gap)) for gap in gaps)]
            )
    return markdown(["source → target", "order", "seeds", "target nMSE", "rise of nMSE", "rise of MSE"], rows)


def lam_table(folder: Path, size: str) -> str:
    """Is every latent action model healthy?"""
    records = chosen(folder, "lam", size)
    rows = []
    for (task, _), found in sorted(group(records, "task", "method").items()):
        gains = [over_seeds(found, f"gain_over_{other}", 100.0, 1) for other in ("shuffled", "copied")]
        errors = [over_seeds(found, metric, 1.0, 5) for metric in ("error", "error_shuffled", "error_copied")]
        rank = over_seeds(found, "latent_rank", 1.0, 1)
        rows.append([task, named(found[0]), *errors, *gains, rank, fastest(found, "train_seconds")])
    head = ["data", "method", "held-out error", "shuffled", "copying", "below shuffled %", "below copying %"]
    return markdown([*head, "rank", "seconds"], rows)


def inside_table(folder: Path, size: str) -> str:
    """What else FLAM and HiLAM must show: slots in use; chunks and skills that begin neither everywhere nor nowhere."""
    rows = []
    for (task, method), found in sorted(group(chosen(folder, "lam", size), "task", "method").items()):
        vital = found[0]["metrics"]
        if "slots_used" in vital:
            share = f"{100 * vital['smallest_slot']:.0f} % in the smallest"
            rows.append([task, method, f"{vital['slots_used']:.0f} slots in use, {share}", "–", "–"])
        if "chunk_rate" in vital:
            rates = [f"{vital[f'{what}_rate']:.2f} ({vital[f'{what}_rate_wanted']:.2f})" for what in ("chunk", "skill")]
            told = f"chunks begin at {rates[0]}, skills at {rates[1]}; {vital['skill_steps']:.0f} steps a skill"
            rows.append(
                [task, method, told, *(f"{vital[name]:.3f}" for name in ("next_latent", "next_latent_repeated"))]
            )
    return markdown(["data", "method", "inside (wanted)", "next latent", "repeating the last"], rows)


TABLES = {
    "transfer": lambda folder, size: (
        transfer_table(folder, size) + "\nMonolithic minus OTF, paired by seed:\n\n" + paired_table(folder, size)
    ),
    "tokenizer": tokenizer_table,
    "carrier": carrier_table,
    "lam": lam_table,
    "inside": inside_table,
    "alignment": lambda folder, size: (
        alignment_table(folder, size)
        + "\nDifference from LAPO-256 with the same labels; ± over the same held-out episodes:\n\n"
        + paired_alignment_table(folder, size)
    ),
    "alignment_brief": brief_alignment_table,
    "innovation": innovation_table,
    "tuning": tuning_table,
    "summary": summary_table,
    "control": control_table,
    "baselines": baselines_table,
    "vocabulary": vocabulary_table,
    "supervision": supervision_table,
}
SEEDS = "±: half of the 95 % interval over seeds (Student's t)."
RETURNS = f"{SEEDS} RMS deviation: of episodes, the paper's second number too."
CAPTIONS: dict[str, str] = {
    "transfer": "Rows: a tokenizer and its order of differences, trained on the source and applied to the target; "
    f"below, their difference at the same seed. {SEEDS} At laptop size OTF has 0.23 M parameters (0.26 M on digits), "
    "monolithic 15.8 M (25.5 M), for the same bits. The paper, which calls the rise a drop, has it in its "
    f"Table 1, walker-run to cheetah-run; no labels play a part. {SCALE}",
    "tokenizer": f"Rows: a vocabulary of K codes, measured on held-out episodes. {SEEDS}",
    "carrier": f"Rows: what a linear probe reads; values: how often it is right. {SEEDS} Raw motion has no seeds.",
    "lam": f"Rows: a latent action model on held-out transitions of its data. {SEEDS} Values without ± are of one "
    "training. Methods predict in different spaces: compare percentages, not errors.",
    "inside": "Rows: a FLAM or a HiLAM, its first seed on held-out transitions; there are no intervals.",
    "alignment": "Rows: latents of one model of each method, read by a probe with so many labelled episodes, tested on "
    "held-out ones. ±: half of the 95 % interval (Student's t) over draws of labels, which are all the same where the "
    "budget is the whole pool; in the difference from LAPO-256 over held-out episodes; never over trainings.",
    "alignment_brief": f"Rows: latents of one model of each method, read by a probe with {BRIEF} labelled episodes, "
    "tested on held-out ones. ±: half of the 95 % interval over draws of labels (Student's t), not over trainings.",
    "innovation": "Rows: latents of one model of each method. R² of what no state could have told of the action, read "
    "by a linear probe and by a small network with so many labelled episodes, on held-out ones; ±: over draws of "
    "labels. Ceilings, with all labels, have their 95 % interval over held-out episodes; shares only where it excludes "
    "0.",
    "tuning": "Rows: what is trained on labelled actions. Mean return of ten episodes on validation seeds after so "
    "many steps, with the first draw of labels; *: the best on that task. The preset has the best over both tasks.",
    "summary": "Rows: a method with so many labelled episodes, with distractors. Return: of whole episodes that all "
    "rows meet. Minus labels alone: in the same episodes. From starts: of stretches from recorded states, where doing "
    "nothing is 0 % and the expert 100 %. Innovation R²: what latents know of the action that no state could have "
    f"told, with their ceilings below. {SEEDS} Of differences: over paired episodes.",
    "control": f"Rows: a method with so many labelled episodes, between floor and ceiling. {SEEDS} The bootstrap "
    "interval, over seeds and their episodes, is too narrow with three seeds.",
    "baselines": f"Rows: a method, with distractors. {RETURNS} The paper's values are at 32 labelled trajectories, of "
    f"OTF-LAM with the vocabulary that earned most. {SCALE}",
    "vocabulary": f"Rows: a method, with distractors, and the size K of its vocabulary. {RETURNS} The paper's values "
    f"are at 32 labelled trajectories. {SCALE}",
    "supervision": f"Rows: a method, its vocabulary K and its labelled episodes, with distractors. {RETURNS} The "
    f"paper's values are at as many labelled trajectories, of its sweep from 16 to 128. {SCALE}",
}
"""What stands above a table: what its rows are, what ± is, and how far the paper's values can be compared."""


PLACE = re.compile(r"(<!-- table (\w+) (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def fill(page: str, folder: Path) -> str:
    """A page whose marked tables are made anew from the records."""
    return PLACE.sub(
        lambda place: place[1] + TABLES[require_name("table", place[2], TABLES)](folder, place[3]) + place[4], page
    )
