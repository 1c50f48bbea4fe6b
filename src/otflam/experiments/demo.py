"""The whole story in minutes, from an empty folder: what is there already is kept, so it can be interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from otflam.evaluate import CONTROL, read_records
from otflam.experiments.cells import Listener, Site, check_failures, run_cells
from otflam.experiments.datasets import Lab
from otflam.experiments.studies import draw_vocabularies, plan_demo
from otflam.presets import Preset
from otflam.report import contact_sheet, make_page


def run_demo(out: Path, preset: Preset, workers: int, told: Listener) -> Iterator[str]:
    """Tell the story, a line for each result: data, vocabulary, its transfer, latent actions, agents, the page."""
    lab, plan, records = Lab(out, preset), plan_demo(preset), out / "records"
    failed = run_cells(Site(lab, records, workers), plan, f"otflam demo --preset {preset.name}", told)
    for name in dict.fromkeys(name for planned in plan for name in planned.needs):
        store = lab.store(name)
        returns = [episode["return"] for episode in store.episodes]
        sheet = contact_sheet(store, out / f"{name}.png", f"{name}, {store.rows} frames")
        yield f"{name}: {len(store)} episodes, {store.rows} frames, return {sum(returns) / len(returns):.0f}: {sheet}"
    for path in draw_vocabularies(lab, CONTROL):
        yield f"picture: {path}"
    yield from numbers_that_matter(records)
    yield f"the report, to open in a browser: {make_page(out, records, preset.name, out / 'report')}"
    check_failures(failed)


def numbers_that_matter(records: Path) -> Iterator[str]:
    """What the demo measured, from its records."""
    source, target = CONTROL
    for record in read_records(records, "transfer"):
        found = record["metrics"]
        yield (
            f"{record['method']}: normalised error {found['source_nmse']:.2f} on {source}, "
            f"{found['target_nmse']:.2f} on {target} (rise {100 * found['drop_normalised']:.0f} %)"
        )
    for record in read_records(records, "lam"):
        right, copied = (record["metrics"][f"gain_over_{other}"] for other in ("shuffled", "copied"))
        yield (
            f"{record['method']}: its error on {record['task']} is {below(right)} that with another transition's "
            f"latent, {below(copied)} that of copying the frame"
        )
    played = sorted(read_records(records, "control"), key=lambda record: record["metrics"]["return_mean"])
    for record in played:
        labels = f" with {record['labels']} labelled episodes" if record["labels"] else ""
        count = len(record["metrics"]["returns"])
        yield f"return of {record['method']}{labels}: {record['metrics']['return_mean']:.1f} ({count} episodes)"


def below(share: float) -> str:
    return f"{100 * abs(share):.0f} % {'below' if share >= 0 else 'above'}"
