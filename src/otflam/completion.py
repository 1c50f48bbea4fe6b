"""Scripts that complete commands, options and their choices in a shell.

Everything is written into the script, once: a key press then runs no Python.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from otflam import cli
from otflam.commands import COMMANDS
from otflam.presets import PRESETS

Shell = Literal["bash", "zsh", "fish"]


@dataclass(frozen=True)
class Known:
    """What a command's help tells of an option."""

    option: str
    choices: tuple[str, ...] = ()


def completion_script(shell: Shell) -> str:
    """The script for one shell."""
    return SCRIPTS[shell]({name: known_options(name) for name in COMMANDS})


@cache
def known_options(name: str) -> list[Known]:
    """The options of a command and what may follow each, if there are only some words."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        cli.parse(name, ["--help"])
    found: dict[str, tuple[str, ...]] = {}
    for row in cli.option_rows(told.getvalue()):
        options = re.findall(r"(?<![\w-])--?[a-zA-Z][\w.-]*", row.split("  ")[0])
        choices = re.search(r"\{([\w.,-]+)\}", row)
        for option in options:
            found[option] = tuple(choices[1].split(",")) if choices and choices[1] != "None" else ()
    if "--preset" in found:
        found["--preset"] = tuple(PRESETS)
    return [Known(option, choices) for option, choices in found.items()]


def next_words() -> dict[str, list[str]]:
    """What may follow the words that begin a command, longest first."""
    found: dict[str, dict[str, None]] = {}
    for name in COMMANDS:
        words = name.split()
        for count in range(len(words)):
            found.setdefault(" ".join(words[:count]), {})[words[count]] = None
    return {group: list(words) for group, words in sorted(found.items(), key=lambda item: -len(item[0]))}


def bash(known: dict[str, list[Known]]) -> str:
    """Cases from the longest command to none; where nothing is known, the shell names files."""
    lines = [
        "_otflam() {",
        '  local before=" " word words="" current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
        '  for word in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do before+="$word "; done',
        '  case "$before" in',
    ]
    for name in sorted(known, key=len, reverse=True):
        options = " ".join(each.option for each in known[name])
        chosen = [f"{each.option}) words='{' '.join(each.choices)}' ;;" for each in known[name] if each.choices]
        case = f' case "$previous" in {" ".join(chosen)} esac' if chosen else ""
        lines += [f'    " {name} "*) [[ "$current" == -* ]] && words=\'{options}\';{case} ;;']
    for group, words in next_words().items():
        lines += [f"    \"{f' {group} ' if group else ' '}\") words='{' '.join(words)}' ;;"]
    lines += ["  esac", '  COMPREPLY=($(compgen -W "$words" -- "$current"))', "}"]
    return "\n".join([*lines, "complete -o default -F _otflam otflam"])


def zsh(known: dict[str, list[Known]]) -> str:
    """The script of bash, which zsh understands."""
    return f"autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n{bash(known)}"


def fish(known: dict[str, list[Known]]) -> str:
    """A line for each option, with a condition on the words before it."""
    lines = ["function __otflam_begins", "  set -l words (commandline -opc)[2..-1]"]
    lines += ['  string match -q -- "$argv *" "$words "', "end"]
    lines += ["function __otflam_is", "  set -l words (commandline -opc)[2..-1]", '  test "$words" = "$argv"', "end"]
    for group, words in next_words().items():
        lines += [f"complete -c otflam -f -n '__otflam_is {group}' -a '{' '.join(words)}'"]
    for name, options in known.items():
        for each in options:
            choices = f" -x -a '{' '.join(each.choices)}'" if each.choices else ""
            word = each.option.lstrip("-")
            kind = "-l" if each.option.startswith("--") else "-s"
            lines += [f"complete -c otflam -n '__otflam_begins {name}' {kind} {word}{choices}"]
    return "\n".join(lines)


SCRIPTS: dict[Shell, Callable[[dict[str, list[Known]]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
