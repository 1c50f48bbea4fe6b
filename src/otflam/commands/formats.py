"""Commands that turn formats of others into data sets and back, made from the declarations of the formats."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import tyro

from otflam.commands.base import NO_PREFIX, NewData, backbone_of, describe
from otflam.core import Hardware, UserError
from otflam.data import FORMATS, Format
from otflam.report import ProgressBar, say

if TYPE_CHECKING:
    from otflam.data import Beside, Store


@dataclass(frozen=True)
class DataImport:
    """What all imports share."""

    format: ClassVar[str]

    source: Any
    options: Any
    out: NewData

    def run(self) -> None:
        from otflam.data import import_data

        with ProgressBar(f"import {self.source}", "episodes") as bar:
            chosen = vars(self.options)
            made = import_data(self.format, self.source, self.out, bar.note, bar, **chosen)
        for store in made if isinstance(made, list) else [made]:
            describe(store)
            for entry in store.meta.get("skipped", []):
                say(f"skipped {entry['source']}: {entry['reason']}")


@dataclass(frozen=True)
class DataExport:
    """What all exports share."""

    format: ClassVar[str]

    data: Any
    options: Any
    out: Any

    def run(self) -> None:
        from otflam.data import Store, export_data

        with ProgressBar(f"export {self.data}", "episodes") as bar:
            store = Store(self.data)
            export_data(self.format, store, self.out, self.beside(store, bar), bar.note, bar, **vars(self.options))
        say(f"wrote {self.out}")

    def beside(self, store: Store, bar: ProgressBar) -> dict[str, Beside]:
        """Columns that models give the data set."""
        return {}


@dataclass(frozen=True)
class DataExportBeside(DataExport):
    """What the exports share that can hold latent actions and codes."""

    lam: Path | None = None
    """Folder of a trained latent action model: its latent actions become the feature latent."""
    tokenizer: Path | None = None
    """Folder of a trained motion tokenizer: its codes become the feature codes."""
    dino: str | None = None
    """Folder or hub name of the DINOv2 backbone, for a model that predicts its features."""

    def beside(self, store: Store, bar: ProgressBar) -> dict[str, Beside]:
        from otflam.core import device_of
        from otflam.lam import label_data
        from otflam.tokenizer import encode_data

        if self.dino is not None and self.lam is None:
            raise UserError("--dino without --lam", "name the model that needs it")
        found = {}
        if self.lam is not None:
            backbone = backbone_of(self.lam, self.dino)
            found["latent"] = label_data(store, self.lam, backbone, bar, device_of(Hardware()))
        if self.tokenizer is not None:
            found["codes"] = encode_data(store, self.tokenizer, bar)
        return found


def import_command(form: Format) -> type[DataImport]:
    """The command that reads a format."""
    kind: Any = form.reading
    source = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(help=form.source)]
    return _command(form, DataImport, f"Turn {form.what} into a data set.", [("source", source)], kind)


def export_command(form: Format) -> type[DataExport]:
    """The command that writes a format."""
    kind: Any = form.writing
    data = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(help=form.needs)]
    out = Annotated[Path, tyro.conf.arg(help=form.target)]
    shared = DataExportBeside if form.beside else DataExport
    return _command(form, shared, f"Write a data set as {form.what}.", [("data", data), ("out", out)], kind)


def _command(form: Format, shared: Any, about: str, paths: list[Any], kind: Any) -> Any:
    facts = {"format": form.name, "__doc__": about, "__module__": __name__}
    name = f"{shared.__name__}{form.name.title().replace('-', '')}"
    options = ("options", Annotated[kind, NO_PREFIX])
    return make_dataclass(name, [*paths, options], bases=(shared,), namespace=facts, frozen=True)


def format_commands() -> dict[str, Any]:
    """Of all formats, those of installed packages included."""
    reads = {f"data import {form.name}": import_command(form) for form in FORMATS.values() if form.reads}
    writes = {f"data export {form.name}": export_command(form) for form in FORMATS.values() if form.writes}
    return reads | writes
