"""Tables of vocabularies that were learned on some domains and tested on all."""

from __future__ import annotations

from pathlib import Path

from otflam.evaluate import Record, chosen
from otflam.report.tables_models import NONE, Body

ALL, BUT = "all", "all-but-"
"""What a vocabulary was trained on, beside single domains."""
ERROR, STILL = "nmse_", "still_nmse_"


def domains_of(records: list[Record]) -> list[str]:
    """The domains that something was tested on, in the order of names."""
    return sorted({name.removeprefix(ERROR) for each in records for name in each["metrics"] if name.startswith(ERROR)})


def order_of(record: Record) -> tuple:
    """All domains first, then all but one, then each alone; OTF before its counterpart."""
    task = record["task"]
    return record["method"] != "otf", task != ALL, not task.startswith(BUT), task, -record["codes"]


def rows_of(folder: Path, preset: str, prefix: str) -> Body:
    records = chosen(folder, "general", preset)
    domains = domains_of(records)
    rows = [
        [
            record["task"].replace("-", " "),
            record["method"],
            str(record["codes"]),
            *(f"{record['metrics'][prefix + domain]:.2f}" for domain in domains),
            *([f"{record['metrics']['nmse']:.3f}"] if prefix == ERROR else []),
        ]
        for record in sorted(records, key=order_of)
    ]
    return ["trained on", "method", "K", *domains, *(["mean"] if prefix == ERROR else [])], rows


def general_table(folder: Path, preset: str) -> Body:
    """nMSE on the held-out episodes of every domain."""
    return rows_of(folder, preset, ERROR)


def stillness_table(folder: Path, preset: str) -> Body:
    """The same of still patches alone, for what was trained on all."""
    head, rows = rows_of(folder, preset, STILL)
    return head, [row for row in rows if row[0] == ALL]


def left_out_table(folder: Path, preset: str) -> Body:
    """What it costs a vocabulary that it never saw a domain."""
    records = chosen(folder, "general", preset)
    rows = []
    for method in sorted({each["method"] for each in records}, reverse=True):
        usual = min((each["codes"] for each in records if each["method"] == method), default=0)
        mine = {each["task"]: each for each in records if each["method"] == method and each["codes"] == usual}
        for domain in domains_of(records):
            pair = [mine.get(domain), mine.get(BUT + domain)]
            own, without = errors = [None if each is None else each["metrics"][ERROR + domain] for each in pair]
            rise = NONE if own is None or without is None else f"{100 * (without / own - 1):+.0f}"
            rows.append([domain, method, *(NONE if each is None else f"{each:.3f}" for each in errors), rise])
    return ["domain", "method", "own vocabulary", "left out", "rise %"], [row for row in rows if row[2:4] != [NONE] * 2]
