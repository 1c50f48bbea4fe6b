"""The campaign: commands that are killed and files that are damaged, at random but from a seed.

Every case is a pure function of the seed and its number, so that a failure can be looked at again by its name.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from otflam.core import Progress, UserError, run_jobs, stable_hash, write_text
from otflam.experiments.campaign.mutations import alter
from otflam.experiments.campaign.prepare import prepare
from otflam.experiments.campaign.process import (
    FAILED,
    PASSED,
    Death,
    Ended,
    Verdict,
    harmed,
    judge,
    last_line,
    preload,
    run_command,
    stopped_badly,
)
from otflam.experiments.campaign.samples import FOREIGN, SAMPLES, WORKS, Reader, pick
from otflam.report import Table, as_markdown

Kind = Literal["kill", "mutation"]
KINDS: tuple[Kind, ...] = ("kill", "mutation")
SLOWDOWN, MIN_SECONDS = 10, 20.0
"""A case hangs if it takes this many times as long as with the intact file, and at least so many seconds."""
UNFINISHED = re.compile(r"\.tmp$|(^|/)\.lock$")
DERIVED_HASHES = re.compile(r"-[0-9a-f]{12}-[0-9a-f]{12}\b")
"""In the name of a derived column: another name alone is no other result."""
SKIPPED = shutil.ignore_patterns("tensorboard", ".lock", "sheet.png")
GROUPED = re.compile(r"\d+(\.\d+)?|0x[0-9a-f]+|'[^']*'|[0-9a-f]{12,}")
"""What differs between messages of one cause."""
PLACE = re.compile(r"(<!-- campaign -->\n).*?(<!-- end of campaign -->)", re.DOTALL)


@dataclass(frozen=True)
class Intact:
    """What a command makes of an undamaged sample."""

    result: dict[str, str]
    seconds: float
    events: int


@dataclass(frozen=True)
class Plan:
    """All that decides a campaign."""

    folder: Path
    """The prepared samples."""
    scratch: Path
    """Folder for the cases, which are deleted."""
    seed: int


def readers(case: str) -> list[tuple[tuple[str, ...], Reader]]:
    """The commands whose undamaged results a case may be compared with, and what they need."""
    kind, number = parse_case(case)
    if kind == "mutation":
        return [(pick(SAMPLES, number).needs, reader) for reader in pick(SAMPLES, number).readers]
    return [(pick(WORKS, number).needs, pick(WORKS, number).reader)]


def matching(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    """Files of ours that fit some patterns, in a fixed order."""
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return sorted(path for path in found if not UNFINISHED.search(path.as_posix()) and path.name != "sheet.png")


def run_campaign(plan: Plan, cases: list[str], workers: int, progress: Progress) -> list[Verdict]:
    """Run cases such as kill-0 or mutation-17; the verdicts are in their order."""
    commands = list(dict.fromkeys(each for case in cases for each in readers(case)))
    intact, verdicts = {}, {}
    progress.part("undamaged", "cases")
    for number, found in run_jobs(Undamaged, (plan, commands), range(len(commands)), workers, method="fork"):
        intact[commands[number]] = found
        progress.reach(len(intact), len(commands))
    progress.part("cases", "cases")
    for number, verdict in run_jobs(Tester, (plan, cases, intact), range(len(cases)), workers, method="fork"):
        verdicts[number] = verdict
        progress.reach(len(verdicts), len(cases))
    return [verdicts[number] for number in range(len(cases))]


def parse_case(case: str) -> tuple[Kind, int]:
    kind, _, number = case.partition("-")
    if kind not in KINDS or not number.isdecimal():
        raise UserError(f"--case {case}", "give a name such as kill-3 or mutation-17")
    return kind, int(number)


class Undamaged:
    """One worker that runs commands on undamaged samples."""

    def __init__(self, plan: Plan, commands: list[tuple[tuple[str, ...], Reader]]) -> None:
        self.plan, self.commands = plan, commands

    def __call__(self, number: int, progress: Progress) -> Intact:
        needs, reader = self.commands[number]
        place = self.plan.scratch / f"intact-{number}"
        copy_needs(self.plan.folder, needs, place)
        ended = run_command(shlex.split(reader.words), place, 10 * MIN_SECONDS, count=True)
        if ended.code != 0:
            raise UserError(f"'otflam {reader.words}' fails on an undamaged sample", " ".join(ended.errors))
        found = Intact(result_of(ended, place, reader), ended.seconds, ended.events)
        shutil.rmtree(place)
        return found


def copy_needs(folder: Path, needs: tuple[str, ...], place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name in needs:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        if (folder / name).is_dir():
            shutil.copytree(folder / name, place / name, ignore=SKIPPED)
        else:
            shutil.copy(folder / name, place / name)


def digests(folder: Path, patterns: tuple[str, ...] = ("**/*",)) -> dict[str, str]:
    """The contents of files, by name; what only a running writer has does not count."""
    found = {path.relative_to(folder).as_posix(): path for pattern in patterns for path in folder.glob(pattern)}
    files = {name: path for name, path in found.items() if path.is_file() and not UNFINISHED.search(name)}
    return {name: hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() for name, path in files.items()}


def result_of(ended: Ended, place: Path, reader: Reader) -> dict[str, str]:
    """What a command printed and made."""
    made = digests(place, reader.results)
    made |= {name: content_of(place / name) for name in made if name.endswith("meta.json")}
    made |= {"stdout": DERIVED_HASHES.sub("", ended.stdout)}
    return {DERIVED_HASHES.sub("", name): digest for name, digest in made.items()}


def content_of(meta: Path) -> str:
    """What a data set holds; not where an episode lies, for one that was damaged is written again behind the others."""
    checked = run_command(["data", "check", meta.parent.name], meta.parent.parent, 10 * MIN_SECONDS)
    content = json.loads(meta.read_text(encoding="utf-8"))
    for episode in content["episodes"]:
        del episode["start"]
    return checked.stderr + stable_hash({**content, "digest": None})


class Tester:
    """One worker that runs cases."""

    def __init__(self, plan: Plan, cases: list[str], intact: dict[tuple[tuple[str, ...], Reader], Intact]) -> None:
        self.plan, self.cases, self.intact = plan, cases, intact

    def __call__(self, index: int, progress: Progress) -> Verdict:
        case = self.cases[index]
        kind, number = parse_case(case)
        rng = np.random.default_rng([self.plan.seed, KINDS.index(kind), number])
        place = self.plan.scratch / case
        try:
            return self.kill(case, number, rng, place) if kind == "kill" else self.damage(case, number, rng, place)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def damage(self, case: str, number: int, rng: np.random.Generator, place: Path) -> Verdict:
        """Alter one file, run one command that reads it, and see what it makes of it."""
        sample = pick(SAMPLES, number)
        files = matching(self.plan.folder, sample.files)
        file = files[int(rng.integers(len(files)))].relative_to(self.plan.folder).as_posix()
        reader = sample.readers[int(rng.integers(len(sample.readers)))]
        intact = self.intact[sample.needs, reader]
        copy_needs(self.plan.folder, sample.needs, place)
        alteration = alter(place / file, rng)
        before = digests(place)
        ended = run_command(shlex.split(reader.words), place, max(MIN_SECONDS, SLOWDOWN * intact.seconds))
        lost = harmed(before, digests(place), reader.writes if ended.code == 0 else ())
        outcome, message = judge(ended, file, result_of(ended, place, reader) == intact.result, lost)
        absent = sample.optional and alteration.about == "delete"
        if outcome == "silent" and (alteration.resealed or absent or sample in FOREIGN):
            outcome = "other"
        return Verdict(case, sample.name, outcome, f"{file}: {alteration.about}; otflam {reader.words}", message)

    def kill(self, case: str, number: int, rng: np.random.Generator, place: Path) -> Verdict:
        """Stop a command once or twice, run it to its end, and compare with what was never stopped."""
        work = pick(WORKS, number)
        reader = work.reader
        intact = self.intact[work.needs, reader]
        copy_needs(self.plan.folder, work.needs, place)
        before = digests(place)
        words, limit, deaths = shlex.split(work.words), max(MIN_SECONDS, SLOWDOWN * intact.seconds), []
        for _ in range(int(rng.integers(1, 3))):
            death = draw_death(rng, intact)
            ended = run_command(words, place, limit, death)
            deaths.append(describe_death(death, ended))
            if (problem := stopped_badly(ended, death)) is not None:
                return Verdict(case, work.name, problem, f"otflam {work.words}; {', '.join(deaths)}", last_line(ended))
        ended = run_command(words, place, limit)
        # What it says may differ, for it tells only of what it did itself.
        same = result_of(ended, place, reader) | {"stdout": ""} == intact.result | {"stdout": ""}
        outcome, message = judge(ended, work.words, same, harmed(before, digests(place), ()))
        if outcome == "refused":  # nothing was damaged, so that nothing is to be refused
            outcome = "crash"
        torn = [path.name for path in place.rglob("*.tmp")]
        if outcome == "same" and torn:
            outcome, message = "harm", f"left over: {', '.join(torn)}"
        return Verdict(case, work.name, outcome, f"otflam {work.words}; {', '.join(deaths)}", message)


def draw_death(rng: np.random.Generator, intact: Intact) -> Death:
    """Half of all deaths at a random time, half at a random operation on a file; most of them without a warning."""
    sign = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT], p=(0.7, 0.15, 0.15))
    if rng.random() < 0.5:
        return Death(int(sign), after=float(rng.uniform(0, intact.seconds)))
    return Death(int(sign), event=int(rng.integers(intact.events)))


def describe_death(death: Death, ended: Ended) -> str:
    when = f"after {death.after:.2f} s" if death.after is not None else f"at operation {death.event}"
    return f"{signal.Signals(death.signal).name} {when} (ended with {ended.code})"


def count_rows(verdicts: list[Verdict], kind: Kind) -> Iterator[list[str]]:
    """Rows of counts: for each kind of file or command how often each outcome came."""
    groups: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        if parse_case(verdict.case)[0] == kind:
            groups.setdefault(verdict.group, Counter())[verdict.outcome] += 1
    groups["all"] = sum(groups.values(), Counter())
    for name, counts in groups.items():
        entries = [counts.total(), *(counts[outcome] for outcome in (*PASSED, *FAILED))]
        yield [name, *(str(entry) if entry else "·" for entry in entries)]


def judge_cases(kept: Path | None, cases: list[str], seed: int, workers: int, progress: Progress) -> list[Verdict]:
    """Prepare what the cases need and run them."""
    preload()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (kept or Path(temporary) / "samples").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        plan = Plan(folder, Path(temporary) / "cases", seed)
        wanted = {name for case in cases for needs, _ in readers(case) for name in needs}
        prepare(folder, wanted, progress.part("prepare", "samples"))
        return run_campaign(plan, cases, workers, progress)


def list_failures(verdicts: list[Verdict], seed: int, most: int = 3) -> Iterator[str]:
    """What went wrong, the same kinds together, with the cases to run again."""
    groups: dict[tuple[str, str, str], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.failed:
            key = verdict.outcome, verdict.group, GROUPED.sub("…", verdict.message)
            groups.setdefault(key, []).append(verdict)
    for (outcome, group, _), found in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield f"{len(found)} × {outcome} ({group}): {found[0].message or '–'}"
        yield from (f"    --seed {seed} --case {each.case}  {each.about}" for each in found[:most])


def count_tables(verdicts: list[Verdict], seed: int, minutes: float) -> str:
    """The counts as Markdown, kills and mutations apart."""
    heads: dict[Kind, str] = {"kill": "killed command", "mutation": "damaged file"}
    rows = {kind: list(count_rows(verdicts, kind)) for kind in heads}
    tables = [
        as_markdown(Table(name, "", "otflam campaign", [name, "cases", *PASSED, *FAILED], rows[kind]))
        for kind, name in heads.items()
        if len(rows[kind]) > 1
    ]
    failed = sum(verdict.failed for verdict in verdicts)
    return "\n".join([*tables, f"{len(verdicts):,} cases, {failed} failures, {minutes:.1f} minutes (seed {seed})"])


def fill_page(page: Path, counts: str) -> None:
    """Put the counts where a page wants them."""
    text = page.read_text(encoding="utf-8")
    if not PLACE.search(text):
        raise UserError(f"{page} has no place for the counts", "see docs/reliability.md for its marks")
    write_text(page, PLACE.sub(lambda place: f"{place[1]}{counts}\n{place[2]}", text))
