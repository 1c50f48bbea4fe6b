"""Every table and figure of the paper, and our own, as a plan of cells; and the demo, which runs some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from otflam.core import Launcher, Progress, UserError, read_release, use_one_thread
from otflam.data import Clips, Store
from otflam.envs import INSTALL_GAMES, World, episode_seed, games_installed, make_policy, open_world, play_episode
from otflam.evaluate import CONTROL, DIGITS, read_records
from otflam.experiments import tokenizers
from otflam.experiments.cells import PlannedCell, Site, check_failures, run_cells
from otflam.experiments.datasets import Lab
from otflam.experiments.plans import (
    Plan,
    every,
    plan_ambiguity,
    plan_convergence,
    plan_demo,
    plan_games,
    plan_general,
    plan_labels,
    plan_pictures,
    plan_shapes,
)
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
    write_video,
)
from otflam.tokenizer import OTF, load_tokenizer, motion_clips


@dataclass(frozen=True)
class Study:
    """One of the paper's results."""

    about: str
    plan: Plan
    """Its cells at a preset."""
    draw: Callable[[Lab], Iterator[Path]] = lambda lab: iter(())
    """Pictures that need more than records."""


APART = ("ambiguity", "games", "general", "labels", "shapes", "suite", "weights")
"""Studies of other worlds and methods than the paper's."""


def plan_all(preset: Preset) -> list[PlannedCell]:
    """Everything once, the cheap and telling first."""
    studies = [study for name, study in STUDIES.items() if name not in ("all", *APART)]
    return list(dict.fromkeys(planned for study in studies for planned in study.plan(preset)))


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
        "actions and distractors read from latents, with control rows (ours)",
        lambda preset: every("alignments", "alignment")(preset) + every("readers", "alignment")(preset),
    ),
    "innovation": Study(
        "what latents know that no state could tell, beside true ceilings (ours)", every("innovations", "innovation")
    ),
    "ambiguity": Study(
        "whose action? both of two bodies' actions read from latents, and one distractor at a time (ours)",
        plan_ambiguity,
    ),
    "games": Study("games: which choice was made, who is named, and who plays (ours)", plan_games),
    "general": Study(
        "one vocabulary of motion for anything, domain by domain; and latent actions on it (ours)", plan_general
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
    "weights": Study("how much heard labels count, by validation episodes (ours)", every("weights", "weights")),
    "labels": Study("labels inside the training, with and without (ours)", plan_labels),
    "shapes": Study("variants that learn most in a second, beside what they vary (ours)", plan_shapes),
    "all": Study(
        f"all of the paper's, and what belongs to them: not {', '.join(APART[:-1])} and {APART[-1]}",
        plan_all,
        draw_pictures,
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
    yield film_game(out / "game.mp4")
    yield f"the report, to open in a browser: {make_page(out, records, preset.name, out / 'report')}"
    check_failures(failed)


FILM_SECONDS, FILMED = 10, "procgen-coinrun"


def film_game(out: Path) -> str:
    """Ten seconds of a game, if games are there; what came of it."""
    if not games_installed():
        return f"no game is shown, since the games are not installed: {INSTALL_GAMES}"
    with closing(open_world(World(FILMED))) as env:
        policy, frames = make_policy("scripted", env), FILM_SECONDS * env.facts.fps
        levels: list[np.ndarray] = []
        while sum(map(len, levels)) < frames:
            levels.append(play_episode(env, policy, episode_seed(0, len(levels))).frames)
        film = write_video(np.concatenate(levels)[:frames], Fraction(env.facts.fps), out)
    return f"{FILM_SECONDS} seconds of {FILMED}: {film}"


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
