"""The pages of the API: what the packages offer, read from the sources, which are parsed and never imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
STAGES = {
    "core": "Errors, configurations, files, runs and the training loop.",
    "envs": "Worlds, experts, rollouts.",
    "data": "Episodes on disk.",
    "motion": "What changed between frames.",
    "tokenizer": "Motion becomes codes.",
    "lam": "Codes or frames become latent actions.",
    "policy": "Latent actions become control.",
    "evaluate": "Every metric, one record per result.",
    "report": "Pictures, figures, tables, the page.",
    "experiments": "Plans of cells, costs, benchmarks.",
}
"""The packages that have a page, from left to right as data moves."""

Body = list[ast.stmt]


@dataclass(frozen=True)
class Definition:
    """Where a name is defined, and what stands under it in the source."""

    module: str
    node: ast.stmt
    doc: str

    @property
    def summary(self) -> str:
        return " ".join(self.doc.split("\n\n")[0].split())


def surface(package: str) -> dict[str, str]:
    """The names that a package offers, and the module that each comes from."""
    stub = ast.parse((SOURCE / package.replace(".", "/") / "__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


@cache
def parsed(module: str) -> Body:
    path = SOURCE / module.replace(".", "/")
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()).body


def find(module: str, name: str) -> Definition:
    """The definition of a name, through all the modules that only pass it on."""
    if (SOURCE / module.replace(".", "/") / "__init__.pyi").exists() and name in (names := surface(module)):
        return find(names[name], name)
    body = parsed(module)
    for node, doc in with_docs(body):
        if name in defined(node):
            return Definition(module, node, doc)
    for node in ast.walk(ast.Module(body, [])):
        if isinstance(node, ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
            return find(str(node.module), name)
    raise LookupError(f"{module} offers {name}, and nothing defines it")


def defined(node: ast.stmt) -> set[str]:
    """The names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    flat = [each for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return {each.id for each in flat if isinstance(each, ast.Name)}


def with_docs(body: Body) -> Iterator[tuple[ast.stmt, str]]:
    """Statements with their docstrings: inside of functions and classes, or in the string after them."""
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node, ast.get_docstring(node) or ""
        elif isinstance(after, ast.Expr) and isinstance(text := getattr(after.value, "value", None), str):
            yield node, text
        else:
            yield node, ""


def signature(node: ast.FunctionDef, indent: str = "") -> str:
    """A function's head: on one line if it fits, else a line for each argument."""
    back = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    short = f"{indent}def {node.name}({ast.unparse(node.args)}){back}"
    if len(short) <= 100:
        return short
    parts = f"{indent}def {node.name}(\n"
    return parts + "".join(f"{indent}    {each},\n" for each in arguments(node.args)) + f"{indent}){back}"


def arguments(given: ast.arguments) -> list[str]:
    """Each argument as it is written, with the marks between them."""
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    words = [_argument(each, default) for each, default in zip(positional, defaults, strict=True)]
    if given.posonlyargs:
        words.insert(len(given.posonlyargs), "/")
    if given.vararg:
        words.append(f"*{_argument(given.vararg, None)}")
    elif given.kwonlyargs:
        words.append("*")
    words += [_argument(each, default) for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return [*words, f"**{_argument(given.kwarg, None)}"] if given.kwarg else words


def _argument(each: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(each.annotation)}" if each.annotation else ""
    given = "" if default is None else f" = {ast.unparse(default)}" if kind else f"={ast.unparse(default)}"
    return f"{each.arg}{kind}{given}"


def code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def describe(name: str, found: Definition, anchor: str) -> str:
    """The section of a name: how it is called, what it is, and what is inside."""
    node, place = found.node, f"`{found.module.removeprefix('otflam.').replace('.', '/')}.py`"
    head = f"## `{name}` {{#{anchor}}}\n\n"
    doc = f"{found.doc}\n\n" if found.doc else ""
    if isinstance(node, ast.FunctionDef):
        marks = "".join(f"@{ast.unparse(each)}\n" for each in node.decorator_list)
        return f"{head}{code(marks + signature(node))}\n{doc}{place}\n\n"
    if isinstance(node, ast.ClassDef):
        return f"{head}{code(class_head(node))}\n{doc}{place}\n\n{fields_of(node)}{methods_of(node, anchor)}"
    text = ast.unparse(node)
    shown = text if len(text) <= 240 else f"{text[:200].rsplit(' ', 1)[0]} …"
    return f"{head}{code(shown)}\n{doc}{place}\n\n"


def class_head(node: ast.ClassDef) -> str:
    bases = f"({', '.join(map(ast.unparse, [*node.bases, *node.keywords]))})" if node.bases or node.keywords else ""
    starts = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    marks = "".join(f"@{ast.unparse(each)}\n" for each in node.decorator_list)
    return f"{marks}class {node.name}{bases}" + "".join(f":\n{signature(each, '    ')}" for each in starts)


def fields_of(node: ast.ClassDef) -> str:
    """A table of the fields of a dataclass or protocol, with the strings under them."""
    rows = []
    for each, doc in with_docs(node.body):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and not each.target.id.startswith("_"):
            default = f"`{cell(ast.unparse(each.value))}`" if each.value else ""
            rows.append(f"| `{each.target.id}` | `{cell(ast.unparse(each.annotation))}` | {default} | {cell(doc)} |\n")
    return "| field | type | default | |\n|---|---|---|---|\n" + "".join(rows) + "\n" if rows else ""


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def methods_of(node: ast.ClassDef, anchor: str) -> str:
    """What can be called on a class, each with its head and docstring."""
    found = []
    for each, doc in with_docs(node.body):
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
            marks = "".join(f"@{ast.unparse(mark)}\n" for mark in each.decorator_list)
            told = f"{doc}\n\n" if doc else ""
            head = f"### `{node.name}.{each.name}` {{#{anchor}.{each.name}}}"
            found.append(f"{head}\n\n{code(marks + signature(each))}\n{told}")
    return "".join(found)


def pages() -> Iterator[tuple[str, str]]:
    """All pages of the API: their names and texts."""
    public = surface("otflam")
    text = "# otflam\n\nWhat `import otflam` gives. Names are imported when they are first used.\n\n"
    found = {name: find(module, name) for name, module in public.items()}
    text += "".join(f"- [`{name}`](#otflam.{name}): {each.summary}\n" for name, each in found.items()) + "\n"
    yield "otflam.md", text + "".join(describe(name, each, f"otflam.{name}") for name, each in found.items())
    for stage, about in STAGES.items():
        package = f"otflam.{stage}"
        text = f"# {package}\n\n{about} Import from `{package}`, never from the files inside.\n\n"
        for name, module in surface(package).items():
            if name in public:
                text += f"## `{name}` {{#{package}.{name}}}\n\nSee [`otflam.{name}`](otflam.md#otflam.{name}).\n\n"
            else:
                text += describe(name, find(module, name), f"{package}.{name}")
        yield f"{stage}.md", text
