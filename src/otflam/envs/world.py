"""What a world is: the task, and everything that decides how its frames look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import tyro

from otflam.core import require_name

Difficulty = Literal["vanilla", "easy", "medium", "hard", "scale_easy_video_hard"]
Quality = Literal["fast", "reference"]
Split = Literal["train", "validation"]


@dataclass(frozen=True)
class World:
    task: tyro.conf.Positional[str] = "cheetah-run"
    """dm_control suite task as DOMAIN-TASK, e.g. cheetah-run or walker-run, or a task of another world."""
    difficulty: Difficulty = "scale_easy_video_hard"
    """Distractors: none (vanilla), the three published levels, or weak camera and colour with all videos."""
    dynamic: bool = True
    """Whether distractors move during an episode; static ones are drawn once per episode."""
    size: int = 64
    """Height and width of a frame in pixels."""
    quality: Quality = "fast"
    """fast drops shadows, reflections and multisampling and uses a small sky box; reference renders as the original."""
    backgrounds: str = "builtin"
    """Background videos: the built-in set, or a folder (DAVIS-2017, or any folder of videos or image folders)."""
    split: Split = "train"
    """Which of the background videos to use."""
    camera: int = 0
    """Number of the task's camera."""

    def __post_init__(self) -> None:
        for kind, choices in {"difficulty": Difficulty, "quality": Quality, "split": Split}.items():
            require_name(kind, getattr(self, kind), get_args(choices))
