"""Tables of motion codes and of latent actions: how codes transfer, and what codes and latents know."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from otflam.core import read_json
from otflam.evaluate import (
    BASELINE,
    BODY_TRANSFER,
    DIGIT_TRANSFER,
    Estimate,
    Records,
    chosen,
    decoding_gap,
    group,
    models,
    named,
    over,
    paired_tokenizers,
    seed_gap,
    share_of,
)
from otflam.lam import AUDITS, METHODS
from otflam.report.published import TRANSFER

Body = tuple[list[str], list[list[str]]]
"""The head and the rows of a table."""
NONE = "–"
"""The entry of what was not measured."""
BENCH, SHARE = "bench.json", "share_of_peak_"
BRIEF = 8
"""The budget of labels in short tables."""
CEILINGS = {"innovation_r2_states": "true states before and after", "innovation_r2_frames": "frames, all labels"}


def over_seeds(records: Records, metric: str, scale: float = 1.0, digits: int = 3) -> str:
    """An entry: mean ± half of the 95 % interval over seeds, or a single value."""
    found = over([record for record in records if record["metrics"].get(metric) is not None], metric, scale)
    return NONE if found is None else found.text(digits)


def with_half(value: Estimate | None, digits: int, sign: bool = False) -> str:
    """An entry: a number with half of its interval; a draw that was made once, or always the same, has none."""
    if value is None or math.isnan(value.mean):
        return NONE
    form = f"{'+' if sign else ''}.{digits}f"
    half = f" ± {value.half:.{digits}f}" if math.isfinite(value.half) and value.half > 1e-9 else ""
    return f"{value.mean:{form}}{half}"


def fastest(records: Records, metric: str) -> str:
    """An entry: seconds of the fastest seed; others may have shared their core."""
    return f"{min(record['metrics'][metric] for record in records):.0f}"


def methods_table(folder: Path, preset: str) -> Body:
    """Every method that has the preset's size, as it declares itself; its page is named after its family."""
    rows = []
    for method in METHODS.values():
        if preset in method.sizes:
            page, (module, _, model) = re.sub(r"-\d+$", "", method.name), method.model.partition(":")
            place = f"`{module.removeprefix('otflam.').replace('.', '/')}.py::{model}`"
            rows.append([f"[`{method.name}`]({page}.md)", method.summary, method.base or NONE, method.paper, place])
    return ["method", "what it is", "stands on", "paper", "model"], rows


def benchmarks_table(folder: Path, preset: str) -> Body:
    """What 'otflam bench' last measured, beside its goals."""
    marks = read_json(folder.parent / BENCH, "run 'otflam bench'")
    goals = {name: NONE if mark["goal"] == "none" else mark["goal"] for name, mark in marks.items()}
    rows = [
        [f"`{name}`", f"{mark['value']:.3g}", mark["unit"], goals[name], mark["how"]] for name, mark in marks.items()
    ]
    return ["benchmark", "value", "unit", "goal", "how it is measured"], rows


def times_table(folder: Path, preset: str) -> Body:
    """Where the time of each training step goes."""
    marks = read_json(folder.parent / BENCH, "run 'otflam bench'")
    steps = {name.removeprefix(SHARE): mark for name, mark in marks.items() if name.startswith(SHARE)}
    kinds = ("arithmetic", "memory", "optimiser", "loader", "python")
    rows = [
        [name, f"{mark['value']:.2f}", mark["goal"], *(f"{100 * mark['parts'][kind]:.0f} %" for kind in kinds)]
        for name, mark in steps.items()
    ]
    return ["training step of", "share of peak", "goal", *kinds], rows


def lam_table(folder: Path, preset: str) -> Body:
    """Is every latent action model healthy?"""
    rows = []
    for (task, _), found in sorted(group(models(folder, preset), "task", "method").items()):
        gains = [over_seeds(found, f"gain_over_{other}", 100.0, 1) for other in ("shuffled", "copied")]
        errors = [over_seeds(found, metric, 1.0, 5) for metric in ("error", "error_shuffled", "error_copied")]
        rank = over_seeds(found, "latent_rank", 1.0, 1)
        rows.append([task, named(found[0]), *errors, *gains, rank, fastest(found, "train_seconds")])
    head = ["data", "method", "held-out error", "shuffled", "copying", "below shuffled %", "below copying %"]
    return [*head, "rank", "seconds"], rows


def audits_table(folder: Path, preset: str) -> Body:
    """What latents say besides what happened."""
    rows = []
    for (task, _), found in sorted(group(models(folder, preset), "task", "method").items()):
        asked = [[record for record in found if metric in record["metrics"]] for metric in AUDITS]
        if asked[0]:
            answers = [over_seeds(each, metric, 1.0, 2) for each, metric in zip(asked, AUDITS, strict=True)]
            rows.append([task, named(found[0]), *answers])
    return ["data", "method", "nothing happens", "shift", "shortcut", "rival's share"], rows


