"""Every table and figure of the paper, and our own, as a plan of cells; and the demo, which runs some of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from otflam.core import Launcher, Progress, UserError, read_release, use_one_thread
from otflam.data import Clips, Store
from otflam.evaluate import (
    BASELINE,
    BODIES,
    BOUNDS,
    CONTROL,
    DIGITS,
    GROUNDED,
    OURS,
    REFERENCES,
    names,
    read_records,
    redrawn_as,
)
from otflam.experiments import lams, tokenizers
from otflam.experiments.agents import SEEDS, Job
from otflam.experiments.cells import KINDS, PlannedCell, Site, check_failures, run_cells
from otflam.experiments.datasets import Lab, distracting, redrawn
from otflam.lam import LAM_KIND, Backbone, load_lam
from otflam.presets import Preset
from otflam.report import (
    contact_sheet,
    draw_assignments,
    draw_atlas,
    draw_codebook,
    draw_motion_inputs,
    draw_predictions,
    draw_rollout,
    draw_strips,
    make_page,
)
from otflam.tokenizer import OTF, load_tokenizer, motion_clips

Plan = Callable[[Preset], list[PlannedCell]]


@dataclass(frozen=True)
class Study:
    """One of the paper's results."""

    about: str
    plan: Plan
    """Its cells at a preset."""
    draw: Callable[[Lab], Iterator[Path]] = lambda lab: iter(())
    """Pictures that need more than records."""


def every(kind: str, experiment: str) -> Plan:
    """All cells of an experiment."""
    return lambda preset: [PlannedCell(kind, job) for job in KINDS[kind].plan(preset, experiment)]


def plan_convergence(preset: Preset) -> list[PlannedCell]:
    """Curves of cloning, and of decoding at every budget."""
    worlds, main, first = distracting(preset), GROUNDED, preset.compared[0]
    cloned = [planned for planned in every("agents", "control")(preset) if planned.job.labels == first]
    return [
        planned
        for planned in every("alignments", "alignment")(preset) + cloned
        if planned.job.data in worlds and planned.job.method in main
    ]


def plan_pictures(preset: Preset) -> list[PlannedCell]:
    """The tokenizers that pictures are drawn with: of the motion that the preset's own have."""
    shown = {CONTROL[0]: preset.tokenizer.motion, DIGITS[0]: preset.digit_tokenizer.motion}
    plan = every("tokenizers", "transfer")(preset)
    return [
        planned for planned in plan if planned.job.seed == 0 and planned.job.model.motion == shown[planned.job.source]
    ]


def plan_shapes(preset: Preset) -> list[PlannedCell]:
    """Variants that learn more in a second than what they vary: healthy, and what do their latents know?"""
    noisy, plain, variants = distracting(preset), redrawn(preset), lams.variants(preset)
    models = [PlannedCell("lams", lams.Job(name, data)) for data in (*noisy, *plain) for name in variants]
    # With distractors no latent knows anything of innovations, without them actions follow from states.
    read = itertools.product([("alignments", noisy), ("innovations", plain)], variants, preset.compared, SEEDS)
    return models + [
        PlannedCell(kind, Job(name, data, labels, seed))
        for (kind, worlds), name, labels, seed in read
        for data in worlds
    ]


def plan_ambiguity(preset: Preset) -> list[PlannedCell]:
    """What latents know of two bodies, audits of their models, who plays beside a rival; then single distractors."""
    read, played = every("ambiguities", "ambiguity")(preset), every("agents", "ambiguity")(preset)
    beside = [planned for planned in read if redrawn_as(planned.job.data) in BODIES]
    models = [PlannedCell("lams", lams.Job(planned.job.method, planned.job.data)) for planned in beside]
    first = [planned for planned in played if redrawn_as(planned.job.data) in BODIES]
    return list(dict.fromkeys([*beside, *models, *first, *read, *played]))


APART = ("ambiguity", "shapes", "suite")
"""Studies of other worlds and methods than the paper's."""


def plan_all(preset: Preset) -> list[PlannedCell]:
    """Everything once, the cheap and telling first."""
    studies = [study for name, study in STUDIES.items() if name not in ("all", *APART)]
    return list(dict.fromkeys(planned for study in studies for planned in study.plan(preset)))


