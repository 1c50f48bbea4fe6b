"""What latent actions know in games: which action was chosen, and whose motion they name.

An action that sticks can be guessed from the one before. So the steps at which it changed count as much as all others
together in what is called balanced, and stand by themselves too. Beside the latents stands what three frames tell.

Things are recorded by kind. How a kind moves is the mean of what its things in sight move in a step; for the agent and
the camera it is how far they came. Axes: n transitions, f features, c choices, k numbers of a motion.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from otflam.core import stable_hash
from otflam.data import Column, Store, derive
from otflam.evaluate.alignment import ByEpisode, Table, episodes_of, r2_score, ridge_guess
from otflam.policy import Episodes

GAMES_VERSION = 1
DECAYS = (1e-4, 1e-2, 1.0)
"""Strengths of the probe, among which the labelled episodes choose."""
ITERATIONS = 60
MOVERS = ("agent", "enemy", "projectile", "shot", "camera")
"""Whose motion is asked for; items and walls stand still."""
FEWEST = 200
"""Transitions in which a kind must be in sight, to be tested on and, for a probe, to learn from."""
MOVERS_VERSION = 2
"""What networks are told of motions."""
Choices = Int64[np.ndarray, "_"]
LEVELS_PROBED = 64
"""Held-out levels, at most, that probes are tested on: they are shorter than episodes of the suite."""
READ = ("latents", "state", "motion")
"""Columns that both are read from: the latent, what three frames tell, and the raw motion."""


def read_choices(
    store: Store, columns: Mapping[str, ByEpisode], labelled: Episodes, probes: Episodes, last: int
) -> dict[str, float]:
    """How well a linear probe with few labels tells which action was chosen, from latents and from their controls."""
    known, truth = (np.concatenate(episodes_of(store, "actions", part, last))[:, 0] for part in (labelled, probes))
    before = np.concatenate([previous(store, int(index), last) for index in probes])
    count, found = int(store.meta["action_choices"]), {}
    weights = balance(truth, before)
    for name in READ[:2]:
        rows = episodes_of(columns[name], name, labelled, last)
        choices = np.split(known.astype(np.int64), np.cumsum([len(part) for part in rows])[:-1])
        odds = guess_choices(rows, choices, np.concatenate(episodes_of(columns[name], name, probes, last)), count)
        end = "" if name == "latents" else f"_{name}"
        found |= score_choices(odds.argmax(1), truth, before, end)
        found[f"choice_entropy{end}"] = float(-(odds[np.arange(len(truth)), truth.astype(int)] * weights).sum())
    usual = np.bincount(known.astype(np.int64), minlength=count).argmax()
    found["choice_accuracy_usual"] = float((truth == usual).mean())
    found["choice_accuracy_before"] = float((truth == before).mean())
    return found


def score_choices(guess: np.ndarray, truth: np.ndarray, before: np.ndarray, end: str = "") -> dict[str, float]:
    """How often a guess is right: everywhere, balanced, and where the action changed."""
    right = guess == truth
    return {
        f"choice_accuracy{end}": float(right.mean()),
        f"choice_balanced{end}": float((right * balance(truth, before)).sum()),
        f"choice_changed{end}": float(right[truth != before].mean()),
    }


def previous(store: Store, index: int, last: int) -> Float32[np.ndarray, " n"]:
    """The action before each of an episode; before the first there is none."""
    actions = store.episode(index, "actions")[:, 0]
    return np.concatenate([[-1.0], actions[:-1]]).astype(np.float32)[: -last or None]


def balance(actions: Float32[np.ndarray, " n"], before: Float32[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Weights that add up to 1: steps at which the action changed count as much as all others together."""
    changed = actions != before
    parts = [part for part in (changed, ~changed) if part.any()]
    weights = np.zeros(len(actions))
    for part in parts:
        weights[part] = 1 / (len(parts) * part.sum())
    return weights


def guess_choices(inputs: list[Table], choices: list[Choices], unseen: Table, count: int) -> Float[np.ndarray, "n c"]:
    """Logarithms of the odds of every choice, by a linear model; its strength is chosen on one half of the episodes
    after fitting the other, both ways."""
    errors = np.zeros(len(DECAYS))
    halves = [slice(0, None, 2), slice(1, None, 2)]
    if len(inputs) > 1:
        for fitted, checked in (halves, halves[::-1]):
            seen, known = np.concatenate(inputs[checked]), np.concatenate(choices[checked])
            for place, decay in enumerate(DECAYS):
                odds = fit_choices(inputs[fitted], choices[fitted], seen, count, decay)
                errors[place] -= odds[np.arange(len(known)), known].sum()
    return fit_choices(inputs, choices, unseen, count, DECAYS[int(errors.argmin())])