def weights_table(folder: Path, preset: str) -> Body:
    """What latents tell of actions with every weight of the labels that they heard."""
    records = chosen(folder, "weights", preset)
    every = sorted({record["weight"] for record in records})
    rows = []
    for (task, method), found in sorted(group(records, "task", "method").items()):
        by = {record["weight"]: record["metrics"]["action_r2"] for record in found}
        told = [
            f"{by[each]:.3f}{' *' if by[each] == max(by.values()) else ''}" if each in by else NONE for each in every
        ]
        rows.append([task, method, *told])
    return ["data", "method", *(f"weight {each}" for each in every)], rows


def ranges_table(folder: Path, preset: str) -> Body:
    """Which numbers are normal? The least and the largest of each method over all recorded data sets and seeds."""
    shown = {
        "error": (1.0, 4),
        "error_copied": (1.0, 4),
        "gain_over_shuffled": (100.0, 0),
        "gain_over_copied": (100.0, 0),
    }
    shown |= {"latent_rank": (1.0, 0), **dict.fromkeys(AUDITS, (1.0, 2))}
    rows = []
    for (method,), found in sorted(group(models(folder, preset), "method").items()):
        known = {name: [r["metrics"][name] for r in found if r["metrics"].get(name) is not None] for name in shown}
        spans = [
            f"{scale * min(known[name]):.{digits}f} to {scale * max(known[name]):.{digits}f}" if known[name] else NONE
            for name, (scale, digits) in shown.items()
        ]
        rows.append([method, str(len(found)), *spans])
    head = ["method", "models", "held-out error", "copying", "below shuffled %", "below copying %", "rank"]
    return [*head, "nothing happens", "shift", "shortcut", "rival's share"], rows


def inside_table(folder: Path, preset: str) -> Body:
    """What else FLAM and HiLAM must show: slots in use; chunks and skills that begin neither everywhere nor nowhere."""
    rows = []
    for (task, method), found in sorted(group(chosen(folder, "lam", preset), "task", "method").items()):
        vital = found[0]["metrics"]
        if "slots_used" in vital:
            share = f"{100 * vital['smallest_slot']:.0f} % in the smallest"
            rows.append([task, method, f"{vital['slots_used']:.0f} slots in use, {share}", NONE, NONE])
        if "chunk_rate" in vital:
            rates = [f"{vital[f'{what}_rate']:.2f} ({vital[f'{what}_rate_wanted']:.2f})" for what in ("chunk", "skill")]
            begun = f"chunks begin at {rates[0]}, skills at {rates[1]}; {vital['skill_steps']:.0f} steps a skill"
            errors = [f"{vital[name]:.3f}" for name in ("next_latent", "next_latent_repeated")]
            rows.append([task, method, begun, *errors])
    return ["data", "method", "inside (wanted)", "next latent", "repeating the last"], rows


def alignment_table(folder: Path, preset: str, only: int | None = None) -> Body:
    """How well actions and distractors are read from latents, with the controls."""
    names = ("action_r2", "action_r2_gain", "state_r2", "present_r2", "still_r2", "motion_r2", "both_r2")
    names += ("mlp_r2", "mlp_state_r2", "action_mse")
    leaks = ("distractor_r2", "background_r2", "colour_r2")  # no labels are drawn for them, so that seeds agree
    records = [record for record in chosen(folder, "alignment", preset) if only in (None, record["labels"])]
    rows = [
        [task, str(labels), named(found[0]), *(over_seeds(found, name) for name in names)]
        + [over_seeds(found[:1], name) for name in leaks]
        for (task, labels, _), found in sorted(group(records, "task", "labels", "method").items())
    ]
    head = ["data", "labels", "method", "action R²", "gain over state", "state alone", "own present", "no future"]
    head += ["raw motion", "latent + state", "MLP R²", "MLP, state alone", "action MSE"]
    return [*head, "camera R²", "background R²", "colour R²"], rows


def paired_alignment_table(folder: Path, preset: str) -> Body:
    """The paper's claim: a method's decoding error minus LAPO's on the same held-out episodes with the same labels.

    Intervals are over episodes, each averaged over the draws of labels: one model of each method was trained.
    """
    rows = []
    for (task, labels), found in sorted(group(chosen(folder, "alignment", preset), "task", "labels").items()):
        for (method,), ours in group(found, "method").items():
            gap = decoding_gap(found, method) if method != BASELINE else None
            if gap:
                rows.append([task, str(labels), named(ours[0]), str(gap.error), str(gap.error.count), str(gap.draws)])
    return ["data", "labels", "method", "action MSE minus LAPO-256's", "episodes", "draws of labels"], rows


