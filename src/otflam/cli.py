"""The command line: find the command, parse its options, run it, and turn every foreseeable problem into one line."""

from __future__ import annotations

import itertools
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

import tyro

from otflam.commands import COMMANDS, Command
from otflam.core.errors import UserError, unknown_name
from otflam.report.progress import say


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; every foreseeable problem ends in one line and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        name, rest = find_command(words)
        if name is None:
            print_help(words)
            return
        parse(name, rest).run()
    except UserError as error:
        fail(str(error), 2, debug)
    except KeyboardInterrupt:
        fail("stopped; run the same command to continue", 130, debug)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        fail(f"{error.filename or 'operating system'}: {error.strerror or error}", 2, debug)
    except Exception as error:
        fail(f"unexpected {type(error).__name__}: {error} (this is a bug; --debug shows where)", 1, debug)


def find_command(words: list[str]) -> tuple[str | None, list[str]]:
    """Split the words into a command's name and its arguments; no name means that help was asked for."""
    for length in (3, 2, 1):
        if len(words) >= length and (name := " ".join(words[:length])) in COMMANDS:
            return name, words[length:]
    spoken = list(_leading_names(words))
    if not spoken or any(name.startswith(" ".join(spoken) + " ") for name in COMMANDS):
        return None, words
    raise unknown_name("command", " ".join(spoken[:3]), COMMANDS)


def _leading_names(words: list[str]) -> Iterator[str]:
    for word in words:
        if word.startswith("-"):
            return
        yield word


def parse(name: str, arguments: list[str]) -> Command:
    """Build a command from its arguments; a preset supplies the defaults."""
    kind: Any = COMMANDS[name]
    options: dict[str, Any] = {}
    if hasattr(kind, "defaults"):
        field_default = kind.__dataclass_fields__["preset"].default
        chosen = [b for a, b in itertools.pairwise(arguments) if a == "--preset"]
        chosen += [word.removeprefix("--preset=") for word in arguments if word.startswith("--preset=")]
        options["default"] = kind.defaults(chosen[-1] if chosen else field_default)
    # Options have short names, except where two parts of a command have some in common.
    short = () if getattr(kind, "prefixes", False) else (tyro.conf.OmitArgPrefixes,)
    return tyro.cli(kind, prog=f"otflam {name}", args=arguments, config=short, **options)


def print_help(words: list[str]) -> None:
    """List the commands, or those of a group such as 'data'."""
    group = " ".join(_leading_names(words))
    say("usage: otflam COMMAND [OPTIONS]      (otflam COMMAND --help describes a command)\n")
    for name, kind in COMMANDS.items():
        if name.startswith(group):
            say(f"  {name:20} {(kind.__doc__ or '').splitlines()[0]}")
    say("\n  --debug after any command shows the traceback of an error")


def fail(message: str, code: int, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    print(f"otflam: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)
