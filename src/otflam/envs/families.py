"""Families of worlds, by what they declare of themselves: without loading what simulates them.

A family is a file whose declaration calls `register_world`; what opens its worlds is named by strings and imported when
it is needed. Packages add their own through the entry-point group `otflam.worlds`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from otflam.core import UserError, import_name, load_plugins, unknown_name

GROUP = "otflam.worlds"
BUILT_IN = ("control",)
"""Files beside this one."""
EXPERT, RANDOM, ZERO = "expert", "random", "zero"
"""Policies that have a meaning in every world; an expert is there only if the family has one."""


@dataclass(frozen=True)
class Family:
    """Strings are `module:name`."""

    name: str
    tasks: tuple[str, ...] | str
    """Names of its tasks, or where they are."""
    open: str
    """A class or function that makes an `Environment` of a `World`."""
    simulate: str | None = None
    """A class or function that makes a `Simulated` of a task's name, if it can be played without pictures."""
    policies: Mapping[str, str] = field(default_factory=dict)
    """Its own policies beside random and zero: functions of the world's `Facts` and a file or None."""
    packaged: str | None = None
    """A function that gives the tasks whose expert needs no file."""


FAMILIES: dict[str, Family] = {}
"""All families by name, complete once `otflam.envs` is imported."""


def register_world(family: Family) -> Family:
    """Make a family of worlds known; the same one may be registered again."""
    if FAMILIES.get(family.name, family) != family:
        raise UserError(f"there is a family of worlds {family.name} already", "give it another name")
    FAMILIES[family.name] = family
    return family


def load_worlds() -> None:
    """Import the declarations of all families: ours, then those of installed packages."""
    for family in BUILT_IN:
        import_module(f"otflam.envs.{family}")
    load_plugins(GROUP, "world")


def tasks_of(family: Family) -> Collection[str]:
    return import_name(family.tasks) if isinstance(family.tasks, str) else family.tasks


def find_family(task: str) -> Family:
    """The family that has a task; those that need not be loaded to know are asked first."""
    for family in sorted(FAMILIES.values(), key=lambda family: isinstance(family.tasks, str)):
        if task in tasks_of(family):
            return family
    raise unknown_name("task", task, [name for family in FAMILIES.values() for name in tasks_of(family)])


def can_simulate(task: str) -> bool:
    """Whether a task can be played without pictures."""
    return find_family(task).simulate is not None


def policy_names(task: str) -> tuple[str, ...]:
    """Policies that a task has by name."""
    return (*find_family(task).policies, RANDOM, ZERO)


def has_expert(task: str) -> bool:
    """Whether an expert of a task comes with its world."""
    packaged = find_family(task).packaged
    return packaged is not None and task in import_name(packaged)()
