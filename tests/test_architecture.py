"""What we care about in the code base and a machine can check."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest

from otflam.data.options import Collection, MovingMNIST, VideoImport
from otflam.envs.recipe import Recipe
from otflam.envs.world import World
from otflam.presets import Preset

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "otflam").rglob("*.py"))
STAGES = [
    "core",
    "envs",
    "data",
    "motion",
    "tokenizer",
    "lam",
    "policy",
    "evaluate",
    "report",
    "experiments",
    "commands",
]
CONFIGS = [World, Recipe, Collection, VideoImport, MovingMNIST, Preset]
LONG = {
    "tests/test_importers.py": "two importers and every way their files can be broken",
    "tests/test_moving_mnist.py": "four digit formats and every way their files can be broken",
}
"""Files over 300 lines, each with its reason."""


def stage(path: Path) -> str:
    """The stage of a file; files beside the stages may use all of them."""
    parts = path.relative_to(ROOT / "src" / "otflam").parts
    return parts[0] if len(parts) > 1 else ""


def imports(path: Path) -> set[str]:
    """Our own modules that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names.add(node.module or "")
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.split(".")[0] == "otflam"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src" / "otflam")))
def test_data_moves_one_way(path: Path) -> None:
    """A file imports its own stage and those to its left; core imports nothing of ours."""
    if not (here := stage(path)):
        return
    assert here in STAGES, f"{here} is no stage"
    for name in imports(path):
        there = name.split(".")[1]
        if there == "presets":
            assert here in ("experiments", "commands"), f"{path} reads presets: pass the values instead"
        else:
            assert STAGES.index(there) <= STAGES.index(here), f"{here} must not import {name}"


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
def test_every_config_field_is_read(config: type) -> None:
    text = "\n".join(path.read_text() for path in SOURCES)
    for field in dataclasses.fields(config):
        assert re.search(rf"\.{field.name}\b(?!\s*=[^=])", text), f"nobody reads {config.__name__}.{field.name}"


def test_long_files_have_a_reason() -> None:
    files = [*SOURCES, *(ROOT / "tests").glob("*.py")]
    long = {str(path.relative_to(ROOT)) for path in files if len(path.read_text().splitlines()) > 300}
    assert long == set(LONG), f"files over 300 lines: {sorted(long)}"


def test_one_place_for_printing_and_for_stepping() -> None:
    def users(pattern: str) -> set[str]:
        return {path.stem for path in SOURCES if re.search(pattern, path.read_text())}

    assert users(r"^\s*print\(") <= {"cli", "progress"} | users(r'"""[^"]*\n\s*print\(')
    assert users(r"\b(env|simulation|envs\[\d\])\.step\(") == {"rollout", "sac", "suite", "bench"}
    assert users(r"\.optimi[sz]er.*\.step\(|optimisers\[.*\]\.step\(") == {"sac"}


def test_every_module_says_what_it_is() -> None:
    for path in SOURCES:
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


def test_no_registry_host_and_no_path_of_a_machine() -> None:
    """Names of package hosts and of home folders do not belong into the repository."""
    names = [
        *SOURCES,
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("*.toml"),
        *ROOT.glob("*.txt"),
        ROOT / "Makefile",
    ]
    for path in names:
        found = re.search(r"files\.pythonhosted|pypi\.org|deb\.debian|registry\.npm|/root/|/home/\w", path.read_text())
        assert not found, f"{path} names {found and found[0]}"
