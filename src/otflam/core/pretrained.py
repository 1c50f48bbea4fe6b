"""What is trained, as a folder that can be put on the Hugging Face Hub."""

from __future__ import annotations

import tempfile
from pathlib import Path

from otflam.core.card import model_card
from otflam.core.errors import UserError
from otflam.core.files import digest_file, read_json
from otflam.core.hub import CARD, FILES, push_files
from otflam.core.release import CONFIG, WEIGHTS, check_digest


class Pretrained:
    """What is saved as a folder, and can be put on the hub."""

    source: Path | None = None
    """The folder that it was loaded from, which says more than what is saved of it."""

    def save_pretrained(self, folder: str | Path) -> None:
        raise NotImplementedError

    def push_to_hub(self, name: str, *, private: bool = False, licence: str | None = None) -> str:
        """Put it on the Hugging Face Hub as USER/NAME, with a card; gives its address."""
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return push_release(self._said_by_training(Path(folder)), name, private=private, licence=licence)

    def _said_by_training(self, saved: Path) -> Path:
        """The folder that it came from, if that has the very same weights: its training and health are told there."""
        here = self.source
        same = here is not None and digest_file(here / WEIGHTS) == digest_file(saved / WEIGHTS)
        return here if here is not None and same else saved


def push_release(folder: Path, name: str, *, private: bool = False, licence: str | None = None) -> str:
    """Put a trained tokenizer, model or agent on the hub; a README.md of its own is its card."""
    check_release(folder)
    files: dict[str, Path | bytes] = {file: folder / file for file in FILES["model"] if (folder / file).exists()}
    own, health = folder / CARD, folder / "health.json"
    about = read_json(folder / CONFIG, "train it again")
    scores = read_json(health, "train it again") if health.exists() else {}
    made = model_card(name, about, scores, licence or "apache-2.0").encode()
    return push_files(files | {CARD: own if own.exists() else made}, name, "model", private=private)


def check_release(folder: Path) -> None:
    """Refuse what is no trained tokenizer, model or agent, and files that are not those that were saved."""
    cure = "give the folder of a trained tokenizer, model or agent"
    about = read_json(folder / CONFIG, cure)
    if not isinstance(about, dict) or not isinstance(about.get("kind"), str):
        raise UserError(f"{folder} holds nothing that otflam has made", cure)
    if not (folder / WEIGHTS).exists():
        raise UserError(f"{folder} has no {WEIGHTS}", "run the command that was training it again, or fetch it again")
    check_digest(folder)
