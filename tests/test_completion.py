"""Completion in real shells: commands, options, choices; and where nothing is known, nothing is in the way of files."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

import pytest

from otflam.commands import COMMANDS
from otflam.completion import Shell, completion_script

CASES = [
    ("otflam ", {"demo", "tokenizer", "tokenize", "lam", "completion"}, "train"),
    ("otflam tok", {"tokenizer", "tokenize"}, "lam"),
    ("otflam lam train la", {"lapo-128", "laom"}, "hilam"),
    ("otflam lam train lapo-128 data --vi", {"--views"}, "--video"),
    ("otflam lam train lapo-128 data --views ", {"none", "shift", "warp"}, "--steps"),
    ("otflam tokenizer train data --preset ", {"tiny", "paper"}, "small"),
    ("otflam data render data --di", {"--difficulty"}, "--dino"),
    ("otflam tokenizer train-frames data --le", {"--levels"}, "--lengths"),
]
BASH = """
source "$1"; COMP_WORDS=($2); [[ "$2" == *" " ]] && COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_otflam; printf '%s\\n' "${COMPREPLY[@]}"
"""


@cache
def script(shell: Shell) -> str:
    return completion_script(shell)


def asked(shell: Shell, line: str, folder: Path) -> set[str]:
    """What a shell offers at the end of a line."""
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    file = folder / "script"
    file.write_text(script(shell))
    program = BASH if shell == "bash" else 'source $argv[1]; complete -C "$argv[2]"'
    words = [shell, "-c", program, *(["bash"] if shell == "bash" else []), str(file), line]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder)
    assert done.stderr == ""
    return {found.split("\t")[0] for found in done.stdout.splitlines()}


@pytest.mark.parametrize(("line", "offered", "not_offered"), CASES)
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_words_are_completed(shell: Shell, line: str, offered: set[str], not_offered: str, tmp_path: Path) -> None:
    found = asked(shell, line, tmp_path)
    assert offered <= found and not_offered not in found


def test_a_positional_is_left_to_the_shell(tmp_path: Path) -> None:
    assert asked("bash", "otflam tokenizer train da", tmp_path) <= {""}


def test_every_command_is_in_the_script() -> None:
    for name in COMMANDS:
        assert f'" {name} "*)' in script("bash") and re.search(
            rf"begins {name}' -l help$", script("fish"), re.MULTILINE
        )


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_takes_the_script(tmp_path: Path) -> None:
    """Its completion of our command is bash's function, called as zsh calls it."""
    (tmp_path / "script").write_text(script("zsh"))
    program = "source $1; print -r -- ${_comps[otflam]}; COMP_WORDS=(otflam lam train la); COMP_CWORD=3"
    words = ["zsh", "-f", "-c", f"{program}; compgen -F _otflam -- la", "zsh", str(tmp_path / "script")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    first, *offered = done.stdout.split("\n")
    assert first == "_bash_complete -o default -F _otflam" and done.stderr == ""
    assert {"lapo-128", "laom"} <= set(offered) and "--out" not in offered  # zsh itself looks at what is begun


def test_a_key_press_is_quick(tmp_path: Path) -> None:
    asked("bash", "otflam lam train la", tmp_path)
    began = time.monotonic()
    asked("bash", "otflam lam train la", tmp_path)
    assert time.monotonic() - began < 0.5  # a new bash and the whole script included
