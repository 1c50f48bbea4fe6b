"""The README and the user guide can be run: every command in them, in a short form, in one empty folder."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from otflam import cli
from otflam.commands import COMMANDS
from otflam.envs.experts import packaged_experts
from otflam.experiments import agents, alignments, innovations, lams, readers, tokenizers, tuning
from otflam.experiments.studies import STUDIES
from otflam.presets import get_preset
from otflam.report.tables import PLACE, fill

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "guide.md", ROOT / "docs" / "experts.md"]
METHODS = sorted((ROOT / "docs" / "methods").glob("*.md"))
SHORT = {
    "demo": {"--preset": "tiny"},
    "collect": {"--episodes": "4", "--steps": "12", "--size": "24", "--workers": "1"},
    "data render": {"--workers": "1"},
    "data mnist": {"--sequences": "21", "--frames": "5"},
    "data textures": {"--episodes": "2", "--frames": "5"},
    "expert train": {"--preset": "tiny", "--decisions": "1000"},
    "expert evaluate": {"--episodes": "1"},
    "reproduce": {"--preset": "tiny", "--workers": "1"},
    "bench": {"--only": "store_over_hdf5"},
    "tokenizer train": {"--preset": "tiny"},
    "tokenizer train-frames": {"--preset": "tiny"},
    **{name: {"--preset": "tiny"} for name in COMMANDS if name.startswith("lam train")},
    "dino encode": {"--size": "28"},
    "policy train": {"--preset": "tiny", "--labels": "1"},
    "policy reference": {"--preset": "tiny", "--labels": "1"},
    "policy run": {"--steps": "5"},
    "evaluate return": {"--episodes": "1", "--steps": "5", "--workers": "1"},
    "evaluate curves": {"--preset": "tiny", "--labels": "1"},
    "export": {"--preset": "tiny"},
    "report": {"--records": str(ROOT / "results" / "records")},
}
"""Options that make a long command short."""
FEWER = {"--episodes": "2", "--labels": "1"}
"""What a command may ask for, if at all, where data are short."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def commands(page: Path) -> list[str]:
    lines = "\n".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()
    return [line.split("  #")[0].strip() for line in lines if line.strip() and not line.startswith("#")]


def shorten(words: list[str]) -> list[str]:
    name, rest = cli.find_command(words)
    assert name is not None, words
    for option, value in FEWER.items():
        if option in rest:
            rest[rest.index(option) + 1] = value
    for option, value in SHORT.get(name, {}).items():
        if option in rest:
            rest[rest.index(option) + 1] = value
        else:
            rest += [option, value]
    return [*name.split(), *rest]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_dino: Callable[..., Path]) -> Path:
    """An empty folder with what the pages say a user brings: a folder of videos with labels for one of them."""
    monkeypatch.chdir(tmp_path)
    # Of the recorded experiments only the first cells: test_experiments.py has the rest.
    for study, some in {tokenizers: slice(1), lams: slice(2, 4), readers: slice(1)}.items():
        monkeypatch.setattr(study, "plan", lambda *words, whole=study.plan, some=some: whole(*words)[some])
    some = dataclasses.replace(STUDIES["transfer"], draw=lambda site: iter(()))  # which needs them all
    monkeypatch.setitem(STUDIES, "transfer", some)
    lapo = [job for job in alignments.plan(get_preset("tiny"), "alignment") if job.method == "lapo-128"][:1]
    for study in (alignments, innovations):
        monkeypatch.setattr(study, "plan", lambda preset, experiment: lapo)
    trial = [job for job in tuning.plan(get_preset("tiny"), "tuning") if job.method == "labels-only"][:1]
    monkeypatch.setattr(tuning, "plan", lambda preset, experiment: trial)
    monkeypatch.setattr(agents, "plan", lambda *words, whole=agents.plan: cheapest(whole(*words)))
    save_dino(tmp_path / "runs" / "dino")
    (tmp_path / "README.md").write_text("<!-- table lam tiny -->\n<!-- end of table -->\n")
    (tmp_path / "my_videos").mkdir()
    for name in ("clip", "clip2", "clip3", "clip4"):
        with av.open(tmp_path / "my_videos" / f"{name}.mp4", "w") as container:
            stream = container.add_stream("mpeg4", rate=10)
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
            for value in range(12):
                picture = np.full((48, 64, 3), 20 * value, np.uint8)
                picture[:, 4 * value : 4 * value + 12] = 200
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
            container.mux(stream.encode())
    (tmp_path / "labels.csv").write_text("video,frame,steer\nclip,4,0.5\nclip,5,-0.5\n")
    return tmp_path


