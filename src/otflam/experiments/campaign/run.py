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
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from otflam.core import UserError, run_jobs, stable_hash
from otflam.experiments.campaign.judging import FAILED, PASSED, Verdict, harmed, judge, last_line, stopped_badly
from otflam.experiments.campaign.mutations import alter
from otflam.experiments.campaign.process import Death, Ended, run_command
from otflam.experiments.campaign.samples import FOREIGN, SAMPLES, WORKS, Reader, Sample, Work, readable

Kind = Literal["kill", "mutation"]
KINDS: tuple[Kind, ...] = ("kill", "mutation")
SLACK, LEAST = 10, 20.0
"""A case hangs if it takes this many times as long as with the intact file, and at least so many seconds."""
TORN = re.compile(r"\.tmp$|(^|/)\.lock$")
HASHED = re.compile(r"-[0-9a-f]{12}-[0-9a-f]{12}\b")
"""In the name of a derived column: another name alone is no other result."""
SKIPPED = shutil.ignore_patterns("tensorboard", ".lock", "sheet.png")


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

    @property
    def samples(self) -> list[Sample]:
        return [sample for sample in SAMPLES if readable(sample.needs)]

    @property
    def works(self) -> list[Work]:
        return [work for work in WORKS if readable(work.needs)]

    def sample(self, number: int) -> Sample:
        """What a mutation is of."""
        return self.samples[number % len(self.samples)]

    def work(self, number: int) -> Work:
        """What is killed."""
        return self.works[number % len(self.works)]

    def readers(self, case: str) -> list[tuple[tuple[str, ...], Reader]]:
        """The commands whose undamaged results a case may be compared with, and what they need."""
        kind, number = parse_case(case)
        if kind == "mutation":
            return [(self.sample(number).needs, reader) for reader in self.sample(number).readers]
        return [(self.work(number).needs, Reader(self.work(number).words, self.work(number).results))]


def matching(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    """Files of ours that fit some patterns, in a fixed order."""
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return sorted(path for path in found if not TORN.search(path.as_posix()) and path.name != "sheet.png")


def run_campaign(
    plan: Plan, cases: list[str], workers: int, on_part: Callable[[str], Callable[[int, int], None]]
) -> list[Verdict]:
    """Run cases such as kill-0 or mutation-17; the verdicts are in their order."""
    commands = list(dict.fromkeys(each for case in cases for each in plan.readers(case)))
    reach, intact = on_part("undamaged"), {}
    for number, found in run_jobs(Undamaged, (plan, commands), range(len(commands)), workers, method="fork"):
        intact[commands[number]] = found
        reach(len(intact), len(commands))
    reach, verdicts = on_part("cases"), {}
    for number, verdict in run_jobs(Tester, (plan, cases, intact), range(len(cases)), workers, method="fork"):
        verdicts[number] = verdict
        reach(len(verdicts), len(cases))
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

    def __call__(self, number: int, tick: Callable[[], None]) -> Intact:
        needs, reader = self.commands[number]
        place = self.plan.scratch / f"intact-{number}"
        copy_needs(self.plan.folder, needs, place)
        ended = run_command(shlex.split(reader.words), place, 10 * LEAST, count=True)
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
    files = {name: path for name, path in found.items() if path.is_file() and not TORN.search(name)}
    return {name: hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() for name, path in files.items()}


def result_of(ended: Ended, place: Path, reader: Reader) -> dict[str, str]:
    """What a command said and made."""
    made = digests(place, reader.results)
    made |= {name: content_of(place / name) for name in made if name.endswith("meta.json")}
    return {HASHED.sub("", name): digest for name, digest in made.items()} | {"said": HASHED.sub("", ended.said)}


def content_of(meta: Path) -> str:
    """What a data set holds; not where an episode lies, for one that was damaged is written again behind the others."""
    checked = run_command(["data", "check", meta.parent.name], meta.parent.parent, 10 * LEAST)
    told = json.loads(meta.read_text(encoding="utf-8"))
    for episode in told["episodes"]:
        del episode["start"]
    return checked.complained + stable_hash({**told, "digest": None})


class Tester:
    """One worker that runs cases."""

    def __init__(self, plan: Plan, cases: list[str], intact: dict[tuple[tuple[str, ...], Reader], Intact]) -> None:
        self.plan, self.cases, self.intact = plan, cases, intact

    def __call__(self, index: int, tick: Callable[[], None]) -> Verdict:
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
        sample = self.plan.sample(number)
        files = matching(self.plan.folder, sample.files)
        file = files[int(rng.integers(len(files)))].relative_to(self.plan.folder).as_posix()
        reader = sample.readers[int(rng.integers(len(sample.readers)))]
        intact = self.intact[sample.needs, reader]
        copy_needs(self.plan.folder, sample.needs, place)
        alteration = alter(place / file, rng)
        before = digests(place)
        ended = run_command(shlex.split(reader.words), place, max(LEAST, SLACK * intact.seconds))
        lost = harmed(before, digests(place), reader.writes if ended.code == 0 else ())
        outcome, message = judge(ended, file, result_of(ended, place, reader) == intact.result, lost)
        absent = sample.optional and alteration.about == "delete"
        if outcome == "silent" and (alteration.resealed or absent or sample in FOREIGN):
            outcome = "other"
        return Verdict(case, sample.name, outcome, f"{file}: {alteration.about}; otflam {reader.words}", message)

    def kill(self, case: str, number: int, rng: np.random.Generator, place: Path) -> Verdict:
        """Stop a command once or twice, run it to its end, and compare with what was never stopped."""
        work = self.plan.work(number)
        reader = Reader(work.words, work.results)
        intact = self.intact[work.needs, reader]
        copy_needs(self.plan.folder, work.needs, place)
        before = digests(place)
        words, limit, said = shlex.split(work.words), max(LEAST, SLACK * intact.seconds), []
        for _ in range(int(rng.integers(1, 3))):
            death = draw_death(rng, intact)
            ended = run_command(words, place, limit, death)
            said.append(told(death, ended))
            if (problem := stopped_badly(ended, death)) is not None:
                return Verdict(case, work.name, problem, f"otflam {work.words}; {', '.join(said)}", last_line(ended))
        ended = run_command(words, place, limit)
        # What it says may differ, for it tells only of what it did itself.
        same = result_of(ended, place, reader) | {"said": ""} == intact.result | {"said": ""}
        outcome, message = judge(ended, work.words, same, harmed(before, digests(place), ()))
        if outcome == "refused":  # nothing was damaged, so that nothing is to be refused
            outcome = "crash"
        torn = [path.name for path in place.rglob("*.tmp")]
        if outcome == "same" and torn:
            outcome, message = "harm", f"left over: {', '.join(torn)}"
        return Verdict(case, work.name, outcome, f"otflam {work.words}; {', '.join(said)}", message)


def draw_death(rng: np.random.Generator, intact: Intact) -> Death:
    """Half of all deaths at a random time, half at a random operation on a file; most of them without a warning."""
    sign = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT], p=(0.7, 0.15, 0.15))
    if rng.random() < 0.5:
        return Death(int(sign), after=float(rng.uniform(0, intact.seconds)))
    return Death(int(sign), event=int(rng.integers(intact.events)))


def told(death: Death, ended: Ended) -> str:
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
