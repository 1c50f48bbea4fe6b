"""The notebook tells the truth: its programs run, without Jupyter, and what is kept in it came from them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "story.ipynb"
LARGEST = 300_000


def programs(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def kinds(cell: dict[str, Any]) -> list[str]:
    return [output["output_type"] for output in cell["outputs"]]


def said(cell: dict[str, Any]) -> list[str]:
    """How the lines begin that a program printed, whatever the numbers."""
    text = "".join("".join(output.get("text", [])) for output in cell["outputs"]).replace("-tiny", "-demo")
    return [re.sub(r"\d+", "0", line.split(" ")[0]) for line in text.splitlines()]


def test_the_story_runs(tmp_path: Path) -> None:
    """At the smallest size every cell says and shows what the kept ones do."""
    copy = Path(shutil.copy(NOTEBOOK, tmp_path))
    words = [sys.executable, str(ROOT / "docs" / "site" / "notebook.py"), str(copy), str(tmp_path)]
    environment = os.environ | {"OTFLAM_PRESET": "tiny", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ran, kept = programs(copy), programs(NOTEBOOK)
    assert 9 <= len(ran) <= 12
    for now, then in zip(ran, kept, strict=True):
        assert (now["source"], kinds(now), said(now)) == (then["source"], kinds(then), said(then))


def test_what_is_kept_is_small_and_names_no_machine() -> None:
    text = NOTEBOOK.read_text()
    assert len(text) < LARGEST and not any(place in text for place in ("/tmp", "/home", "/work", "/root"))
    cells = programs(NOTEBOOK)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell["outputs"] for cell in cells[1:]) and sum("execute_result" in kinds(cell) for cell in cells) >= 4
