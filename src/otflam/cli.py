"""The command line: find the command, parse its options, run it, and turn every foreseeable problem into one line."""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import tyro

from otflam.commands import COMMANDS, CONTINUING, Command
from otflam.core import UserError, is_main_process, missing_extra
from otflam.report import say, speaking

HELP = ("--help", "-h")


class Terminated(KeyboardInterrupt):
    """Somebody asked this process to end: a scheduler, a shutdown, 'kill'. What handles Ctrl-C handles it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; every foreseeable problem ends in one line and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug, name = "--debug" in words, None
    words = [word for word in words if word != "--debug"]
    try:
        if arguments is None:  # called by another program, its signals and its terminal are its own
            signal.signal(signal.SIGTERM, terminate)
        name, rest = find_command(words)
        if name is None:
            print_help(words)
            return
        command = parse(name, rest)
        with speaking(name) if arguments is None else contextlib.nullcontext():
            command.run()
        if arguments is None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: a Ctrl-C now would only spoil the end
    except UserError as error:
        fail(str(error), 2, debug)
    except KeyboardInterrupt as stop:
        later = "run the same command to continue" if name in CONTINUING else "run again, the command starts anew"
        what, code = ("terminated", 128 + signal.SIGTERM) if isinstance(stop, Terminated) else ("stopped", 130)
        fail(f"{what}; {later}", code, debug)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        fail(f"{error.filename or 'operating system'}: {error.strerror or error}", 2, debug)
    except Exception as error:
        if abandoned(error):
            raise SystemExit(1) from None
        if (missing := missing_extra(error)) is not None:
            fail(str(missing), 2, debug)
        fail(f"unexpected {type(error).__name__}: {error} (this is a bug; --debug shows where)", 1, debug)


def abandoned(error: Exception) -> bool:
    """Whether this is one of several processes that train together and the first, which has said why, is gone."""
    return not is_main_process() and "Connection closed by peer" in str(error)


def terminate(number: int, frame: Any) -> NoReturn:
    """Unwind as after Ctrl-C, so that workers end and no half-written file stays."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: a second one must not interrupt the tidying up
    raise Terminated


def find_command(words: list[str]) -> tuple[str | None, list[str]]:
    """Split the words into a command's name and its arguments; no name means that help was asked for."""
    for length in (3, 2, 1):
        if len(words) >= length and (name := " ".join(words[:length])) in COMMANDS:
            return name, words[length:]
    names = _leading_names(words)
    group = " ".join(names)
    if names and not any(name.startswith(f"{group} ") for name in COMMANDS):
        raise unknown_command(names, COMMANDS)
    known = HELP if names else (*HELP, "--version")
    for word in words[len(names) :]:
        if word not in known:
            raise unknown_option(group, word, (*known, "--debug"))
    return None, words


def _leading_names(words: list[str]) -> list[str]:
    return list(itertools.takewhile(lambda word: not word.startswith("-"), words))


def given(option: str, arguments: list[str]) -> str | None:
    """What is said of an option that other options' defaults depend on."""
    found = [b for a, b in itertools.pairwise(arguments) if a == option]
    found += [word.removeprefix(f"{option}=") for word in arguments if word.startswith(f"{option}=")]
    return found[-1] if found else None


def parse(name: str, arguments: list[str]) -> Command:
    """Build a command from its arguments; a preset supplies the defaults, or the settings of a run."""
    kind: Any = COMMANDS[name]
    options: dict[str, Any] = {"prog": f"otflam {name}"}
    if hasattr(kind, "defaults"):
        preset = given("--preset", arguments) or kind.__dataclass_fields__["preset"].default
        defaults = kind.defaults(preset)
        recorded = given("--config", arguments) if hasattr(kind, "configured") else None
        options["default"] = defaults if recorded is None else defaults.configured(Path(recorded))
    # Options have short names, except where two parts of a command have some in common.
    options["config"] = () if getattr(kind, "prefixes", False) else (tyro.conf.OmitArgPrefixes,)
    message, help_text = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stderr(message):
            return tyro.cli(kind, args=arguments, **options)
    except SystemExit as end:
        if not end.code:
            raise  # help was asked for and given
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(help_text):
        tyro.cli(kind, args=["--help"], **options)
    raise bad_usage(name, arguments, message.getvalue(), help_text.getvalue())


def print_help(words: list[str]) -> None:
    """List the commands, or those of a group such as 'data'; or tell the version."""
    if "--version" in words:
        say(f"otflam {metadata.version('otflam')}")
        return
    group = " ".join(_leading_names(words))
    say("usage: otflam COMMAND [OPTIONS]      (otflam COMMAND --help describes a command)\n")
    listed = {name: kind for name, kind in COMMANDS.items() if name.startswith(group)}
    width = max(map(len, listed))
    for name, kind in listed.items():
        say(f"  {name:{width}}  {(kind.__doc__ or '').splitlines()[0]}")
    say("\n  --debug after any command shows the traceback of an error; otflam --version tells the version")


def fail(message: str, code: int, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exc()
    print(f"otflam: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)


MIN_SIMILARITY = 0.6
"""How alike a word and what was meant must be."""

BOX_SIDES = "│|"
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
    return begun or difflib.get_close_matches(word, names, n=3, cutoff=MIN_SIMILARITY)


def suggestion(meant: Sequence[str], choices: Sequence[str]) -> str:
    if not meant:
        return f"choose one of {', '.join(choices)}"
    quoted = [repr(name) for name in meant]
    return f"did you mean {', '.join(quoted[:-1])}{' or ' if len(quoted) > 1 else ''}{quoted[-1]}?"


def unknown_option(command: str, option: str, options: Iterable[str]) -> UserError:
    """The error for an option that a command does not have."""
    plain = {name.lstrip("-"): name for name in options}  # dashes would make all short names look alike
    near = [plain[name] for name in near_names(option.lstrip("-"), plain)]
    cure = suggestion(near, []) if near else f"'{f'otflam {command}'.strip()} --help' lists them"
    where = f"'otflam {command}' has no option" if command else "unknown option"
    return UserError(f"{where} {option!r}", cure)


def option_rows(help_text: str) -> list[str]:
    """The lines of a help that begin with an option."""
    return [
        line.strip(f"{BOX_SIDES} ") for line in help_text.splitlines() if re.match(rf"^[{BOX_SIDES}\s]*--?\w", line)
    ]


def bad_usage(command: str, arguments: Sequence[str], message: str, help_text: str) -> UserError:
    """What the parser said in its box, as one line; an option that does not exist is named first."""
    rows = option_rows(help_text)
    options = {name.replace("_", "-") for name in re.findall(r"(?<![\w-])--?[a-zA-Z][\w.-]*", "\n".join(rows))}
    for word in arguments:
        given = word.split("=")[0]
        if re.match(r"--?[a-zA-Z]", given) and given.replace("_", "-") not in options:
            return unknown_option(command, given, sorted(name for name in options if name.startswith("--")))
    # After the box's title and up to its first rule, which on some terminals come without the lines of a box.
    inside = itertools.dropwhile(lambda line: not re.search(r"\w", line), message.splitlines()[1:])
    inside = itertools.takewhile(lambda line: re.search(r"\w", line), inside)
    wanted = " ".join(line.strip(f"{BOX_SIDES} ") for line in inside)
    problem = " ".join(wanted.split()).rstrip(".") or "these words make no command"
    return UserError(problem, f"see 'otflam {command} --help'")
