"""A notebook without Jupyter: run its programs, keep what they say and show in it, or make a page of it.

    python docs/site/notebook.py examples/story.ipynb FOLDER

runs all cells with FOLDER as the working directory and writes what came of them into the notebook.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

from PIL import Image

Cell = dict[str, Any]


def as_markdown(path: Path) -> str:
    """The cells of a notebook in order; pictures stay inside the page."""
    return "\n\n".join(_cell(cell) for cell in json.loads(path.read_text())["cells"]) + "\n"


def _cell(cell: Cell) -> str:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return text
    return "\n\n".join([f"```python\n{text}\n```", *map(_output, cell["outputs"])])


def _output(output: Cell) -> str:
    if picture := output.get("data", {}).get("image/png"):
        return f'<img alt="what the program shows" src="data:image/png;base64,{picture.strip()}">'
    return f"```text\n{''.join(output['text']).rstrip()}\n```"


def execute(notebook: Cell) -> None:
    """Run all programs, one after the other in one space, and replace their outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    programs = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(programs, 1):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            shown = run_program("".join(cell["source"]), names)
        cell["execution_count"], cell["outputs"] = number, []
        if text := said.getvalue():
            cell["outputs"].append({"name": "stdout", "output_type": "stream", "text": text.splitlines(True)})
        if isinstance(shown, Image.Image):
            data = {"image/png": as_png(shown), "text/plain": [f"a picture of {shown.width} × {shown.height}"]}
            result = {"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"}
            cell["outputs"].append(result)


def run_program(text: str, names: dict[str, Any]) -> Any:
    """Run statements; what the last one is worth, if it is an expression."""
    body = ast.parse(text).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if isinstance(last, ast.Expr) else None


def as_png(picture: Image.Image) -> str:
    data = io.BytesIO()
    picture.save(data, "png", optimize=True)
    return base64.b64encode(data.getvalue()).decode()


def main() -> None:
    path, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    notebook = json.loads(path.read_text())
    os.chdir(folder)
    execute(notebook)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
