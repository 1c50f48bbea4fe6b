"""What records say together: chosen, grouped, averaged over seeds, and compared in the same episodes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from otflam.evaluate.names import BASELINE, OURS, USUAL_CODES, VANILLA, task_of
from otflam.evaluate.records import read_records
from otflam.evaluate.stats import Estimate, estimate, paired

Record = dict[str, Any]
Records = list[Record]
SAME = 1e-6
"""Differences of R² below which two probes learned from the same episodes."""


def chosen(folder: Path, experiment: str, preset: str) -> Records:
    """The records of an experiment at one preset."""
    return [record for record in read_records(folder, experiment) if record["preset"] == preset]


def models(folder: Path, preset: str) -> Records:
    """Records of latent action models. Those that hear labels are named with how many, and equal ones count once."""
    found: dict[tuple, Record] = {}
    for record in chosen(folder, "lam", preset):
        heard = f" ({record['labels']})" if record.get("labels") else ""
        key = (record["task"], record["method"] + heard, record["config_hash"] if heard else record["seed"])
        found.setdefault(
            (*key, record.get("backbone"), record.get("codes")), record | {"method": record["method"] + heard}
        )
    return list(found.values())


def distracted(folder: Path, experiment: str, preset: str) -> Records:
    """The same with distractors, each with its task as `base` and with `codes`, 0 for the usual vocabulary."""
    found = (record for record in chosen(folder, experiment, preset) if not record["task"].endswith(VANILLA))
    return [record | {"base": task_of(record["task"]), "codes": record.get("codes", 0)} for record in found]


def sized(records: Records) -> Records:
    """Records in which the usual vocabulary has its number, for methods that have a vocabulary."""
    return [r | {"codes": (r["codes"] or USUAL_CODES) if r["method"] in OURS else 0} for r in records]


def usual(records: Iterable[Record]) -> Records:
    """Records with the preset's vocabulary: other sizes are methods of their own."""
    return [record for record in records if not record.get("codes")]


def complete(records: Iterable[Record], *metrics: str) -> Records:
    """Records that have all of these numbers: those that are not finite are written as none."""
    return [record for record in records if all(record["metrics"].get(metric) is not None for metric in metrics)]


def group(records: Iterable[Record], *keys: str) -> dict[tuple, Records]:
    """Records by the values of some fields, in the order of their first appearance."""
    groups: dict[tuple, Records] = {}
    for record in records:
        groups.setdefault(tuple(record[key] for key in keys), []).append(record)
    return groups


def main_budget(records: Records) -> int:
    """The budget of labels at which most methods are recorded, the smallest of equals; 0 if there is none."""
    methods: dict[int, set[str]] = {}
    for record in records:
        if record["labels"]:
            methods.setdefault(record["labels"], set()).add(record["method"])
    return min(methods, key=lambda labels: (-len(methods[labels]), labels), default=0)


def values(records: Records, metric: str) -> list[float]:
    """A number of each record that has it."""
    found = [record["metrics"].get(metric) for record in records]
    return [float(value) for value in found if value is not None]


def over(records: Records, metric: str, scale: float = 1.0) -> Estimate | None:
    """Mean and interval of a number over the records that have it."""
    found = [scale * record["metrics"][metric] for record in records if record["metrics"].get(metric) is not None]
    return estimate(found) if found else None


@dataclass(frozen=True)
class Earned(Estimate):
    """Returns of one method."""

    seeds: tuple[float, ...]
    """Mean return of each seed."""

    @property
    def high(self) -> float:
        return self.mean + self.half

    def times(self, factor: float) -> Earned:
        seeds = tuple(factor * seed for seed in self.seeds)
        return Earned(factor * self.mean, factor * self.half, self.count, seeds)

    def __str__(self) -> str:
        return self.text(1)


def earned(records: Records) -> Earned:
    """What the seeds of one method earned."""
    means = [float(np.mean(record["metrics"]["returns"])) for record in records]
    found = estimate(means)
    return Earned(found.mean, found.half, found.count, tuple(means))


def mean_return(records: Records) -> float:
    return sum(record["metrics"]["return_mean"] for record in records) / len(records)


def share_of_bound(records: Records, bound: Records) -> float | None:
    """Mean return in % of that of a bound in the same world, if it has one."""
    return 100 * mean_return(records) / mean_return(bound) if bound else None


def best_by_return(records: Records) -> Records:
    """The paper's rule, marked: of several sizes of the vocabulary the one that earned most in these very episodes."""
    marked = []
    for found in group(records, "task", "labels", "method").values():
        sizes = group([{"codes": 0} | record for record in found], "codes")
        if len(sizes) > 1:
            best = max(sizes.values(), key=mean_return)
            marked += [record | {"method": f"{record['method']}, best K by return *"} for record in best]
    return marked


def returns_of(record: Record) -> list[float]:
    """Returns of the episodes that all methods meet."""
    return record["metrics"]["returns"]


