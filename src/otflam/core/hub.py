"""Folders on the Hugging Face Hub: what is saved here can be put there, and is found there by its name, USER/NAME.

Only files of known names travel, and none of them is code: weights as safetensors, columns as .npy, and JSON. What is
fetched is compared with the checksums that were written with it. huggingface_hub comes with `otflam[hub]`, and is
imported only when a name is looked for there.
"""

from __future__ import annotations

import fnmatch
import re
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from otflam.core.config import versions
from otflam.core.errors import UserError, first_line
from otflam.core.extras import missing_extra

Kind = Literal["model", "dataset"]
CARD = "README.md"
FILES: dict[Kind, tuple[str, ...]] = {
    "model": ("model.safetensors", "digest.json", "config.json", "health.json"),
    "dataset": ("meta.json", "*.npy"),
}
"""What travels, beside the card; folders of shards have .npy files too."""
NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
SAFE = re.compile(r"([\w-][\w.-]*/)?[\w-][\w.-]*")
"""Files that are fetched lie in their folder or in one inside it."""
CLIENTS = ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3")
"""Modules whose errors are those of a connection."""
BY_HAND = "check the network and HF_ENDPOINT; a folder that was copied by hand works too"


def push_files(files: Mapping[str, Path | bytes], name: str, kind: Kind, *, private: bool) -> str:
    """One commit with these files, in which files of the same kinds that were there before are gone."""
    require_hub_name(name)
    with hub_errors(name) as hub:
        api = hub.HfApi(library_name="otflam", library_version=versions()["otflam"])
        api.create_repo(name, repo_type=kind, private=private, exist_ok=True)
        there = api.list_repo_files(name, repo_type=kind)
        stale = [path for path in there if path not in files and any(fnmatch.fnmatch(path, p) for p in FILES[kind])]
        operations = [hub.CommitOperationDelete(path) for path in stale]
        for path, content in files.items():
            given = str(content) if isinstance(content, Path) else content
            operations.append(hub.CommitOperationAdd(path, given))
        message = f"otflam {versions()['otflam']}"
        done = api.create_commit(name, operations, commit_message=message, repo_type=kind)
    return str(done.repo_url)


def find_folder(name: str | Path, kind: Kind = "model", revision: str | None = None) -> Path:
    """A folder of this machine, or the copy of what is on the hub; a name that begins with a folder here is a path."""
    path = Path(name)
    if not isinstance(name, str) or path.exists() or path.parent.exists() or not NAME.fullmatch(name):
        return path
    with hub_errors(name, f"there is no folder {name} here, and ") as hub:
        found = hub.snapshot_download(name, repo_type=kind, revision=revision, allow_patterns=list(FILES[kind]))
    return Path(found)


@contextmanager
def pulling(name: str, out: Path, revision: str | None = None) -> Generator[tuple[Path, Kind]]:
    """Give the downloaded folder and its kind, to be checked; if nothing is wrong it becomes `out`.

    A download that is cut off leaves a hidden folder beside `out`, and goes on there.
    """
    require_hub_name(name)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is not empty", "choose another --out")
    part = out.with_name(f".{out.name}.part")
    with hub_errors(name) as hub:
        kind, commit, paths = _find(hub, name, revision)
        wanted = [path for path in paths if any(fnmatch.fnmatch(path, each) for each in (*FILES[kind], CARD))]
        for path in wanted:
            if not SAFE.fullmatch(path):
                raise UserError(f"{name} has a file {path!r}, which leads out of its folder", "do not use it")
        part.parent.mkdir(parents=True, exist_ok=True)
        hub.snapshot_download(name, repo_type=kind, revision=commit, allow_patterns=wanted, local_dir=part)
    _remove_others(part, wanted)
    yield part, kind
    shutil.rmtree(part / ".cache", ignore_errors=True)
    if out.exists():
        out.rmdir()
    part.rename(out)


def _remove_others(folder: Path, wanted: list[str]) -> None:
    """Remove what an earlier download into a folder has left there, of another name or commit."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        place = path.relative_to(folder)
        if place.parts[0] != ".cache" and place.as_posix() not in wanted:
            path.unlink()


def _find(hub: Any, name: str, revision: str | None) -> tuple[Kind, str, list[str]]:
    """Whether a name is that of a model or of a data set, its commit, and the files there."""
    kinds: tuple[Kind, ...] = ("model", "dataset")
    for kind in kinds:
        try:
            info = hub.HfApi(library_name="otflam").repo_info(name, repo_type=kind, revision=revision)
        except hub.errors.RepositoryNotFoundError:
            continue
        return kind, info.sha, [file.rfilename for file in info.siblings or []]
    raise _not_there(name)


def require_hub_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UserError(f"{name!r} is no name on the hub", "give USER/NAME")


def _not_there(name: str) -> UserError:
    return UserError(f"the hub shows no {name}", "check the name; for what is private, log in with 'hf auth login'")


@contextmanager
def hub_errors(name: str, before: str = "") -> Generator[ModuleType]:
    """Gives huggingface_hub, whose many errors become one clear line each."""
    try:
        import huggingface_hub as hub
        import huggingface_hub.errors
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        raise UserError(f"{before}the Hugging Face Hub needs huggingface_hub", missing.cure) from None
    try:
        yield hub
    except UserError:
        raise
    except hub.errors.RepositoryNotFoundError:
        error = _not_there(name)
        raise UserError(f"{before}{error.problem}", error.cure) from None
    except hub.errors.RevisionNotFoundError:
        raise UserError(f"{before}{name} has no such revision on the hub", "name a branch, tag or commit") from None
    except hub.errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403):
            cure = "log in with 'hf auth login' and a token that may write there"
            raise UserError(f"{before}the hub refuses {name} ({status})", cure) from None
        raise UserError(f"{before}the hub failed at {name} ({first_line(error)})", "try again later") from None
    except (hub.errors.LocalEntryNotFoundError, hub.errors.OfflineModeIsEnabled) as error:
        raise _unreachable(before, error.__cause__ or error) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in CLIENTS and not isinstance(error, ConnectionError):
            raise
        raise _unreachable(before, error) from None


def _unreachable(before: str, error: BaseException) -> UserError:
    why = str(error).splitlines()[0] if str(error) else type(error).__name__
    return UserError(f"{before}the hub cannot be reached ({why})", BY_HAND)
