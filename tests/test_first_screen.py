"""The first screen of the page: its sentence and chart follow from records, its film shows an agent and the expert."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from PIL import Image

from otflam.core.config import Hardware
from otflam.core.progress import SILENT
from otflam.data.store import Store
from otflam.policy.train import AgentPlan, train_reference
from otflam.presets import get_preset
from otflam.report.consequences import FOLLOWS
from otflam.report.evidence import FIGURES_OF, STUDIES_OF
from otflam.report.example import draw_clip, read_clip
from otflam.report.figures import FIGURES
from otflam.report.films import FILM_FRAMES, FILM_SIDE
from otflam.report.first_film import first_film
from otflam.report.headline import answered, make_chart, make_headline, said_of
from otflam.report.runs import find_runs
from otflam.report.tables import TABLES
from otflam.report.verdicts import JUDGES, verdicts_by_topic
from otflam.tokenizer.build import train_tokenizer

RECORDED = Path(__file__).parents[1] / "results" / "records"
TINY = get_preset("tiny")


def write(folder: Path, method: str, share: float, seeds: int = 3, labels: int = 8, preset: str = "laptop") -> None:
    """What a row earned from recorded states, as a share of the way to the expert, the same but for a little noise."""
    cell = json.loads((RECORDED / "control-idm-cheetah-run-noisy-labels8-laptop-seed0.json").read_text())
    for seed in range(seeds):
        returns = [10 * (share + 0.001 * (seed + part)) for part in range(6)]
        metrics: dict[str, Any] = {"returns": returns, "start_returns": returns}
        metrics |= {"start_zero": [0.0] * 6, "start_expert": [10.0] * 6}
        facts = {"method": method, "preset": preset, "seed": seed, "labels": labels, "metrics": metrics, "digest": None}
        (folder / f"control-{method}-{labels}-{preset}-{seed}.json").write_text(json.dumps(cell | facts))


@pytest.mark.parametrize(
    ("latents", "guessed", "said"),
    [
        (0.2, 0.6, "latent actions do not beat CLONING; an inverse dynamics model does."),
        (0.2, 0.3, "latent actions do not beat CLONING; an inverse dynamics model does not either."),
        (0.7, 0.3, "latent actions beat CLONING; an inverse dynamics model does not."),
    ],
)
def test_the_sentence_follows_from_the_numbers(tmp_path: Path, latents: float, guessed: float, said: str) -> None:
    for method, share in {"labels-only": 0.5, "lapo-256": latents, "idm": guessed, "all-actions": 0.9}.items():
        write(tmp_path, method, share, labels=0 if method == "all-actions" else 8)
    told = make_headline(tmp_path, "laptop", []).sentence.replace("cloning a few labelled episodes alone", "CLONING")
    assert told == f"With distractors, {said}"
    chart = make_chart(tmp_path, "laptop")
    assert chart is not None and chart.worlds == ["cheetah-run"]
    ends = {name: bar.end for name, _, (bar,) in chart.rows if bar is not None}
    assert list(ends) == ["labels-only", "idm", "lapo-256", "all-actions"]
    assert ends["lapo-256"] == pytest.approx(100 * latents, abs=1) and ends["all-actions"] == pytest.approx(90, abs=1)


def test_fewer_seeds_say_nothing_and_a_demo_says_what_it_is(tmp_path: Path) -> None:
    for method in ("labels-only", "lapo-256"):
        write(tmp_path, method, 0.5, seeds=2)
        write(tmp_path, method, 0.5, seeds=1, preset="demo")
    assert make_headline(tmp_path, "laptop", []).sentence == "No claim has been measured yet."
    found = make_headline(tmp_path, "demo", [])
    assert "1 latent action method and 2 measured results" in found.sentence and "mean little" in found.detail
    assert make_chart(tmp_path, "demo") is not None and make_chart(tmp_path, "paper") is None


def test_the_recorded_sentence_counts_what_is_recorded() -> None:
    """Its comparisons are those of the rows with three seeds; counted here from the files."""
    keys: dict[tuple, int] = {}
    for path in RECORDED.glob("control-*-laptop-*.json"):
        record = json.loads(path.read_text())
        if not record["task"].endswith("-vanilla") and not record.get("codes") and "start_returns" in record["metrics"]:
            key = (record["task"], record["labels"], record["method"])
            keys[key] = keys.get(key, 0) + 1
    rows = [key for key, seeds in keys.items() if seeds >= 3 and keys.get((*key[:2], "labels-only"), 0) >= 3]
    latents = [key for key in rows if key[2].startswith(("lapo", "otf"))]
    assert f"of {len(latents)} comparisons" in make_headline(RECORDED, "laptop", []).detail and len(latents) > 5


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1), st.lists(st.sampled_from([-1, 0, 1]), min_size=1))
def test_the_verb_never_claims_more_than_the_comparisons(sides: list[int], others: list[int]) -> None:
    said, reply = said_of(sides, "it"), answered(sides, others)
    assert ("do not beat" in said) == (1 not in sides)
    assert (said == "beat it") == (set(sides) == {1})
    assert ("lose" in said) == (1 in sides and -1 in sides)
    assert reply.startswith("does not") == (1 not in others) and (reply == "does") == (set(others) == {1})


def test_every_measured_claim_has_three_sentences() -> None:
    measured = [
        v for found in verdicts_by_topic(RECORDED, "laptop").values() for v in found if v.status != "unmeasured"
    ]
    assert len(measured) > 20
    for verdict in measured:
        assert verdict.kind in FOLLOWS and verdict.follows in FOLLOWS[verdict.kind]
        assert 20 < len(verdict.short) <= max(160, len(verdict.ours)) and not verdict.short.endswith(".")
    for texts in FOLLOWS.values():
        assert len(set(texts)) == 3 and all(re.fullmatch(r"[A-Z][^.]+\.", text) for text in texts)


def test_figures_and_tables_have_one_topic_each() -> None:
    drawn = [name for names in FIGURES_OF.values() for name in names]
    studies = [name for names in STUDIES_OF.values() for name in names]
    assert sorted(drawn) == sorted(FIGURES) and len(set(studies)) == len(studies)
    assert {table.study for table in TABLES.values()} <= set(studies)
    assert list(FIGURES_OF) == list(STUDIES_OF) == list(JUDGES)


def frames_of(uri: str) -> tuple[int, tuple[int, int]]:
    with Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))) as picture:
        return getattr(picture, "n_frames", 1), picture.size


def test_an_agent_plays_beside_the_expert(noisy_store: Store, tmp_path: Path) -> None:
    """Of several agents that with most labels; without any the film is of the data set."""
    (tmp_path / "data").symlink_to(noisy_store.path)
    cpu = Hardware(accelerator="cpu")
    train_tokenizer(noisy_store, [0, 1], TINY.tokenizer, TINY.tokenizer_training, cpu, tmp_path / "otf")
    shown = [*find_runs(tmp_path, SILENT)]
    film = first_film(tmp_path, shown, SILENT)
    assert (
        film is not None and film.parts == ("Video", "Its motion codes") and "no model was trained on" in film.caption
    )
    for labels in (1, 2):
        plan = AgentPlan(noisy_store, labels, TINY.policy.seeded(0), cpu, tmp_path / f"agent{labels}")
        train_reference(plan, "labels-only")
    film = first_film(tmp_path, shown, SILENT)
    assert film is not None and "labels-only, 2 labelled episodes" in film.caption
    assert [part.partition(":")[0] for part in film.parts] == ["labels-only", "expert"]
    earned = [float(part.rpartition(" ")[2]) for part in film.parts]
    assert earned[1] > earned[0]  # the expert runs
    count, (width, height) = frames_of(film.src)
    assert count == FILM_FRAMES and height == FILM_SIDE and (width, height) == (film.width, film.height)
    assert frames_of(film.still)[0] == 1


def test_the_example_is_what_its_command_draws(tmp_path: Path) -> None:
    """But for compression, and for the last bits of another machine's renderer."""
    drawn = draw_clip(tmp_path / "clip.webp")
    assert drawn.stat().st_size < 300_000
    with Image.open(drawn) as picture:
        again = np.asarray(picture.convert("RGB")).astype(int)
    frames = read_clip()
    sheet = np.concatenate([np.concatenate(list(row), 1) for row in frames.reshape(8, 12, *frames.shape[1:])])
    assert np.abs(sheet - again).mean() < 4
