"""What became of a command that was killed, or of one that read a damaged file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from otflam.experiments.campaign.process import Death, Ended

PASSED = {
    "refused": "one line that names the file, exit code 2, nothing touched",
    "same": "the result is that of the intact file, to the bit",
    "told": "another result, and a line that names the file",
    "other": "another result where nobody can tell: a format without a checksum, or a forged one",
}
FAILED = {
    "silent": "another result without a word",
    "unexpected": "`unexpected … (this is a bug)`",
    "hang": "no end within ten times the usual time, and at least 20 seconds",
    "crash": "a traceback, a signal, or an exit code that is not ours",
    "unnamed": "refused, but the line does not name the file or its folder, or there is not exactly one",
    "harm": "a file that was there before was changed or lost",
}
LONGEST = 240
"""Characters of a message that are kept."""
NOTICE = re.compile(r"skipped|left out|damaged|altered|missing|warning")


@dataclass(frozen=True)
class Verdict:
    """How one case ended."""

    case: str
    group: str
    """What was damaged or killed."""
    outcome: str
    about: str
    """What was done, to which file, and which command followed."""
    message: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome in FAILED


def stopped_badly(ended: Ended, death: Death) -> str | None:
    """A command that is stopped may die, say so in one line, or have ended before; nothing else."""
    if ended.code is None:
        return "hang"
    if any(line.startswith("otflam: unexpected ") for line in ended.errors):
        return "unexpected"
    polite = ended.code in (130, 128 + death.signal) and len(ended.errors) == 1
    if (ended.code not in (0, -death.signal) and not polite) or "Traceback" in ended.complained:
        return "crash"
    return None


def harmed(before: dict[str, str], after: dict[str, str], allowed: tuple[str, ...]) -> list[str]:
    """Files that were there before and are not, or are others."""
    changed = [name for name, digest in before.items() if after.get(name) != digest]
    return [name for name in changed if not any(name == root or name.startswith(f"{root}/") for root in allowed)]


def judge(ended: Ended, file: str, same: bool, lost: list[str]) -> tuple[str, str]:
    """The outcome of a command that read a damaged file, and the line that tells it."""
    message = last_line(ended)
    if ended.code is None:
        return "hang", message
    if any(line.startswith("otflam: unexpected ") for line in ended.errors):
        return "unexpected", message
    if "Traceback" in ended.complained or ended.code not in (0, 2):
        return "crash", message or f"ended with {ended.code}"
    if lost:
        return "harm", f"{', '.join(lost[:3])} changed or lost; {message}"
    if ended.code == 2:
        named = len(ended.errors) == 1 and names(ended.errors[0], file)
        return ("refused" if named else "unnamed"), message
    if same:
        return "same", ""
    told = next((line for line in (ended.complained + ended.said).splitlines() if notices(line, file)), None)
    return ("silent", message) if told is None else ("told", told)


def notices(line: str, file: str) -> bool:
    """Whether a line beside the results says that something is wrong with a file."""
    return NOTICE.search(line) is not None and names(line.partition(": ")[2] or line, file)


def names(text: str, file: str) -> bool:
    """Whether a text names a file, its folder or what it is of."""
    path = Path(file)
    known = {file, path.name, path.stem, *(str(parent) for parent in path.parents if str(parent) != ".")}
    return any(name in text for name in known)


def last_line(ended: Ended) -> str:
    lines = ended.errors or ended.complained.splitlines()
    return lines[-1][:LONGEST] if lines else ""