def cheapest(jobs: list[agents.Job]) -> list[agents.Job]:
    """A job that needs no weights of DINO: at best one without any training."""
    return sorted((job for job in jobs if "dino" not in job.method), key=agents.has_lam)[:1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_runs(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_commands(commands(page)) + run_programs(page, folder) >= 3


@pytest.mark.campaign
@pytest.mark.usefixtures("folder")
def test_every_command_of_the_methods_runs() -> None:
    """They go on where the guide ends; test_docs.py checks their options in every run."""
    lines = commands(PAGES[1]) + [line for method in METHODS for line in commands(method)]
    assert run_commands(list(dict.fromkeys(lines))) > len(commands(PAGES[1])) + 10


def run_commands(lines: list[str]) -> int:
    """Run commands in their short form, and say how many."""
    ran = 0
    for line in lines:
        words = shlex.split(line)
        if words[0] == "make":
            subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, check=True, capture_output=True)
        elif words[1:3] == ["dino", "prepare"]:
            # It needs a package of 100 MB: where that is installed, test_features.py runs it.
            cli.parse("dino prepare", words[3:])
        elif words[1:2] == ["hub"]:
            # It needs a hub; test_hub.py has one on this machine.
            cli.parse(" ".join(words[1:3]), words[3:])
        elif "--launcher" in words:
            # It needs a cluster; test_studies.py and test_shards.py send jobs through submitit on this machine.
            name, rest = cli.find_command(words[1:])
            cli.parse(name or "", rest)
        elif words[0] == "otflam":
            cli.main(shorten(words[1:]))
            ran += 1
        else:
            assert words[0] in ("git", "cd", "pip"), line
    return ran


def run_programs(page: Path, folder: Path) -> int:
    """Run the Python of a page, and say how many programs."""
    programs = blocks(page, "python")
    for program in programs:
        subprocess.run([sys.executable, "-c", program], check=True, cwd=folder)
    return len(programs)


def test_readme_prints_the_tree_as_it_is() -> None:
    tree = blocks(ROOT / "README.md", "text")[0]
    shown = set(re.findall(r"^\s+(\w+)/\s", tree, re.MULTILINE))
    assert shown == {path.parent.name for path in (ROOT / "src" / "otflam").glob("*/__init__.py")}


RESULTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "results").glob("*.md"))


@pytest.mark.parametrize("page", ["README.md", *RESULTS, "docs/benchmarks.md", "docs/methods/README.md"])
def test_tables_come_from_the_records(page: str) -> None:
    text = (ROOT / page).read_text()
    # The only page without a table of its own shows a figure, and says what is still to be recorded.
    assert PLACE.findall(text) or page == "docs/results/labels.md"
    assert fill(text, ROOT / "results" / "records") == text, f"run 'otflam tables {page}'"
    # The guide's commands are run above; these pages may only repeat them.
    assert page not in RESULTS or set(commands(ROOT / page)) <= set(commands(ROOT / "docs" / "guide.md"))


def test_every_page_of_results_is_summed_up() -> None:
    told = (ROOT / "docs" / "results.md").read_text()
    assert len(RESULTS) == 7 and all(f"({page.removeprefix('docs/')})" in told for page in RESULTS)


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 160


def test_numbers_in_the_pages_come_from_the_records() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    bench = json.loads((ROOT / "results" / "bench.json").read_text())
    for name, row in bench.items():
        assert f"`{name}` | {row['value']:.3g}" in text, f"docs/benchmarks.md has another {name}"
    text = (ROOT / "docs" / "experts.md").read_text()
    experts = json.loads((ROOT / "results" / "experts.json").read_text())
    assert set(experts) == set(packaged_experts())
    for record in experts.values():
        for policy in ("expert", "random", "zero"):
            assert f"{record[policy]['mean']:.1f} ± {record[policy]['deviation']:.1f}" in text