def plan_demo(preset: Preset) -> list[PlannedCell]:
    """The whole story on one task, with one seed: a vocabulary, its transfer, latent actions, agents, references."""
    first, data = preset.compared[0], next(data for data in distracting(preset) if data.startswith("cheetah-run"))
    words = [planned for planned in plan_pictures(preset) if planned.job.source in CONTROL]
    models = [planned for planned in every("lams", "lam")(preset) if planned.job.data == data]
    played = [
        planned
        for planned in every("agents", "control")(preset)
        if planned.job.data == data and planned.job.seed == 0 and planned.job.labels in (0, first)
    ]
    ours, baseline = ([planned for planned in models if planned.job.method == name] for name in (OURS[0], BASELINE))
    agents = [each for each in played if each.job.method in (OURS[0], BASELINE, *REFERENCES, *BOUNDS)]
    # The longest first and the shortest last, so that at the end no core waits long for the other.
    turn = {names.IDM: 0, **dict.fromkeys(names.UNTRAINED, 2)}
    return ours + words + baseline + sorted(agents, key=lambda planned: turn.get(planned.job.method, 1))


def draw_pictures(lab: Lab) -> Iterator[Path]:
    """Appendix D: motion inputs, the codebook, codes in place, and strips on bodies and digits never seen."""
    for pair in (CONTROL, DIGITS):
        yield from draw_vocabularies(lab, pair)


def draw_vocabularies(lab: Lab, pair: tuple[str, str]) -> Iterator[Path]:
    """Pictures of what was learned on the first data set of a pair, and of its transfer to the second."""
    folders = _trained_on(lab, pair[0])
    data, out = lab.root / "data" / pair[0], lab.root / "pictures" / pair[0]
    yield from draw_vocabulary(data, folders["otf"], folders["monolithic"], out)
    yield draw_transfer(lab, pair)


def draw_transfer(lab: Lab, pair: tuple[str, str]) -> Path:
    """How both tokenizers of the first data set of a pair redraw the motion of the second."""
    source, target = pair
    models = {method: load_tokenizer(folder) for method, folder in _trained_on(lab, source).items()}
    clips = motion_clips(lab.store(target), models["otf"].config)
    out = lab.root / "pictures" / f"{source}-to-{target}.png"
    return draw_strips(models, clips, f"Learned on {source}, applied to {target}", out)


def _trained_on(lab: Lab, source: str) -> dict[str, Path]:
    """The tokenizers of a data set, by method."""
    use_one_thread()  # one that is missing is trained as in a cell, to the same bits
    jobs = [planned.job for planned in plan_pictures(lab.preset) if planned.job.source == source]
    return {job.model.method: tokenizers.trained(lab, source, job.model, job.seed)[1] for job in jobs}


STUDIES = {
    "transfer": Study(
        "motion vocabularies applied to other bodies and digits (Table 1, figure dcs_transfer)",
        every("tokenizers", "transfer"),
        lambda lab: (draw_transfer(lab, pair) for pair in (CONTROL, DIGITS)),
    ),
    "pictures": Study(
        "motion inputs, codebook, codes in place, zero-shot strips (appendix D)", plan_pictures, draw_pictures
    ),
    "tokenizer": Study(
        "codes of every vocabulary size and what the paper left open (ours)", every("tokenizers", "tokenizer")
    ),
    "carrier": Study(
        "what codes of moving digits know: the motion, not the digit (ours)", every("tokenizers", "carrier")
    ),
    "lam": Study("every latent action model: does it use its latent? (ours)", every("lams", "lam")),
    "convergence": Study("cloning and decoding against steps (figure converge)", plan_convergence),
    "alignment": Study(
        "actions and distractors read from latents, with control rows (ours)", every("alignments", "alignment")
    ),
    "innovation": Study(
        "what latents know that no state could tell, beside true ceilings (ours)", every("innovations", "innovation")
    ),
    "ambiguity": Study(
        "whose action? both of two bodies' actions read from latents, and one distractor at a time (ours)",
        plan_ambiguity,
    ),
    "suite": Study(
        "in which worlds can be seen what to do? all true actions imitated in each (ours)", every("agents", "suite")
    ),
    "tuning": Study("how long to train on labels, by returns on validation seeds (ours)", every("tuning", "tuning")),
    "baselines": Study(
        "returns of all methods and references (Table full_baseline, figure combined_result)",
        # Models first, so that no policy waits for one.
        lambda preset: every("lams", "lam")(preset) + every("agents", "control")(preset),
    ),
    "vocabulary": Study(
        "returns against the size of the vocabulary (Table full_ksweep)", every("agents", "vocabulary")
    ),
    "supervision": Study("returns against labelled episodes (Table supervision)", every("agents", "supervision")),
    "shapes": Study("variants that learn most in a second, beside what they vary (ours)", plan_shapes),
    "all": Study(
        "all of the paper's, and what belongs to them: not ambiguity, shapes and suite", plan_all, draw_pictures
    ),
}


