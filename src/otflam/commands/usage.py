"""What a user mistyped, as one line with what was probably meant."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Sequence

from otflam.core import UserError

NEAR = 0.6
"""How alike a word and what was meant must be."""

SIDES = "│|"
"""The sides of the parser's boxes, on terminals that know such lines and on others."""


def unknown_command(words: Sequence[str], known: Iterable[str]) -> UserError:
    """The error for words that begin no command: the first wrong one counts, and what may stand in its place."""
    names = list(known)
    group: list[str] = []
    while any(name.split()[: len(group) + 1] == list(words[: len(group) + 1]) for name in names):
        group.append(words[len(group)])
    wrong, before = words[len(group)], " ".join([*group, ""])
    places = list(dict.fromkeys(name.removeprefix(before).split()[0] for name in names if name.startswith(before)))
    near = near_names(wrong, places)
    meant = [f"{before}{place}" for place in near]
    if not near:  # 'otflam trian': a word of longer names
        inside = near_names(wrong, dict.fromkeys(word for name in names for word in name.split()))
        shortened = (" ".join(name.split()[: name.split().index(word) + 1]) for word in inside for name in names
                     if name.startswith(before) and word in name.split())  # fmt: skip
        meant = list(dict.fromkeys(shortened))
    return UserError(f"unknown command '{before}{wrong}'", suggestion(meant, [f"{before}{place}" for place in places]))


def near_names(word: str, names: Iterable[str]) -> list[str]:
    """Names that a word begins, or else those that look alike."""
    names = list(names)
    begun = [name for name in names if len(word) > 1 and name.startswith(word)]
    return begun or difflib.get_close_matches(word, names, n=3, cutoff=NEAR)


def suggestion(meant: Sequence[str], choices: Sequence[str]) -> str:
    if not meant:
        return f"choose one of {', '.join(choices)}"
    told = [repr(name) for name in meant]
    return f"did you mean {', '.join(told[:-1])}{' or ' if len(told) > 1 else ''}{told[-1]}?"


def unknown_option(command: str, option: str, options: Iterable[str]) -> UserError:
    """The error for an option that a command does not have."""
    near = near_names(option, options)
    cure = suggestion(near, []) if near else f"'{f'otflam {command}'.strip()} --help' lists them"
    where = f"'otflam {command}' has no option" if command else "unknown option"
    return UserError(f"{where} {option!r}", cure)


def bad_usage(command: str, arguments: Sequence[str], told: str, help_text: str) -> UserError:
    """What the parser said in its box, as one line; an option that does not exist is named first."""
    rows = [line for line in help_text.splitlines() if re.match(rf"^[{SIDES}\s]*--?\w", line)]
    options = {name.replace("_", "-") for name in re.findall(r"(?<![\w-])--?[a-zA-Z][\w.-]*", "\n".join(rows))}
    for word in arguments:
        given = word.split("=")[0]
        if re.match(r"--?[a-zA-Z]", given) and given.replace("_", "-") not in options:
            return unknown_option(command, given, sorted(name for name in options if name.startswith("--")))
    # After the box's title and up to its first rule, which on some terminals come without the lines of a box.
    inside = itertools.dropwhile(lambda line: not re.search(r"\w", line), told.splitlines()[1:])
    inside = itertools.takewhile(lambda line: re.search(r"\w", line), inside)
    wanted = " ".join(line.strip(f"{SIDES} ") for line in inside)
    problem = " ".join(wanted.split()).rstrip(".") or "these words make no command"
    return UserError(problem, f"see 'otflam {command} --help'")
