"""The reference pages are true: names, places in the code, commands, settings and links in them exist."""

from __future__ import annotations

import ast
import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from otflam import cli
from otflam.commands import COMMANDS
from otflam.core.config import to_json
from otflam.experiments.studies import STUDIES
from otflam.lam import method as methods
from otflam.report.tables import TABLES

ROOT = Path(__file__).parents[1]
DOCS, SOURCE, RECORDS = ROOT / "docs", ROOT / "src" / "otflam", ROOT / "results" / "records"
METRICS = DOCS / "metrics.md"
METHODS = sorted((DOCS / "methods").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
SHARED = "Every experiment"
"""The section of metrics that several experiments record."""
SETTINGS = {
    "otf": "tokenizer train DATA --out OUT",
    "otf-lam-pixel": "lam train otf-lam-pixel DATA --out OUT --tokenizer BASE",
    "otf-lam-dino": "lam train otf-lam-dino DATA --out OUT --tokenizer BASE",
    "lapo": "lam train lapo-256 DATA --out OUT",
    "m-lapo": "lam train m-lapo DATA --out OUT",
    "f-lapo": "lam train f-lapo DATA --out OUT",
    "flam": "lam train flam-4 DATA --out OUT --tokenizer BASE",
    "hilam": "lam train hilam DATA --out OUT --low BASE",
    "laom": "lam train laom DATA --out OUT",
    "lapo-vq": "lam train lapo-vq DATA --out OUT",
    "lapo-vae": "lam train lapo-vae DATA --out OUT",
    "mask-lapo": "lam train mask-lapo DATA --out OUT",
    "lapo-fast": "lam train lapo-fast DATA --out OUT",
    "otf-lam-fast": "lam train otf-lam-fast DATA --out OUT --tokenizer BASE",
    "grounding": "policy train LAM DATA --out OUT",
}
"""The command whose settings a page tells."""


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


def sections(text: str) -> dict[str, str]:
    """What stands under each heading of the second level."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def entries(section: str) -> dict[str, str]:
    """Every name that an item of a list begins with, and the item."""
    items = re.findall(r"^- ((?:`[\w-]+`(?:, )?)+)(.*?)(?=^- |^\S|\Z)", section, re.MULTILINE | re.DOTALL)
    return {name: text for names, text in items for name in re.findall(r"`([\w-]+)`", names)}


def recorded() -> dict[str, set[str]]:
    """The metrics of every experiment that has records."""
    found: dict[str, set[str]] = {}
    for path in RECORDS.glob("*.json"):
        record = json.loads(path.read_text())
        found.setdefault(record["experiment"], set()).update(record["metrics"])
    return found


def test_every_recorded_metric_is_explained() -> None:
    pages, found = sections(METRICS.read_text()), recorded()
    assert len(found) >= 6
    for experiment, names in found.items():
        told = entries(pages[experiment]) | entries(pages[SHARED])
        for other in re.findall(r"easured as in ([\w-]+)", pages[experiment]):
            told |= entries(pages[other])
        assert names <= set(told), f"docs/metrics.md, {experiment}, lacks {sorted(names - set(told))}"
        for name in names:
            assert "::" in told[name], f"docs/metrics.md does not say what computes {name}"


def test_every_benchmark_is_explained() -> None:
    told = entries(sections(METRICS.read_text())["Benchmarks"])
    names = set(json.loads((ROOT / "results" / "bench.json").read_text()))
    assert names and names == set(told), f"docs/metrics.md differs in {sorted(names ^ set(told))}"


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_explained(table: str, tmp_path: Path) -> None:
    plain = re.sub(r"`[^`]*`", "", re.sub(r"\s+", " ", METRICS.read_text()))
    told = set(re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", plain))
    heads = [part.head for part in TABLES[table].make(tmp_path, "laptop")]  # without records: only heads
    assert heads and len(heads[0]) > 2
    for column in (column for head in heads for column in head):
        # The same column for every task, or with a number that depends on the records.
        name = re.sub(r"^[\w-]+: | \((wanted|\d+ labels)\)$", "", column)
        assert name in told, f"docs/metrics.md does not explain {column!r} of the table {table}"


@cache
def names_in(path: Path) -> set[str]:
    """Everything that a file defines: `function`, `CONSTANT`, `Class` and `Class.method`."""

    def defined(body: list[ast.stmt], prefix: str = "") -> set[str]:
        found = set()
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                found |= defined(node.body, f"{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            found |= {prefix + target.id for target in targets if isinstance(target, ast.Name)}
        return found

    return defined(ast.parse(path.read_text()).body)


@pytest.mark.parametrize("page", [METRICS, DOCS / "paper.md", *METHODS], ids=relative)
def test_places_in_the_code_exist(page: Path) -> None:
    text = page.read_text()
    places = re.findall(r"`([\w/]+\.py)(?:::([\w.]+))?`", text)
    assert places and text.count(".py::") == sum(bool(name) for _, name in places), f"a place in {page} is malformed"
    assert not re.findall(r"`test_\w+`", text), "name a test with its file, so that it is looked for"
    for file, name in places:
        path = next((folder / file for folder in (SOURCE, ROOT / "tests") if (folder / file).exists()), None)
        assert path is not None, f"{relative(page)} names {file}"
        assert not name or name in names_in(path), f"{relative(page)} names {file}::{name}"


def commands() -> dict[str, str]:
    """Every command in a shell block of the pages, and a page that it is on."""
    found = {}
    for page in METHODS:
        for block in re.findall(r"^```bash\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            found |= {line.strip(): page.stem for line in block.splitlines() if line.strip()}
    return found


def test_commands_can_be_parsed() -> None:
    found = commands()
    assert {page.stem for page in METHODS} - {"README"} <= set(found.values())
    for line, page in found.items():
        program, *words = shlex.split(line)
        assert program == "otflam", f"{page}: {line}"
        name, rest = cli.find_command(words)
        assert name is not None, f"{page}: {line}"
        assert name != "reproduce" or rest[0] in STUDIES, f"{page}: {line}"
        try:
            cli.parse(name, rest)
        except SystemExit:
            pytest.fail(f"docs/methods/{page}.md: {line}")


def test_commands_in_the_text_exist() -> None:
    for page in [METRICS, *METHODS]:
        for words in re.findall(r"`otflam ([a-z][^`]*)`", re.sub(r"\s+", " ", page.read_text())):
            spoken = [word for word in words.split() if re.fullmatch(r"[a-z][\w-]*", word)]
            if words in ("lam train METHOD --help", "reproduce"):
                continue
            name, rest = cli.find_command(spoken)
            assert name is not None, f"{relative(page)}: otflam {words}"
            assert name != "reproduce" or rest[0] in STUDIES, f"{relative(page)}: otflam {words}"


def test_every_method_has_a_page_that_names_it() -> None:
    texts = {page.stem: page.read_text() for page in METHODS}
    index = texts.pop("README")
    for method in methods.METHODS:
        family = [stem for stem in texts if method == stem or re.fullmatch(rf"{stem}-\d+", method)]
        assert len(family) == 1, f"{method} has the pages {family}"
        assert f"`{method}`" in texts[family[0]], f"docs/methods/{family[0]}.md does not name {method}"
        assert f"`{method}`" in index and f"otflam lam train {method} " in texts[family[0]]
    assert all(f"({stem}.md)" in index for stem in texts)


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Every setting of a command by its place."""
    if not isinstance(value, dict):
        return {path: value}
    return {at: leaf for name, part in value.items() for at, leaf in leaves(part, f"{path}.{name}").items()}


def same(told: str, value: Any) -> bool:
    if isinstance(value, bool):
        return told == ("yes" if value else "no")
    if isinstance(value, list):
        return told == ", ".join(map(str, value))
    return told == value if isinstance(value, str) else float(told) == value


def written_tables(page: str) -> list[list[list[str]]]:
    """The tables of a page that somebody wrote, as rows of cells, the head first."""
    found = re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
    rows = [[[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()] for text in found]
    return [[row for row in table if set("".join(row)) != {"-"}] for table in rows]


@pytest.mark.parametrize("page", [page for page in METHODS if page.stem != "README"], ids=lambda page: page.stem)
def test_settings_are_those_of_the_presets(page: Path) -> None:
    tables = [table for table in written_tables(page.read_text()) if table[0][:3] == ["option", "paper", "laptop"]]
    assert len(tables) == 1 and len(tables[0]) > 4
    for column, preset in enumerate(("paper", "laptop"), 1):
        name, rest = cli.find_command(SETTINGS[page.stem].split())
        assert name is not None
        settings = leaves(to_json(cli.parse(name, [*rest, "--preset", preset])))
        for row in tables[0][1:]:
            option = row[0].strip("`").removeprefix("--").replace("-", "_")
            found = [value for at, value in settings.items() if at.endswith(f".{option}")]
            assert len(found) == 1, f"{page.stem}: {row[0]} is {len(found)} settings"
            assert same(row[column], found[0]), f"{page.stem}: {row[0]} is {found[0]} at the preset {preset}"


def slug(heading: str) -> str:
    """The anchor of a heading, as hosts of Markdown make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_lines_of_prose_are_short(page: Path) -> None:
    """Rows of tables are as wide as their data, a picture's text is one line, and what is printed is as it is."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE).splitlines()
    assert [line for line in prose if len(line) > 120 and not line.startswith(("|", "!["))] == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = page.parent / file if file else page
        assert there.exists(), f"{relative(page)} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", there.read_text(), re.MULTILINE)
            assert anchor in map(slug, headings), f"{relative(page)} links to {target}"


def test_pages_are_found() -> None:
    """The checks above would pass on nothing."""
    assert len(METHODS) == len(SETTINGS) + 1 and len(PAGES) >= 16
    assert any("](docs/" in page.read_text() for page in PAGES) and "lam train hilam" in COMMANDS