def fit_choices(
    inputs: list[Table], choices: list[Choices], unseen: Table, count: int, decay: float
) -> Float[np.ndarray, "n c"]:
    """The same at one strength: a convex problem, solved by L-BFGS."""
    table = np.concatenate(inputs).astype(np.float64)
    mean, deviation = table.mean(0), table.std(0) + 1e-6
    rows, test = (torch.from_numpy((each - mean) / deviation) for each in (table, unseen.astype(np.float64)))
    truth = torch.from_numpy(np.concatenate(choices))
    # Choices that are never made keep a probability, so that no test is infinitely wrong.
    weight = torch.zeros(rows.shape[1], count, dtype=torch.float64, requires_grad=True)
    shares = torch.bincount(truth, minlength=count).double() + 1
    bias = (shares / shares.sum()).log().requires_grad_()
    optimiser = torch.optim.LBFGS([weight, bias], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = F.cross_entropy(rows @ weight + bias, truth) + decay * weight.square().sum() / 2
        value.backward()
        return value

    optimiser.step(loss)  # type: ignore[arg-type]
    with torch.no_grad():
        return F.log_softmax(test @ weight + bias, 1).numpy()


def motion_of(store: Store, index: int, mover: str, stride: int) -> Float[np.ndarray, "n 2"]:
    """How a kind moves in every transition of an episode; not a number where none is in sight."""
    view = store.episode(index, "view").astype(np.float64)
    things = store.episode(index, "things").astype(np.float64)
    if mover in ("camera", "agent"):
        place = view[:, :2] if mover == "camera" else things[:, 0, 1:3]
        return place[stride:] - place[:-stride]
    kind = store.meta["thing_kinds"].index(mover)
    away = np.abs(things[..., 1:3] - view[:, None, :2]).max(-1)
    shown = (things[..., 0] == kind) & (away < view[:, 2:] / 2)
    count = shown.sum(1)
    total = np.where(shown[..., None], things[..., 3:5], 0).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (total / count[:, None])[:-stride]


def read_movers(
    store: Store, columns: Mapping[str, ByEpisode], pool: Episodes, probes: Episodes, stride: int
) -> dict[str, float]:
    """How much of the motion of every kind a linear probe reads from latents and from their controls."""
    found: dict[str, float] = {}
    tables = {name: [episodes_of(columns[name], name, part, stride) for part in (pool, probes)] for name in READ}
    for mover in MOVERS:
        moves = [[motion_of(store, int(index), mover, stride) for index in part] for part in (pool, probes)]
        seen = [[np.isfinite(rows).all(1) for rows in part] for part in moves]
        enough = min(sum(int(each.sum()) for each in part) for part in seen) >= FEWEST
        truth = np.concatenate([rows[there] for rows, there in zip(moves[1], seen[1], strict=True)])
        for name, (known, unseen) in tables.items():
            end = "" if name == "latents" else f"_{name}"
            score = float("nan")
            if enough and truth.std(0).max() > 0:
                inputs, outputs = (
                    [rows[there] for rows, there in zip(part, seen[0], strict=True) if there.any()]
                    for part in (known, moves[0])
                )
                test = np.concatenate([rows[there] for rows, there in zip(unseen, seen[1], strict=True)])
                score = r2_score(ridge_guess(inputs, outputs, test), truth)
            found[f"{mover}_motion_r2{end}"] = score
    return found


def movers_column(store: Store, known: Episodes, stride: int) -> Store:
    """How every kind moves in every transition, side by side: minus its mean in the known episodes, over its deviation.

    So 0, where none of a kind is in sight, is as good as no guess: a network that reads frames reads all at once.
    """
    means, units = [], []
    for mover in MOVERS:
        rows = np.concatenate([motion_of(store, int(index), mover, stride) for index in known])
        rows = rows[np.isfinite(rows).all(1)]
        means.append(rows.mean(0) if len(rows) else np.zeros(2))
        units.append(max(float(np.sqrt(rows.var(0).mean())), 1e-6) if len(rows) else 1.0)

    def compute(index: int) -> np.ndarray:
        rows = np.zeros((int(store.lengths[index]), len(MOVERS), 2), np.float32)
        for place, mover in enumerate(MOVERS):
            moved = (motion_of(store, index, mover, stride) - means[place]) / units[place]
            rows[: len(moved), place] = np.nan_to_num(moved)
        return rows.reshape(len(rows), -1)

    key = stable_hash(["movers", MOVERS_VERSION, stride, known.tolist()])
    return derive(store, "movers", key, Column("float32", (2 * len(MOVERS),)), compute)


def score_movers(guess: Table, column: Store, store: Store, probes: Episodes, stride: int) -> dict[str, float]:
    """How much of the motion of every kind a guess for held-out episodes tells, wherever one is in sight."""
    truth, found = np.concatenate(episodes_of(column, "movers", probes, stride)), {}
    for place, mover in enumerate(MOVERS):
        moves = np.concatenate([motion_of(store, int(index), mover, stride) for index in probes])
        there, part = np.isfinite(moves).all(1), slice(2 * place, 2 * place + 2)
        known = there.sum() >= FEWEST and truth[there, part].std() > 0
        found[f"{mover}_motion_r2"] = r2_score(guess[there, part], truth[there, part]) if known else float("nan")
    return found
