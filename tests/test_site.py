"""The documentation site: its navigation and API are complete, and every link of the built pages resolves."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from otflam import cli
from otflam.commands import COMMANDS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HOW_TO = [DOCS / "start.md", DOCS / "worlds.md", *sorted((DOCS / "how-to").glob("*.md"))]
OF_EXAMPLES = {"change-lam"}
"""Methods of packages that a page tells how to install."""


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    sys.path.insert(0, str(DOCS / "site"))
    try:
        return importlib.import_module("build")
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module")
def pages(builder: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    builder.stage(folder)
    return folder


def navigation() -> list[str]:
    """The pages that the site's menu has."""
    return re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", (DOCS / "site" / "mkdocs.yml").read_text(), re.MULTILINE)


def test_every_page_is_in_the_navigation(pages: Path) -> None:
    listed = navigation()
    assert len(listed) == len(set(listed))
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert len(written) > 30 and written <= set(listed), sorted(written - set(listed))
    staged = {path.relative_to(pages).as_posix() for path in pages.rglob("*.md")}
    assert staged == set(listed), sorted(staged ^ set(listed))


def test_the_api_has_every_public_name(builder: ModuleType) -> None:
    pages = dict(builder.reference.pages())
    assert {f"{stage}.md" for stage in builder.reference.STAGES} | {"otflam.md"} == set(pages)
    for page in pages:
        package = "otflam" if page == "otflam.md" else f"otflam.{page.removesuffix('.md')}"
        names = set(dir(importlib.import_module(package))) - {"__version__"}
        assert names == set(re.findall(rf"^## `(\w+)` {{#{re.escape(package)}\.\w+}}$", pages[page], re.MULTILINE))
    assert "def load(folder" in pages["otflam.md"] and "| `share` |" not in pages["otflam.md"]


def test_every_link_of_the_built_site_resolves(builder: ModuleType, pages: Path) -> None:
    pytest.importorskip("zensical", reason="needs otflam[docs]")
    site = builder.render(pages.parent)
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert {page.replace("README.md", "index.md").removesuffix(".md") + ".html" for page in navigation()} <= built
    assert list(builder.broken_links(site)) == []


def test_a_broken_link_is_found(builder: ModuleType, tmp_path: Path) -> None:
    links = ["there.html", "there.html#part", "there.html#gone", "gone.html", "https://elsewhere.test/x"]
    (tmp_path / "here.html").write_text("".join(f'<a href="{link}"></a>' for link in links) + '<img src="//far/x.png">')
    (tmp_path / "there.html").write_text('<h2 id="part"></h2>')
    wrong = [line.removeprefix("here.html: ") for line in builder.broken_links(tmp_path)]
    assert wrong == ["there.html#gone", "gone.html", "//far/x.png is elsewhere"]


def test_commands_of_the_how_tos_can_be_parsed() -> None:
    found = 0
    for page in HOW_TO:
        for block in re.findall(r"^ *```bash\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL):
            for program, *words in map(shlex.split, block.splitlines()):
                if program != "otflam" or words == ["--help"] or set(words) & OF_EXAMPLES:
                    continue
                name, rest = cli.find_command(words)
                assert name in COMMANDS, f"{page.name}: {words}"
                cli.parse(name, rest)
                found += 1
    assert found > 20