def starts_of(record: Record) -> list[float]:
    """Shares of the way from floor to ceiling that each held-out episode's stretches earn."""
    metrics = record["metrics"]
    reached, floor, ceiling = (np.array(metrics[f"start_{name}"]) for name in ("returns", "zero", "expert"))
    return ((reached - floor) / (ceiling - floor).mean()).tolist()


def difference(
    ours: Records, theirs: Records, read: Callable[[Record], Sequence[float]], comparisons: int = 1
) -> Estimate | None:
    """Ours minus theirs in the same episodes, seed by seed."""
    other = {record["seed"]: read(record) for record in theirs}
    pairs = [(read(record), other[record["seed"]]) for record in ours if record["seed"] in other]
    gaps = [np.subtract(*both).tolist() for both in pairs if len(both[0]) == len(both[1])]
    return paired(gaps, comparisons) if gaps else None


def paired_tokenizers(records: Records) -> tuple[Records, Records]:
    """Records of OTF and of the monolithic tokenizer at the same seeds; records are of one transfer and one order."""
    by = {(record["method"], record["seed"]): record for record in records}
    seeds = [seed for method, seed in by if method == "otf" and ("monolithic", seed) in by]
    return [by["otf", seed] for seed in seeds], [by["monolithic", seed] for seed in seeds]


def seed_gap(ours: Records, theirs: Records, metric: str) -> Estimate:
    """Theirs minus ours of one number, seed by seed."""
    return estimate([b["metrics"][metric] - a["metrics"][metric] for a, b in zip(ours, theirs, strict=True)])


@dataclass(frozen=True)
class Gap:
    """A method's decoding error minus the baseline's."""

    error: Estimate
    """Over held-out episodes."""
    draws: int
    """Draws of labels that each episode is averaged over."""


def decoding_gap(records: Records, method: str, comparisons: int = 1) -> Gap | None:
    """Both errors on each held-out episode, paired by draw of labels; records are of one data set and one budget."""
    by = {(r["method"], r["seed"]): np.array(r["metrics"]["episode_mse"]) for r in records}
    gaps = [by[method, s] - by[BASELINE, s] for name, s in by if name == method and (BASELINE, s) in by]
    return Gap(estimate(np.mean(gaps, 0).tolist(), comparisons), len(gaps)) if gaps else None


def network_gap(records: Records, method: str) -> float:
    """A network's decoding error minus that from the baseline's latents, over the draws of labels; 0 if unknown."""
    errors = [values([r for r in records if r["method"] == name], "mlp_mse") for name in (method, BASELINE)]
    return float(np.mean(errors[0]) - np.mean(errors[1])) if all(errors) else 0.0


def over_draws(gains: list[float]) -> Estimate:
    """Mean and interval over draws of labels; none if some are the same draw, which would look like certainty."""
    repeated = any(abs(one - other) <= SAME for one, other in itertools.combinations(gains, 2))
    found = estimate(gains)
    return Estimate(found.mean, math.inf, found.count) if repeated else found


def control_mse(record: Record, metric: str) -> float:
    """The error of a control, of which records hold R² only: the latents' R² and error tell the actions' variance."""
    known = record["metrics"]
    return known["action_mse"] * (1 - known[metric]) / (1 - known["action_r2"])


def share_of(records: Records, ceiling: str) -> Estimate | None:
    """The share of a ceiling in %, where that is surely above 0."""
    metrics = records[0]["metrics"]
    if metrics.get(ceiling) is None or metrics[f"{ceiling}_interval"][0] <= 0:
        return None
    return over(records, "innovation_r2", 100 / metrics[ceiling])


def chosen_weight(records: Iterable[Record]) -> float | None:
    """The weight of heard labels whose trials tell most of actions, by the mean over methods and data sets."""
    told: dict[float, list[float]] = {}
    for record in records:
        told.setdefault(record["weight"], []).append(record["metrics"]["action_r2"])
    return max(told, key=lambda weight: (sum(told[weight]) / len(told[weight]), -weight), default=None)


def chosen_steps(records: Iterable[Record]) -> dict[str, dict[int, int]]:
    """By row and budget: the steps with the greatest return, each task counted as a share of its trials' mean."""
    returns: dict[tuple[str, int], dict[str, dict[int, float]]] = {}
    for record in records:
        row = returns.setdefault((record["method"], record["labels"]), {})
        row.setdefault(record["task"], {})[record["steps"]] = record["metrics"]["return_mean"]
    found: dict[str, dict[int, int]] = {}
    for (method, labels), tasks in sorted(returns.items()):
        shares = {
            steps: sum(tried[steps] / (sum(tried.values()) / len(tried)) for tried in tasks.values())
            for steps in set.intersection(*(set(tried) for tried in tasks.values()))
        }
        found.setdefault(method, {})[labels] = max(shares, key=lambda steps: (shares[steps], -steps))
    return found
