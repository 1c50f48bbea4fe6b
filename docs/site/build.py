"""Build the documentation site, offline and in seconds: python docs/site/build.py [FOLDER].

The pages under docs/ are the source, and stay readable where they lie. Here they are copied into a folder, beside pages
that are made from other sources: the README, the API, the help of every command, the examples and the notebook.
"""

from __future__ import annotations

import contextlib
import html
import io
import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

import notebook  # noqa: E402 - beside this file
import reference  # noqa: E402

EXAMPLES = {
    "own-method": "A method of one's own",
    "own-world": "A world of one's own",
    "own-format": "A format of one's own",
}
PLACES = {"README.md": "index.md", "examples/story.ipynb": "examples/story.md"}
PLACES |= {f"examples/{name}": f"examples/{name}.md" for name in EXAMPLES}
"""Where on the site what is no page under docs/ stands."""


def place_of(target: Path) -> str:
    """Where on the site a file of the repository stands."""
    inside = target.relative_to(ROOT).as_posix()
    return PLACES.get(inside) or (inside.removeprefix("docs/") if inside.startswith("docs/") else inside)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """A text whose parts that are no blocks of code are changed."""
    parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if number % 2 else change(part) for number, part in enumerate(parts))


def stage_page(source: Path, pages: Path) -> str:
    """A page of the repository as the site needs it: without comments, its links to where things stand there."""
    text = notebook.as_markdown(source) if source.suffix == ".ipynb" else source.read_text()
    here = place_of(source)

    def relink(found: re.Match[str]) -> str:
        target, mark, anchor = found[2].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return found[0]
        there = (source.parent / target).resolve()
        place = place_of(there)
        if place == there.relative_to(ROOT).as_posix() and there.is_file():  # a plain file, such as a record
            (pages / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(there, pages / place)
        return f"{found[1]}({posixpath.relpath(place, posixpath.dirname(here) or '.')}{mark}{anchor})"

    def change(text: str) -> str:
        text = re.sub(r"^<!--.*?-->$", "", text, flags=re.MULTILINE)
        text = text.replace(" ± ", "\u00a0±\u00a0")  # a number and its deviation stay on one line
        return re.sub(r"(\])\(([^)\s]+)\)", relink, text)

    return outside_code(text, change)


def example_page(name: str) -> str:
    """The files of an example, its README first."""
    folder = ROOT / "examples" / name
    text = (folder / "README.md").read_text()
    for path in sorted([folder / "pyproject.toml", *folder.rglob("*.py")]):
        kind = "toml" if path.suffix == ".toml" else "python"
        text += f"\n## `{path.relative_to(folder)}`\n\n```{kind}\n{path.read_text()}```\n"
    return text


def command_page() -> str:
    """The help of every command, as the terminal shows it."""
    os.environ |= {"COLUMNS": "100", "NO_COLOR": "1"}
    from otflam import cli
    from otflam.commands import COMMANDS

    groups = defaultdict(list)
    for name in COMMANDS:
        groups[name.split()[0]].append(name)
    text = "# Commands\n\nWhat `otflam COMMAND --help` says, with the defaults of the preset `laptop`.\n\n"
    text += "| command | |\n|---|---|\n"
    text += "".join(
        f"| [`{name}`](#{name.replace(' ', '-')}) | {reference.cell((kind.__doc__ or '').splitlines()[0])} |\n"
        for name, kind in COMMANDS.items()
    )
    for name in (name for names in groups.values() for name in names):
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
            cli.parse(name, ["--help"])
        body = html.escape(told.getvalue().strip("\n"), quote=False)
        text += f'\n## `{name}` {{#{name.replace(" ", "-")}}}\n\n<pre class="help">{body}</pre>\n'
    return text


def stage(pages: Path) -> None:
    """Put all pages and pictures into a folder."""
    shutil.rmtree(pages, ignore_errors=True)
    docs = ROOT / "docs"
    shutil.copytree(docs, pages, ignore=shutil.ignore_patterns("site", "*.md"))
    shutil.copyfile(docs / "site" / "extra.css", pages / "extra.css")
    sources = [ROOT / "README.md", ROOT / "examples" / "story.ipynb", *docs.rglob("*.md")]
    made = {place_of(page): stage_page(page, pages) for page in sources}
    made |= {f"examples/{name}.md": example_page(name) for name in EXAMPLES}
    made["commands.md"] = command_page()
    made |= {f"reference/{name}": text for name, text in reference.pages()}
    for name, text in made.items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        (pages / name).write_text(text)


def render(folder: Path) -> Path:
    """Build the site from a folder's pages and give where it is."""
    config = folder / "mkdocs.yml"  # paths in it are relative to it
    shutil.copyfile(ROOT / "docs" / "site" / "mkdocs.yml", config)
    words = [sys.executable, "-m", "zensical", "build", "--clean", "--config-file", str(config)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}")
    return folder / "html"


class Page(HTMLParser):
    """The links and anchors of a built page, and what it would load from other hosts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.anchors, self.foreign = list[str](), set[str](), list[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value is not None:
                parts = urlsplit(value)
                if not parts.scheme and not parts.netloc:
                    self.links.append(value)
                elif tag != "a" and parts.scheme != "data":
                    self.foreign.append(value)


def broken_links(site: Path) -> Iterator[str]:
    """Links of a built site that lead to no file of it, or to no anchor there, and what only the network has."""
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            anchored = not parts.fragment or there not in pages or unquote(parts.fragment) in pages[there].anchors
            if not there.is_file() or not anchored:
                yield f"{path.relative_to(site)}: {link}"
        yield from (f"{path.relative_to(site)}: {link} is elsewhere" for link in page.foreign)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs")
    stage(folder / "pages")
    site = render(folder)
    wrong = list(broken_links(site))
    for line in wrong:
        print(f"broken link: {line}", file=sys.stderr)
    print(f"site: {site / 'index.html'} ({len(list(site.rglob('*.html')))} pages)")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
