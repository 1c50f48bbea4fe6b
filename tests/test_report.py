"""The report: what is in it, that it needs nothing else, and what it shows where there is little."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from otflam.commands.report import Report
from otflam.core.errors import UserError
from otflam.core.progress import SILENT, Progress
from otflam.data.store import Store
from otflam.experiments.studies import STUDIES
from otflam.presets import get_preset
from otflam.report.example import NAME as NAME_OF_EXAMPLE
from otflam.report.explorer import make_explorer
from otflam.report.page import make_page
from otflam.report.runs import find_runs
from otflam.report.tables import TABLES
from otflam.report.verdicts import Verdict

TINY = get_preset("tiny")
RECORDS = Path(__file__).parents[1] / "results" / "records"
NAME = "squares & <b>"
"""A data set whose name must be escaped."""
EVIL = "<script>alert(1)</script>"


def test_the_page_holds_everything_it_shows(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r'\b(?:src|href|srcset|action|data)="([^"]*)"', text)
    assert len(targets) > 5 and all(target.startswith(("data:", "#")) for target in targets)
    assert "default-src 'none'" in text and "script-src &#39;sha256-" in text  # the browser itself refuses the rest
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert len(style) == 1 and "@import" not in style[0] and "url(" not in style[0]
    assert [path.name for path in page.parent.iterdir()] == ["index.html"] and page.stat().st_size < 12e6
    assert all(len(words) > 20 for words in re.findall(r'<img [^>]*alt="([^"]*)"', text))


def test_what_is_in_the_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    record = json.loads(next(RECORDS.glob("transfer-*.json")).read_text())
    assert f"torch {record['versions']['torch']}" in text and "<dd>laptop</dd>" in text
    assert "otflam reproduce transfer --preset laptop" in text and "otflam reproduce lam --preset laptop" in text
    assert "Monolithic minus OTF, paired by seed" in text and "which calls the rise a drop" in text
    assert "What do agents earn" not in text  # tables without rows are left out
    assert {table.study for table in TABLES.values()} <= STUDIES.keys()  # commands that exist
    inside = re.findall(r'id="figure-inside-\d">\s*<div class="paper"[^>]*>\s*<img src="data:image/webp', text)
    assert len(inside) == 2 and "flam-4 on squares &amp; &lt;b&gt;: frames of" in text and "hilam on squares" in text
    assert re.search(r'class="pill (holds|fails|open|unmeasured)"', text)


def test_text_is_escaped(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert data and json.loads(data[1])[0]["name"] == NAME and "<" not in data[1]
    record = json.loads((RECORDS / "lam-lapo-256-cheetah-run-noisy-laptop-seed0.json").read_text())
    (tmp_path / "evil.json").write_text(json.dumps(record | {"method": EVIL}))
    monkeypatch.setattr("otflam.report.evidence.sketch_figures", lambda records, size: [])
    evil = Verdict(EVIL, EVIL, EVIL, "open", EVIL)
    monkeypatch.setattr("otflam.report.page.verdicts_by_topic", lambda *_: {EVIL: [evil]})
    text = make_page(None, tmp_path, "laptop", tmp_path / "out").read_text(encoding="utf-8")
    assert EVIL not in text and text.count("&lt;script&gt;alert(1)") == 6
    assert text.count("<script") == 2  # the data and the program


def test_same_inputs_same_bytes(runs: Path, page: Path, tmp_path: Path) -> None:
    again = make_page(runs, runs / "records", "laptop", tmp_path)
    assert again.read_bytes() == page.read_bytes()


def test_the_command(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Report(runs, tmp_path, preset="tiny").run()  # no records of it, but an explorer
    told = capsys.readouterr().out
    assert f"wrote {tmp_path / 'index.html'}" in told and "otf-lam-pixel, lapo-256" in told
    assert "no records of the preset tiny" in (tmp_path / "index.html").read_text(encoding="utf-8")
    with pytest.raises(UserError, match="did you mean 'laptop'"):
        Report(runs, tmp_path, preset="lapto").run()


def test_the_explorer_shows_held_out_frames_as_they_are(runs: Path) -> None:
    (_, shown), *others = make_explorer(find_runs(runs, SILENT))
    episode = shown.episodes[0]
    assert shown.name == NAME and others == []
    assert [each.number for each in shown.episodes] == [2, 3] and episode.held_out
    assert [each.method for each in episode.predictions] == ["otf-lam-pixel", "lapo-256"]
    frames = Store(runs / "data" / NAME).episode(2, "frames").astype(float) / 255
    for stride, copied in episode.copied.items():
        now = frames[episode.first : episode.first + episode.count]
        later = frames[episode.first + stride : episode.first + stride + episode.count]
        np.testing.assert_allclose(copied, np.square(later - now).mean((1, 2, 3)), rtol=1e-3)
    assert all(len(each.errors) == episode.count for each in episode.predictions)


def test_models_that_cannot_be_shown(runs: Path, tmp_path: Path) -> None:
    """The best of several trainings is shown; a broken one is left out, and without any the tokenizer remains."""
    shutil.copytree(runs / "data", tmp_path / "data")
    shutil.copytree(runs / "otf", tmp_path / "otf")
    told: list[str] = []

    class Heard(Progress):
        def note(self, text: str) -> None:
            told.append(text)

    only = next(find_runs(tmp_path, Heard()))
    assert not only.models and only.held_out == [2, 3] and not told
    for name, error in {"good": 0.2, "broken": 0.1}.items():
        shutil.copytree(runs / "lams" / "lapo-256", tmp_path / name)
        (tmp_path / name / "health.json").write_text(json.dumps({"error": error}))
        (tmp_path / name / "digest.json").unlink()  # it would tell that the health was altered
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"nothing")
    assert list(next(find_runs(tmp_path, Heard())).models) == ["lapo-256"]
    assert len(told) == 1 and told[0].startswith("left out broken: ")


def test_records_alone_show_the_example(runs: Path, tmp_path: Path) -> None:
    text = make_page(None, runs / "records", "laptop", tmp_path).read_text(encoding="utf-8")
    data = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    (shown,) = json.loads(data[1])
    assert shown["name"] == NAME_OF_EXAMPLE and shown["episodes"][0]["count"] > 60
    assert 'id="figure-first-film"' in text and "the example that comes with the package" in text
    order = [text.index(f'<section id="{name}"') for name in ("explorer", "claims", "evidence", "about")]
    assert text.index("<h1>") < text.index('id="figure-first-film"') < order[0] and order == sorted(order)


def test_what_the_size_of_a_demo_means(runs: Path, tmp_path: Path) -> None:
    """No verdicts are counted where they mean nothing, and the page says so."""
    for path in (runs / "records").glob("lam-*"):
        (tmp_path / path.name).write_text(json.dumps(json.loads(path.read_text()) | {"preset": "demo", "digest": None}))
    text = make_page(None, tmp_path, "demo", tmp_path / "out").read_text(encoding="utf-8")
    assert "Made at demo size in minutes: it shows that everything runs" in text and "docs/results.md" in text
    assert 'class="tally"' not in text and "Claims without records" not in text
    claims = text[text.index('<section id="claims"') : text.index('<section id="evidence"')]
    assert claims.index("<details") < claims.index('class="card verdict"')  # behind a fold


def test_data_without_records_have_a_name_and_no_claims(runs: Path, tmp_path: Path) -> None:
    text = make_page(runs, tmp_path, "laptop", tmp_path, title="My <videos>").read_text(encoding="utf-8")
    assert "<title>My &lt;videos&gt; (otflam report)</title>" in text and "<h1>What moves in squares &amp;" in text
    assert 'id="claims"' not in text and "Agent Ambiguity" not in text and 'id="figure-first-film"' in text
