"""Every table and figure of the paper, and our own, as a plan of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from otflam.core import use_one_thread
from otflam.data import Store
from otflam.evaluate import BASELINE, BOUNDS, CONTROL, DIGITS, GROUNDED, OURS, REFERENCES
from otflam.experiments import tokenizers
from otflam.experiments.cells import KINDS, Site, Task
from otflam.experiments.datasets import distracting
from otflam.experiments.pictures import draw_vocabulary
from otflam.presets import preset
from otflam.report import draw_strips
from otflam.tokenizer import load_tokenizer, motion_clips


@dataclass(frozen=True)
class Study:
    """One of the paper's results."""

    about: str
    tasks: Callable[[str], list[Task]]
    """The cells of a preset."""
    draw: Callable[[Site], Iterator[Path]] = lambda site: iter(())
    """Pictures that need more than records."""


def planned(kind: str, experiment: str) -> Callable[[str], list[Task]]:
    """All jobs of an experiment."""
    return lambda size: [Task(kind, job) for job in KINDS[kind].plan(size, experiment)]


def baseline_tasks(size: str) -> list[Task]:
    """Models first, so that no policy waits for one."""
    return planned("lams", "lam")(size) + planned("agents", "control")(size)


def convergence_tasks(size: str) -> list[Task]:
    """Curves of cloning, and of decoding at every budget."""
    worlds, main, first = distracting(size), GROUNDED, preset(size).compared[0]
    cloned = [task for task in planned("agents", "control")(size) if task.job.labels == first]
    return [
        task
        for task in planned("alignments", "alignment")(size) + cloned
        if task.job.data in worlds and task.job.method in main
    ]


def picture_tasks(size: str) -> list[Task]:
    """The tokenizers that pictures are drawn with: of the motion that the preset's own have."""
    tasks, chosen = planned("tokenizers", "transfer")(size), preset(size)
    shown = {CONTROL[0]: chosen.tokenizer.motion, DIGITS[0]: chosen.digit_tokenizer.motion}
    return [task for task in tasks if task.job.seed == 0 and task.job.model.motion == shown[task.job.source]]


def all_tasks(size: str) -> list[Task]:
    """Everything once, the cheap and telling first."""
    every = [task for name, study in STUDIES.items() if name != "all" for task in study.tasks(size)]
    return list(dict.fromkeys(every))


def story(size: str) -> str:
    """The data set of the demo's latent actions and policies."""
    return next(data for data in distracting(size) if data.startswith("cheetah-run"))


def demo_tasks(size: str) -> list[Task]:
    """The whole story on one task, with one seed: a vocabulary, its transfer, latent actions, agents, references."""
    first, data = preset(size).compared[0], story(size)
    words = [task for task in picture_tasks(size) if task.job.source in CONTROL]
    models = [task for task in planned("lams", "lam")(size) if task.job.data == data]
    played = [
        task
        for task in planned("agents", "control")(size)
        if task.job.data == data and task.job.seed == 0 and task.job.labels in (0, first)
    ]
    wanted = {OURS[0], BASELINE, *REFERENCES, *BOUNDS}
    return words + [task for task in models + played if task.job.method in wanted]


def draw_pictures(site: Site) -> Iterator[Path]:
    """Appendix D: motion inputs, the codebook, codes in place, and strips on bodies and digits never seen."""
    for pair in (CONTROL, DIGITS):
        yield from draw_vocabularies(site, pair)


def draw_vocabularies(site: Site, pair: tuple[str, str]) -> Iterator[Path]:
    """Pictures of what was learned on the first data set of a pair, and of its transfer to the second."""
    folders = _trained_on(site, pair[0])
    data, out = site.root / "data" / pair[0], site.root / "pictures" / pair[0]
    yield from draw_vocabulary(data, folders["otf"], folders["monolithic"], out)
    yield draw_transfer(site, pair)


def draw_transfers(site: Site) -> Iterator[Path]:
    """Figure dcs_transfer: motion of another body and of other digits, redrawn from codes."""
    return (draw_transfer(site, pair) for pair in (CONTROL, DIGITS))


def draw_transfer(site: Site, pair: tuple[str, str]) -> Path:
    """How both tokenizers of the first data set of a pair redraw the motion of the second."""
    source, target = pair
    models = {method: load_tokenizer(folder) for method, folder in _trained_on(site, source).items()}
    clips = motion_clips(Store(site.root / "data" / target), models["otf"].config)
    out = site.root / "pictures" / f"{source}-to-{target}.png"
    return draw_strips(models, clips, f"Learned on {source}, applied to {target}", out)


def _trained_on(site: Site, source: str) -> dict[str, Path]:
    """The tokenizers of a data set, by method."""
    use_one_thread()  # one that is missing is trained as in a cell, to the same bits
    jobs = {task.job.model.method: task.job for task in picture_tasks(site.size) if task.job.source == source}
    return {
        method: tokenizers.trained(site.root, site.size, source, job.model, job.seed)[1] for method, job in jobs.items()
    }


STUDIES = {
    "transfer": Study(
        "motion vocabularies applied to other bodies and digits (Table 1, figure dcs_transfer)",
        planned("tokenizers", "transfer"),
        draw_transfers,
    ),
    "pictures": Study(
        "motion inputs, codebook, codes in place, zero-shot strips (appendix D)", picture_tasks, draw_pictures
    ),
    "tokenizer": Study(
        "codes of every vocabulary size and what the paper left open (ours)", planned("tokenizers", "tokenizer")
    ),
    "carrier": Study(
        "what codes of moving digits know: the motion, not the digit (ours)", planned("tokenizers", "carrier")
    ),
    "lam": Study("every latent action model: does it use its latent? (ours)", planned("lams", "lam")),
    "convergence": Study("cloning and decoding against steps (figure converge)", convergence_tasks),
    "alignment": Study(
        "actions and distractors read from latents, with control rows (ours)", planned("alignments", "alignment")
    ),
    "innovation": Study(
        "what latents know that no state could tell, beside true ceilings (ours)", planned("innovations", "innovation")
    ),
    "tuning": Study("how long to train on labels, by returns on validation seeds (ours)", planned("tuning", "tuning")),
    "baselines": Study(
        "returns of all methods and references (Table full_baseline, figure combined_result)", baseline_tasks
    ),
    "vocabulary": Study(
        "returns against the size of the vocabulary (Table full_ksweep)", planned("agents", "vocabulary")
    ),
    "supervision": Study("returns against labelled episodes (Table supervision)", planned("agents", "supervision")),
    "all": Study("all of these", all_tasks, draw_pictures),
}
