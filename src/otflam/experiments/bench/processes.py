"""What a process and all its descendants use, as the kernel tells it."""

from __future__ import annotations

import os
from pathlib import Path


def anonymous_memory(root: int) -> int:
    """Bytes of a process and of all its descendants that no file stands behind."""
    return sum(1024 * int(facts.get("RssAnon", "0 kB").split()[0]) for facts in family_of(root).values())


def processor_seconds(root: int) -> float:
    """Seconds that a process and all its living descendants have spent on a processor."""
    ticks = 0
    for member in family_of(root):
        try:
            # The name in brackets may have spaces; the times are the 12th and 13th word after it.
            words = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # gone in the meantime
            continue
        ticks += int(words[11]) + int(words[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def family_of(root: int) -> dict[int, dict[str, str]]:
    """The state of a process and of all its descendants."""
    states = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "status").read_text()
        except OSError:
            continue
        states[int(folder.name)] = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    family = {root} & states.keys()
    while grown := {child for child, facts in states.items() if int(facts["PPid"]) in family} - family:
        family |= grown
    return {member: states[member] for member in family}
