"""Tables of motion codes: how they transfer, what each vocabulary knows, and what codes know of digits."""

from __future__ import annotations

from pathlib import Path

from otflam.evaluate import chosen, group, paired_tokenizers, seed_gap
from otflam.report.published import TRANSFER
from otflam.report.table import NONE, Body, fastest, over_seeds


def transfer_table(folder: Path, preset: str) -> Body:
    """Table 1 with intervals, the paper's values beside ours, and normalised errors."""
    records = chosen(folder, "transfer", preset)
    rows = []
    for (task, order, method), found in sorted(group(records, "task", "order", "method").items(), reverse=True):
        plain = [over_seeds(found, name) for name in ("source_mse", "target_mse")]
        normal = [over_seeds(found, name) for name in ("source_nmse", "target_nmse")]
        rises = [over_seeds(found, name, 100.0, 1) for name in ("drop", "drop_normalised")]
        paper = TRANSFER[method, order] if task.startswith("walker") else None
        printed = NONE if paper is None else f"{paper[0]:.3f} / {paper[1]:.3f} / {paper[2]:.1f}"
        rows.append([task.replace("-to-", " → "), str(order), method, *plain, rises[0], printed, *normal, rises[1]])
    head = ["source → target", "order", "method", "source MSE", "target MSE", "rise of MSE %", "paper, all three"]
    return [*head, "source nMSE", "target nMSE", "rise of nMSE %"], rows


def paired_table(folder: Path, preset: str) -> Body:
    """The claim itself: monolithic minus OTF at the same seed."""
    rows, groups = [], group(chosen(folder, "transfer", preset), "task", "order")
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
