"""What a format declares of itself: by its name, without loading what reads and writes it.

A format is a file or a folder whose declaration calls `register_format`; its functions are named by strings and
imported when they are needed. Packages add their own through the entry-point group `otflam.formats`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otflam.core import SILENT, Progress, UserError, import_name, load_plugins, register, require_name

if TYPE_CHECKING:
    from otflam.data.formats.exports import Beside
    from otflam.data.store import Store

LOG = logging.getLogger(__name__)
Report = Callable[[str], None]
"""Hears of what a user should know, a line at a time."""
GROUP = "otflam.formats"
BUILT_IN = ("videos", "lerobot", "stable_worldmodel", "minari", "laom", "rerun")
"""Folders beside this file; their order is that of the help."""


@dataclass(frozen=True)
class NoOptions:
    """For a format with nothing to choose."""


@dataclass(frozen=True)
class Format:
    """Strings are `module:name`; options are frozen dataclasses whose fields become those of the command."""

    name: str
    what: str
    """What it is called in the help: 'Turn … into a data set', 'Write a data set as …'."""
    reads: str | None = None
    """A function of a source, a new folder, options, `report` and `progress`, that gives the store or stores."""
    writes: str | None = None
    """A function of a store, a new path, options, columns beside the store by name, `report` and `progress`."""
    source: str = "What to read."
    """Help of what is read."""
    target: str = "What to write."
    """Help of what is written."""
    needs: str = "The data set."
    """Help of the data set that is written, which tells what it must have."""
    reading: type = NoOptions
    writing: type = NoOptions
    beside: bool = False
    """Whether latent actions and codes can be written too."""


FORMATS: dict[str, Format] = {}
"""All formats by name, complete once `otflam.data` is imported."""


def register_format(form: Format) -> Format:
    """Make a format known by its name."""
    return register(FORMATS, form.name, form, "format")


def load_formats() -> None:
    """Import the declarations of all formats: ours, then those of installed packages."""
    for name in BUILT_IN:
        import_module(f"otflam.data.formats.{name}")
    load_plugins(GROUP, "format")


def import_data(
    name: str,
    source: str | Path,
    out: str | Path,
    report: Report = LOG.warning,
    progress: Progress = SILENT,
    **options: Any,
) -> Store | list[Store]:
    """Turn what is in a format of others into a data set, or into several; run again to continue."""
    form = FORMATS[require_name("format", name, FORMATS)]
    if form.reads is None:
        raise UserError(f"{name} cannot be read", f"write it with 'otflam data export {name}'")
    return import_name(form.reads)(Path(source), Path(out), form.reading(**options), report, progress)


def export_data(
    name: str,
    store: Store,
    out: str | Path,
    beside: Mapping[str, Beside] | None = None,
    report: Report = LOG.warning,
    progress: Progress = SILENT,
    **options: Any,
) -> None:
    """Write a data set in a format of others, with columns that models gave it by the names they shall have."""
    form = FORMATS[require_name("format", name, FORMATS)]
    if form.writes is None:
        raise UserError(f"{name} cannot be written", f"read it with 'otflam data import {name}'")
    if beside and not form.beside:
        raise UserError(f"{name} holds no {', '.join(beside)}", "write them with 'otflam lam export'")
    import_name(form.writes)(store, Path(out), form.writing(**options), dict(beside or {}), report, progress)
