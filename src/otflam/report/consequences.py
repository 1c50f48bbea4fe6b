"""The form of a verdict, and what follows from it: one sentence for each kind of claim and each status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["holds", "fails", "open", "unmeasured"]
Decided = tuple[str, str, str]
"""What follows if a claim holds, if it fails, and if it is open."""

FOLLOWS: dict[str, Decided] = {
    "transfer": (
        "Codes of local effects carry over to what they were not learned on better than codes of whole pictures.",
        "Codes of whole pictures carry over better here than codes of local effects.",
        "Neither vocabulary can be told from the other here.",
    ),
    "carrier": (
        "A code says how something moves, whatever it is that moves.",
        "Codes are not names of motion alone: they also tell what moves, or no more of the motion than it does itself.",
        "Whether codes are names of motion alone is undecided.",
    ),
    "left out": (
        "One vocabulary can be learned once, for what nobody has thought of too.",
        "What a vocabulary has not seen it serves worse: it should learn from all kinds of motion, or from one's own.",
        "Whether a vocabulary serves what it has not seen is not known for all domains.",
    ),
    "vocabulary": (
        "Nobody needs a vocabulary of the task's own for latent actions.",
        "Latent actions are worth a vocabulary of the task's own.",
        "Whether latent actions need a vocabulary of the task's own is undecided.",
    ),
    "health": (
        "All models may be compared: none of them ignores its latent.",
        "Until the models named here predict better, their other results say little about their methods.",
        "Which models may be compared is undecided.",
    ),
    "decoding": (
        "With few labels these latents are the better ground for naming actions on this task.",
        "These latents are not the better ground for naming actions on this task.",
        "Which latents are the better ground for naming actions on this task is undecided.",
    ),
    "gain": (
        "On this task latents add something to what a look at the present tells.",
        "On this task a look at the present can tell more than the best latents do.",
        "Whether latents always add something to what a look at the present tells is undecided on this task.",
    ),
    "leakage": (
        "On this task factorising keeps the camera out of the latent.",
        "On this task factorising lets more of the camera into the latent.",
        "Both know too nearly the same of the camera for it to explain anything on this task.",
    ),
    "serving": (
        "One latent serves whichever body labels are of, as the paper's thesis has it.",
        "The thesis that one latent serves whichever body labels are of is refuted in at least one world.",
        "Whether one latent serves whichever body labels are of is undecided.",
    ),
    "naming": (
        "Monolithic latents name what moves most, whoever the agent is, as the paper's thesis has it.",
        "Who moves more does not decide what monolithic latents name.",
        "Who moves more decides in some worlds only what monolithic latents name.",
    ),
    "reading": (
        "Some latents add to what a look at the present tells of both bodies.",
        "No latents add to what a look at the present tells of both bodies.",
        "Some latents add to what a look at the present tells of both bodies, but not in every world.",
    ),
    "hearing": (
        "A few labels are better spent inside the training than after it.",
        "Labels inside the training are no help to this method.",
        "Whether labels inside the training help this method is undecided.",
    ),
    "mover": (
        "In games, monolithic latents name the agent.",
        "In games, monolithic latents name something else than the agent.",
        "Whom monolithic latents name depends on the game.",
    ),
    "choices": (
        "In games, some latents add to what a look at the present tells of choices.",
        "In some game a look at the present tells more of choices than the best latents do.",
        "Whether latents add to what a look at the present tells of choices is undecided.",
    ),
    "earning": (
        "In games, factorised latents are the better way to an agent.",
        "In some game factorised latents are the worse way to an agent.",
        "In some games only, or nowhere surely, factorised latents are the better way to an agent.",
    ),
    "returns": (
        "On this task the paper's methods make more of videos without labels than their rivals.",
        "On this task, at this size, a simpler rival earns more than each of the paper's methods at every budget.",
        "On this task, at this size, an advantage of the paper's methods can be neither shown nor excluded.",
    ),
    "pipeline": (
        "What is lost with distractors is lost to them and not to the machinery.",
        "The machinery itself loses much, so that low returns with distractors are not their doing alone.",
        "Too few seeds are recorded to clear the machinery.",
    ),
}


@dataclass(frozen=True)
class Verdict:
    """What the records say of one claim."""

    claim: str
    ours: str
    """What we measured, with intervals."""
    paper: str
    """What the paper prints, or a dash."""
    status: Status
    """`open`: measured, but the intervals do not decide; `unmeasured`: records are missing."""
    how: str
    """The rule that decided."""
    short: str = ""
    """What we measured in a sentence, where all of it is too much for one."""
    kind: str = ""
    """What follows from it."""

    @property
    def follows(self) -> str:
        """The consequence in a sentence."""
        decided = ("holds", "fails", "open")
        return FOLLOWS[self.kind][decided.index(self.status)] if self.status in decided and self.kind else ""
