"""The command line: find the command, parse its options, run it, and turn every foreseeable problem into one line."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any, NoReturn

import tyro

from otflam.commands import COMMANDS, CONTINUING, Command
from otflam.commands.usage import bad_usage, unknown_command, unknown_option
from otflam.core import UserError
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
        fail(f"unexpected {type(error).__name__}: {error} (this is a bug; --debug shows where)", 1, debug)


def abandoned(error: Exception) -> bool:
    """Whether this is one of several processes that train together and the first, which has said why, is gone."""
    return os.environ.get("LOCAL_RANK", "0") != "0" and "Connection closed by peer" in str(error)


def terminate(number: int, frame: Any) -> NoReturn:
    """Unwind as after Ctrl-C, so that workers end and no half-written file stays."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: a second one must not interrupt the tidying up
    raise Terminated


def find_command(words: list[str]) -> tuple[str | None, list[str]]:
    """Split the words into a command's name and its arguments; no name means that help was asked for."""
    for length in (3, 2, 1):
        if len(words) >= length and (name := " ".join(words[:length])) in COMMANDS:
            return name, words[length:]
    spoken = list(_leading_names(words))
    group = " ".join(spoken)
    if spoken and not any(name.startswith(f"{group} ") for name in COMMANDS):
        raise unknown_command(spoken, COMMANDS)
    known = HELP if spoken else (*HELP, "--version")
    for word in words[len(spoken) :]:
        if word not in known:
            raise unknown_option(group, word, (*known, "--debug"))
    return None, words


def _leading_names(words: list[str]) -> Iterator[str]:
    for word in words:
        if word.startswith("-"):
            return
        yield word


def parse(name: str, arguments: list[str]) -> Command:
    """Build a command from its arguments; a preset supplies the defaults."""
    kind: Any = COMMANDS[name]
    options: dict[str, Any] = {"prog": f"otflam {name}"}
    if hasattr(kind, "defaults"):
        field_default = kind.__dataclass_fields__["preset"].default
        chosen = [b for a, b in itertools.pairwise(arguments) if a == "--preset"]
        chosen += [word.removeprefix("--preset=") for word in arguments if word.startswith("--preset=")]
        options["default"] = kind.defaults(chosen[-1] if chosen else field_default)
    # Options have short names, except where two parts of a command have some in common.
    options["config"] = () if getattr(kind, "prefixes", False) else (tyro.conf.OmitArgPrefixes,)
    told, help_text = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            return tyro.cli(kind, args=arguments, **options)
    except SystemExit as end:
        if not end.code:
            raise  # help was asked for and given
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(help_text):
        tyro.cli(kind, args=["--help"], **options)
    raise bad_usage(name, arguments, told.getvalue(), help_text.getvalue())


def print_help(words: list[str]) -> None:
    """List the commands, or those of a group such as 'data'; or tell the version."""
    if "--version" in words:
        say(f"otflam {metadata.version('otflam')}")
        return
    group = " ".join(_leading_names(words))
    say("usage: otflam COMMAND [OPTIONS]      (otflam COMMAND --help describes a command)\n")
    for name, kind in COMMANDS.items():
        if name.startswith(group):
            say(f"  {name:20} {(kind.__doc__ or '').splitlines()[0]}")
    say("\n  --debug after any command shows the traceback of an error; otflam --version tells the version")


def fail(message: str, code: int, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exc()
    print(f"otflam: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)