def run_demo(out: Path, preset: Preset, workers: int, progress: Progress) -> Iterator[str]:
    """Run the demo, with a line for each result: data, vocabulary, its transfer, latent actions, agents, the page."""
    lab, plan, records = Lab(out, preset), plan_demo(preset), out / "records"
    failed = run_cells(Site(lab, records, Launcher(workers)), plan, f"otflam demo --preset {preset.name}", progress)
    for name in dict.fromkeys(name for planned in plan for name in planned.needs):
        store = lab.store(name)
        returns = [episode["return"] for episode in store.episodes]
        sheet = contact_sheet(store, out / f"{name}.png", f"{name}, {store.rows} frames")
        yield f"{name}: {len(store)} episodes, {store.rows} frames, return {sum(returns) / len(returns):.0f}: {sheet}"
    for path in draw_vocabularies(lab, CONTROL):
        yield f"picture: {path}"
    yield from demo_numbers(records)
    yield f"the report, to open in a browser: {make_page(out, records, preset.name, out / 'report')}"
    check_failures(failed)


def demo_numbers(records: Path) -> Iterator[str]:
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


INPUT_SETTINGS = ("motion", "grid", "patch", "channels")
"""What two tokenizers must share to redraw the same motion."""


def draw_vocabulary(data: Path, tokenizer: Path, against: Path | None, out: Path) -> Iterator[Path]:
    """Draw what a tokenizer knows; with another one, compare how both redraw the motion."""
    store, model = Store(data), load_tokenizer(tokenizer)
    if not isinstance(model, OTF):
        raise UserError(f"{tokenizer} is monolithic", "give a factorised tokenizer; --against takes the other")
    clips, stride = motion_clips(store, model.config), model.config.motion.stride
    yield draw_motion_inputs(Clips(store, (-stride, 0, stride)), stride, out / "motion.png")
    yield draw_codebook(model, out / "codebook.png")
    yield draw_assignments(model, clips, out / "assignments.png")
    yield draw_atlas(model, clips, out / "atlas.png")
    shown = {"OTF": model}
    if against is not None:
        other = load_tokenizer(against)
        if any(getattr(other.config, name) != getattr(model.config, name) for name in INPUT_SETTINGS):
            raise UserError(
                f"{against} sees other motion than {tokenizer} ({', '.join(INPUT_SETTINGS)})", "compare like with like"
            )
        shown["monolithic" if other.config.method == "monolithic" else "other"] = other
    yield draw_strips(shown, clips, f"Motion of {data.name}, redrawn from codes", out / "strips.png")


def draw_predictions_of(
    data: Path, folder: Path, backbone: Backbone | None, samples: int, steps: int, out: Path
) -> Iterator[Path]:
    """What a trained model predicts on held-out episodes, for one step and for many."""
    store, (model, parts) = Store(data), load_lam(folder, backbone)
    config = read_release(folder, LAM_KIND)
    parts.check_frames(store.columns["frames"].shape)
    train, held = config["episodes"] if config["data"] == store.hash else ([], [0])
    columns = model.columns(parts, store, [*train, *held])
    clips = Clips(store, model.offsets, (), held, columns)
    name = config["method"] + (f" ({config['backbone']['name']})" if config["backbone"] else "")
    title = f"{name} on {data.name}"
    yield draw_predictions({name: model}, clips, title, out, samples)
    strip = out.with_name(f"{out.stem}-rollout{out.suffix}")
    episode = Clips(store, model.offsets, (), held[:1], columns)
    yield draw_rollout(model, episode, f"{title}: imagined from latents", strip, steps)