def innovation_table(folder: Path, preset: str) -> Body:
    """What latents know that no state could have told, beside raw motion and the ceilings."""
    rows = []
    groups = group(chosen(folder, "innovation", preset), "task", "labels", "method")
    for (task, labels, _), found in sorted(groups.items()):
        metrics = found[0]["metrics"]
        read = [
            with_half(over(found, name), 3) for name in ("innovation_r2", "innovation_mlp_r2", "innovation_r2_motion")
        ]
        shares = [with_half(share_of(found, top), 0) for top in CEILINGS]
        tops = [with_interval(metrics, f"innovation_{kind}") for kind in ("r2_states", "mlp_r2_states", "r2_frames")]
        rows.append([task, str(labels), named(found[0]), *read, *shares, *tops])
    head = ["data", "labels", "method", "innovation R²", "MLP", "raw motion", "% of states", "% of frames"]
    return [*head, "ceiling of states", "by MLP", "ceiling of frames"], rows


def with_interval(metrics: dict[str, Any], name: str) -> str:
    """An entry: a number with both ends of its recorded interval."""
    if metrics.get(name) is None:
        return NONE
    low, high = metrics[f"{name}_interval"]
    return f"{metrics[name]:.3f} ({low:.3f} to {high:.3f})"


def transfer_table(folder: Path, preset: str) -> Body:
    """Table 1 with intervals, the paper's values beside ours, and normalised errors."""
    rows, groups = [], group(paper_transfers(folder, preset), "task", "order", "method")
    for (task, order, method), found in sorted(groups.items(), reverse=True):
        plain = [over_seeds(found, name) for name in ("source_mse", "target_mse")]
        normal = [over_seeds(found, name) for name in ("source_nmse", "target_nmse")]
        rises = [over_seeds(found, name, 100.0, 1) for name in ("drop", "drop_normalised")]
        paper = TRANSFER[method, order] if task == BODY_TRANSFER else None
        printed = NONE if paper is None else f"{paper[0]:.3f} / {paper[1]:.3f} / {paper[2]:.1f}"
        rows.append([task.replace("-to-", " → "), str(order), method, *plain, rises[0], printed, *normal, rises[1]])
    head = ["source → target", "order", "method", "source MSE", "target MSE", "rise of MSE %", "paper, all three"]
    return [*head, "source nMSE", "target nMSE", "rise of nMSE %"], rows


def paper_transfers(folder: Path, preset: str) -> Records:
    """Transfers of the paper's Table 1; those of games are shown with games."""
    return [r for r in chosen(folder, "transfer", preset) if r["task"] in (BODY_TRANSFER, DIGIT_TRANSFER)]


def paired_table(folder: Path, preset: str) -> Body:
    """The claim itself: monolithic minus OTF at the same seed."""
    rows, groups = [], group(paper_transfers(folder, preset), "task", "order")
    for (task, order), found in sorted(groups.items(), reverse=True):
        otf, other = paired_tokenizers(found)
        if otf:
            gaps = [str(seed_gap(otf, other, name)) for name in ("target_nmse", "drop_normalised", "drop")]
            rows.append([task.replace("-to-", " → "), str(order), str(len(otf)), *gaps])
    return ["source → target", "order", "seeds", "target nMSE", "rise of nMSE", "rise of MSE"], rows


def tokenizer_table(folder: Path, preset: str) -> Body:
    """Held-out errors and statistics of codes for every vocabulary and variant."""
    groups = group(chosen(folder, "tokenizer", preset), "task", "variant", "codes")
    names = ("nmse", "shuffled_nmse", "kmeans_nmse", "moving_perplexity", "active_codes", "place_information")
    names += ("overlap", "ablation_in_area", "locality", "non_redundancy")
    rows = [
        [task, str(codes), variant, *(over_seeds(found, name) for name in names), fastest(found, "train_seconds")]
        for (task, variant, codes), found in sorted(groups.items())
    ]
    head = ["task", "K", "variant", "nMSE", "codes shuffled", "k-means nMSE", "perplexity (moving)", "codes a frame"]
    return [*head, "bits on place", "overlap", "in area", "locality", "non-redundancy", "seconds"], rows


def carrier_table(folder: Path, preset: str) -> Body:
    """Which features know the motion on unseen digits, and which the digit."""
    records = chosen(folder, "carrier", preset)
    rows = []
    for (method,), found in sorted(group(records, "method").items(), reverse=True):
        for name, view in {"histogram": "codes, without place", "latent": "codes, in place"}.items():
            both = [over_seeds(found, f"{name}_{what}_accuracy") for what in ("motion", "digit")]
            rows.append([f"{method} {view}", *both])
    if records:  # the raw signal is the same whoever encodes it
        rows.append(["raw motion", *(over_seeds(records[:1], f"raw_{what}_accuracy") for what in ("motion", "digit"))])
    return ["features", "motion on digits 5-9 (chance 0.048)", "digit among 0-4 (chance 0.2)"], rows
