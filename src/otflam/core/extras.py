"""Packages that only some commands need: they come with extras, and where one is missing that is told in one line."""

from __future__ import annotations

from importlib.util import find_spec

from otflam.core.errors import UserError

EXTRAS = {
    **dict.fromkeys(("mujoco", "dm_control", "gymnasium"), "sim"),
    **dict.fromkeys(("lightning_fabric", "tensorboard"), "train"),
    **dict.fromkeys(("jinja2", "markupsafe", "matplotlib", "scipy", "sklearn"), "report"),
    "huggingface_hub": "hub",
    "h5py": "hdf5",
    "pyarrow": "parquet",
    "rerun": "rerun",
    "submitit": "slurm",
    "transformers": "dino",
}
"""The extra that a package comes with, by the name under which it is imported; pyproject.toml says the same."""


def missing_extra(error: BaseException) -> UserError | None:
    """What to tell somebody who lacks a package of an extra, if that is what went wrong."""
    name = (getattr(error, "name", None) or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or name not in EXTRAS:
        return None
    return UserError(f"this needs {name}, which is not installed", f"pip install 'otflam[{EXTRAS[name]}]'")


def require_package(name: str) -> None:
    """Refuse to go on without a package, where its absence would be told in other words."""
    if find_spec(name) is None:
        raise ModuleNotFoundError(name=name)
