"""What we care about in the code base and a machine can check."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
import typing
from collections.abc import Iterable
from pathlib import Path

import pytest

from otflam.commands import COMMANDS
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
LONG = {
    "tests/test_importers.py": "two importers and every way their files can be broken",
    "tests/test_moving_mnist.py": "four digit formats and every way their files can be broken",
}
"""Files over 300 lines, each with its reason."""
STEPPING = ("ppo", "rival", "rollout", "sac", "suite")
"""Files of worlds that step them: episodes, what is inside of a world, and the training of experts."""


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


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src" / "otflam")))
def test_stages_meet_at_their_surface(path: Path) -> None:
    """A file imports another stage's package, never a file inside it."""
    for name in imports(path):
        if len(parts := name.split(".")) > 2 and parts[1] not in (stage(path), "commands"):
            assert name == "otflam.core.surface", f"{path}: import from otflam.{parts[1]}, not from {name}"


def test_what_a_stage_offers_is_there_and_is_wanted() -> None:
    """Every name in the stub of a package can be imported, and somebody outside imports it."""
    wanted: set[tuple[str, str]] = set()
    for path in [*SOURCES, ROOT / "src" / "otflam" / "__init__.pyi"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[1:2] != [stage(path)]:
                wanted |= {(node.module or "", alias.name) for alias in node.names}
    for name in STAGES[:-1]:
        package = importlib.import_module(f"otflam.{name}")
        offered = dir(package)
        assert all(getattr(package, each) is not None for each in offered)
        assert {each for each in offered if (package.__name__, each) not in wanted} == set(), package.__name__


def test_wiring_is_sparse() -> None:
    """Own imports a file, a stage's surface counted as one of them."""
    counts = {path: len(imports(path) - {"otflam"}) for path in SOURCES if len(path.read_text().splitlines()) > 5}
    wide = [str(path.relative_to(ROOT)) for path, count in counts.items() if count >= 8]
    assert sum(counts.values()) / len(counts) <= 4.5 and len(wide) <= 20, sorted(wide)


def config_classes(kinds: Iterable[type]) -> set[type]:
    """Dataclasses, and those inside them: every configuration that a command can be given."""
    found = set(kinds)
    for kind in kinds:
        hints = typing.get_type_hints(kind)  # those that are inherited are of another module
        found |= config_classes([hint for hint in hints.values() if dataclasses.is_dataclass(hint)])
    return found


def read_attributes() -> set[str]:
    """Names that some code reads as an attribute of something that is not a module, a call or a literal."""
    names = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            owner = node.value if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) else None
            if isinstance(owner, ast.Attribute | ast.Name) and isinstance(node, ast.Attribute):
                last = owner.attr if isinstance(owner, ast.Attribute) else owner.id
                names.add((last, node.attr))
    return {name for last, name in names if last in HOLDERS}


HOLDERS = {
    *("self", "config", "cfg", "world", "collection", "collected", "plan", "recipe", "options", "level"),
    *("motion", "codebook", "decoder", "train", "hardware", "cluster"),
}
"""What our code calls the objects that hold configuration."""


def test_every_config_field_is_read() -> None:
    read, kinds = read_attributes(), config_classes(COMMANDS.values())
    assert {World, Recipe, Collection, VideoImport, MovingMNIST} <= kinds
    for kind in kinds:
        for field in dataclasses.fields(kind):
            assert field.name in read, f"nobody reads {kind.__name__}.{field.name}"
    text = "\n".join(path.read_text() for path in SOURCES)
    for field in dataclasses.fields(Preset):
        read_by = rf"\b(preset|get_preset\(\w+(\.\w+)?\))\.{field.name}\b"
        assert re.search(read_by, text), f"nobody reads Preset.{field.name}"


def idle(node: ast.AST) -> bool:
    """Whether this is a lambda that does nothing, or gives one that does nothing."""
    return isinstance(node, ast.Lambda) and (idle(node.body) or ast.unparse(node.body) == "None")


def test_how_far_work_is_goes_to_one_value() -> None:
    """Nobody takes callbacks, which do nothing by default: who wants to hear of work gives it a `Progress`."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            assert not idle(node), f"{path}: {ast.unparse(node)}"
            assert not (isinstance(node, ast.arg) and node.arg.startswith("on_")), f"{path}: {ast.unparse(node)}"


def test_long_files_have_a_reason() -> None:
    files = [*SOURCES, *(ROOT / "tests").glob("*.py")]
    long = {str(path.relative_to(ROOT)) for path in files if len(path.read_text().splitlines()) > 300}
    assert long == set(LONG), f"files over 300 lines: {sorted(long)}"


def test_one_place_for_printing_and_for_stepping() -> None:
    def users(pattern: str) -> set[str]:
        found = [path for path in SOURCES if re.search(pattern, path.read_text(), re.MULTILINE)]
        return {path.relative_to(ROOT / "src" / "otflam").as_posix() for path in found}

    bench, stepping = "experiments/bench/run.py", {f"envs/{name}.py" for name in STEPPING}
    # gl and bench hold programs for other processes, which answer by printing.
    assert users(r"^\s*print\(") == {"cli.py", "report/progress.py", "envs/gl.py", bench}
    assert users(r"\b(env|simulation|envs\[\d\])\.step\(") == {*stepping, bench}
    # A race repeats the loop of somebody else.
    assert users(r"\.optimi[sz]er.*\.step\(|optimisers\[.*\]\.step\(") == {
        "envs/ppo.py",
        "envs/sac.py",
        "experiments/bench/race.py",
    }


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
        found = re.search(
            r"files\.pythonhosted|pypi\.org|deb\.debian|registry\.npm|/(root|home/\w+)/", path.read_text()
        )
        assert not found, f"{path} names {found and found[0]}"


def test_nobody_asks_for_the_type_of_a_configuration() -> None:
    """What a method is, it declares (lam/method.py); only reading and writing configurations looks at their types."""
    asked = re.compile(r"(isinstance|issubclass)\([^)]*Config\b")
    found = [path.name for path in SOURCES if stage(path) != "core" and asked.search(path.read_text())]
    assert found == []


def test_the_picture_of_the_house_is_true() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    drawn = {
        line.split()[0]: set(line.split(" stands on ")[1].split()) - {"nothing"}
        for line in text.splitlines()
        if " stands on " in line and line.split()[0] in STAGES
    }
    built: dict[str, set[str]] = {name: set() for name in STAGES}
    for path in SOURCES:
        if (here := stage(path)) in built:
            built[here] |= {name.split(".")[1] for name in imports(path)} - {here, "presets"}
    assert drawn == built
