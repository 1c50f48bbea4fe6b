"""A notebook as a page: its text, its programs and what they said, read from its JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PICTURES = {"image/png": "png", "image/jpeg": "jpeg"}


def as_markdown(path: Path) -> str:
    """The cells of a notebook in order; pictures stay inside the page."""
    return "\n\n".join(_cell(cell) for cell in json.loads(path.read_text())["cells"]) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return text
    return "\n\n".join([f"```python\n{text}\n```", *map(_output, cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    for kind in PICTURES:
        if kind in output.get("data", {}):
            return f'<img alt="output" src="data:{kind};base64,{"".join(output["data"][kind]).strip()}">'
    said = output["text"] if "text" in output else output["data"]["text/plain"]
    return f"```text\n{''.join(said).rstrip()}\n```"
