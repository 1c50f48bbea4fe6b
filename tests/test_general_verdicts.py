"""The verdicts and tables on the general vocabulary follow from their records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otflam.evaluate.records import Cell, write_record
from otflam.report.general import judge_general, latents_table, left_out_table

NOISY = "cheetah-run-noisy"


def record(folder: Path, experiment: str, method: str, task: str, seed: int, metrics: Any, **extra: int) -> None:
    cell = Cell(experiment, method, task, "laptop", seed, {}, "", {}, None, extra)
    write_record(folder, cell, metrics, 1.0, "otflam x")


def vocabularies(folder: Path, rises: dict[str, float], method: str = "otf") -> None:
    """Each domain's own vocabulary, and that of all others, which is so many times worse there, or not recorded."""
    errors = {f"nmse_{domain}": 0.2 for domain in rises} | {"nmse": 0.2}
    record(folder, "general", method, "all", 0, dict.fromkeys(errors, 0.1), codes=256)
    for domain, rise in rises.items():
        record(folder, "general", method, domain, 0, errors, codes=64)
        if rise:
            without = errors | {f"nmse_{domain}": 0.2 * rise}
            record(folder, "general", method, f"all-but-{domain}", 0, without, codes=64)


@pytest.mark.parametrize(
    ("rises", "status"),
    [
        ({"games": 1.2, "digits": 1.1, "bodies": 2.0}, "holds"),
        ({"games": 1.3, "digits": 1.1, "bodies": 2.0}, "fails"),
        ({"games": 1.2, "digits": 1.1, "bodies": 0}, "open"),
        ({"games": 0}, "unmeasured"),
    ],
)
def test_a_domain_that_was_left_out(tmp_path: Path, rises: dict[str, float], status: str) -> None:
    vocabularies(tmp_path, rises)
    vocabularies(tmp_path, dict.fromkeys(rises, 9.0), "monolithic")  # judged is OTF alone
    found = judge_general(tmp_path, "laptop")[0]
    assert found.status == status and (status == "unmeasured") == (not found.follows)
    rows = [row for row in left_out_table(tmp_path, "laptop")[1] if row[1] == "otf"]
    assert len(rows) == len(rises)
    assert {row[0]: row[-1] for row in rows} == {
        domain: f"{100 * (rise - 1):+.0f}" if rise else "–" for domain, rise in rises.items()
    }


@pytest.mark.parametrize(
    ("gap", "noise", "status"),
    [(0.0, 0.001, "holds"), (-0.1, 0.001, "holds"), (0.03, 0.001, "fails"), (0.009, 0.01, "open")],
)
def test_latent_actions_on_the_packaged_vocabulary(tmp_path: Path, gap: float, noise: float, status: str) -> None:
    assert judge_general(tmp_path, "laptop")[1].status == "unmeasured" and not latents_table(tmp_path, "laptop")[1]
    own = [0.4 + noise * part for part in (-1, 0, 1, 0.5)]
    other = [error + gap + noise * part for error, part in zip(own, (1, 0, -1, 0.5), strict=True)]
    kinds = (("alignment", "otf-lam-pixel", own), ("general-lam", "otf-lam-pixel+general", other))
    for experiment, method, errors in kinds:
        for seed in (0, 1):
            metrics = {"episode_mse": errors, "action_mse": sum(errors) / 4, "action_r2": 0.1}
            record(tmp_path, experiment, method, NOISY, seed, metrics, labels=8)
    record(tmp_path, "alignment", "otf-lam-pixel", NOISY, 0, {"episode_mse": [9.0] * 4}, labels=8, codes=16)
    assert judge_general(tmp_path, "laptop")[1].status == status
    ((task, labels, *numbers),) = latents_table(tmp_path, "laptop")[1]
    assert (task, labels) == (NOISY, "8") and float(numbers[2].split()[0]) == pytest.approx(gap + noise / 8, abs=1e-4)
