"""What the demo takes, from an empty folder to the page: its time, and the memory of all its processes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

POLL_SECONDS = 0.2


def demo_minutes() -> float:
    return run_demo()[0]


def demo_peak_gb() -> float:
    return run_demo()[1]


@cache
def run_demo() -> tuple[float, float]:
    """Minutes, and gigabytes of anonymous memory at their peak, of the very command."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w") as log:
        began, peak = time.monotonic(), 0
        words = [sys.executable, "-m", "otflam", "demo", "--out", str(Path(folder) / "demo")]
        process = subprocess.Popen(words, stdout=log, stderr=log)
        while process.poll() is None:
            peak = max(peak, anonymous_memory(process.pid))
            time.sleep(POLL_SECONDS)
        if process.returncode:
            raise RuntimeError((Path(folder) / "log").read_text()[-2000:])
        return (time.monotonic() - began) / 60, peak / 1e9


def anonymous_memory(root: int) -> int:
    """Bytes of a process and of all its descendants that no file stands behind."""
    parents, sizes = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "status").read_text()
        except OSError:  # gone in the meantime
            continue
        facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        parents[int(folder.name)] = int(facts["PPid"])
        sizes[int(folder.name)] = 1024 * int(facts.get("RssAnon", "0 kB").split()[0])
    family = {root}
    while grown := {child for child, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(sizes.get(member, 0) for member in family)
