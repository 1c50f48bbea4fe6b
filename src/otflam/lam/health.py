"""Is a latent action model healthy? What its users ask first, answered on held-out episodes.

A latent action matters if predicting with another transition's latent is clearly worse than with the right one; the
model as a whole is worth something if it beats copying the current frame.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from otflam.data import RandomBatches
from otflam.lam.model import LAM, effective_rank

BATCH, BATCHES, SEED = 64, 16, 12345
HELD_OUT = 8
"""Held-out episodes, from the first on, on which a model's health is watched."""
LEAST_TRANSITIONS = 8
"""Transitions below which nothing is said."""
TRAINED_PER_CHECKED = 8
"""Of this many samples that are trained on, at most one more is looked at to watch the model."""
LEAST_GAIN, LEAST_RANK = 0.2, 2.0
"""Least gain over a shuffled latent, and least effective rank, of a healthy model."""


def check_size(trained: int, most: int = BATCHES) -> tuple[int, int]:
    """Batches to look at, and their size, after training on so many samples: short trainings have short checks."""
    samples = max(min(trained // TRAINED_PER_CHECKED, most * BATCH), LEAST_TRANSITIONS)
    return -(-samples // BATCH), min(samples, BATCH)


@torch.no_grad()
def check_health(model: LAM, clips: RandomBatches, batches: int = BATCHES, size: int = BATCH) -> dict[str, float]:
    """Errors with the right latent, with a shuffled one and of copying; how much of its width the latent uses."""
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    errors, latents, usage, inner_health = [], [], [], []
    for number in range(batches):
        batch = clips.batch(min(size, len(clips)), SEED, number).to(device)
        seen, future = model.observe(batch), model.future(batch)
        latent = model.infer_latent(seen)
        guesses = [
            model.predict_future(seen, latent),
            model.predict_future(seen, latent.roll(1, 0)),
            model.current(batch),
        ]
        errors.append(torch.stack([F.mse_loss(guess, future) for guess in guesses]))
        latents.append(latent)
        inner_health.append(model.inner_health(seen))
        if (shares := model.codes_used(batch, seen)) is not None:
            usage.append(shares)
    model.train(was_training)
    right, shuffled, copied = torch.stack(errors).mean(0).tolist()
    latent = torch.cat(latents)
    found = {
        "error": right,
        "error_shuffled": shuffled,
        "error_copied": copied,
        "gain_over_shuffled": 1 - right / max(shuffled, 1e-12),
        "gain_over_copied": 1 - right / max(copied, 1e-12),
        "latent_rank": effective_rank(latent).item(),
        "latent_std": latent.std(0, correction=min(1, len(latent) - 1)).mean().item(),
        "transitions": float(min(len(clips), len(latent))),  # small sets repeat
    }
    found |= {name: sum(vital[name] for vital in inner_health) / len(inner_health) for name in inner_health[0]}
    if usage:
        share = torch.stack(usage).mean(0)
        found["codes_used"] = float((share > 0).sum())
    return found


def verdict(health: dict[str, float]) -> str:
    """One line: healthy or not, and why."""
    gain, copied, rank = health["gain_over_shuffled"], health["gain_over_copied"], health["latent_rank"]
    facts = ", ".join(
        f"{abs(100 * share):.0f} % {'below' if share >= 0 else 'above'} {what}"
        for share, what in ((gain, "a shuffled latent"), (copied, "copying"))
    )
    facts += f", rank {rank:.1f}"
    for what in ("chunk", "skill"):
        if (rate := health.get(f"{what}_rate")) is not None:
            wanted = health[f"{what}_rate_wanted"]
            if not 0.5 * wanted < rate < min(2 * wanted, (1 + wanted) / 2):
                return (
                    f"collapsed: {what}s begin at {100 * rate:.0f} % of the places, {100 * wanted:.0f} % were wanted; "
                    f"raise the weight of 'ratio' ({facts})"
                )
    if health["transitions"] < LEAST_TRANSITIONS:
        return f"unknown: too few held-out transitions to tell ({facts})"
    if rank < LEAST_RANK:
        return f"collapsed: the latents vary along fewer than {LEAST_RANK:.0f} directions ({facts})"
    if health.get("slots_used", 2) < min(2, health.get("slots", 2)):
        return f"collapsed: one slot owns everything ({facts})"
    if health.get("skill_rank", LEAST_RANK) < LEAST_RANK:
        return f"collapsed: the skills vary along fewer than {LEAST_RANK:.0f} directions ({facts})"
    if health.get("next_latent", 0.0) >= health.get("next_latent_repeated", 1.0):
        return f"weak: the next latent action is foreseen no better than by repeating the last ({facts})"
    if gain < LEAST_GAIN:
        return f"weak: the prediction hardly depends on the latent ({facts})"
    if copied < 0:
        return f"useful latents, but the prediction is worse than copying: train longer ({facts})"
    return f"healthy ({facts})"
