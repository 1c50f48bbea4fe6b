"""Commands that bring trained models and data sets to the Hugging Face Hub, and from there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from otflam.report import say


@dataclass(frozen=True)
class HubPush:
    """Put a tokenizer, model, agent or data set on the Hugging Face Hub, with a card that says what it is."""

    path: tyro.conf.Positional[Path]
    """Its folder; a README.md there is its card, else one is made. Checkpoints and logs stay here."""
    name: tyro.conf.Positional[str]
    """Its name there, as USER/NAME; what has it already is replaced."""
    private: bool = False
    """Show it only to its owner, if it is new there."""
    licence: str | None = None
    """Licence that the card names; by default apache-2.0, and unknown for data that were imported."""

    def run(self) -> None:
        from otflam.core import push_release
        from otflam.data import Store

        if (self.path / "meta.json").exists():
            store = Store(self.path)
            store.check()
            address = store.push_to_hub(self.name, private=self.private, licence=self.licence)
        else:
            address = push_release(self.path, self.name, private=self.private, licence=self.licence)
        say(f"{self.path}: {address}")


@dataclass(frozen=True)
class HubPull:
    """Fetch a tokenizer, model, agent or data set from the Hugging Face Hub, and compare it with its checksums."""

    name: tyro.conf.Positional[str]
    """Its name there, as USER/NAME."""
    out: Path
    """Folder for it; an interrupted download continues."""
    revision: str | None = None
    """Branch, tag or commit; by default the newest."""

    def run(self) -> None:
        from otflam.core import check_release, pulling
        from otflam.data import Store

        with pulling(self.name, self.out, self.revision) as (folder, kind):
            if kind == "model":
                check_release(folder)
            else:
                Store(folder).check()
        say(f"{kind}: {self.out}, all checksums match")
