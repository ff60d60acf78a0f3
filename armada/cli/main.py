"""Parse the command line, call its handler, and print errors: one sentence on stderr, a hint, and the exit code of its class."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import os
import re
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

from armada import __version__
from armada.errors import ArmadaError, Interrupted, UsageError
from armada.foundation import ascii_text
from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.foundation.standard_streams import end_live_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn


COMMANDS = {
    "dashboard": ("dashboard",),
    "init": ("init",),
    "plan_hosts": ("plan",),
    "launch": ("launch", "prepare"),
    "data": ("data",),
    "resume": ("resume",),
    "merge": ("merge",),
    "sweep": ("sweep",),
    "bench": ("bench",),
    "runs": ("ps",),
    "stop": ("stop",),
    "show": ("show",),
    "costs": ("costs",),
    "compare": ("compare",),
    "diff": ("diff",),
    "report": ("report",),
    "reproduce": ("reproduce",),
    "pull": ("pull",),
    "export": ("export",),
    "logs": ("logs",),
    "remove": ("rm",),
    "labels": ("tag", "group", "note", "star", "archive"),
    "why": ("why",),
    "access": ("ssh", "exec", "forward", "code"),
    "copy": ("cp",),
    "sync": ("sync",),
    "wandb": ("wandb",),
    "hosts": ("hosts",),
    "doctor": ("doctor",),
    "daemon": ("daemon",),
    "store": ("store",),
    "recover": ("recover",),
    "config": ("config",),
    "profiles": ("profiles",),
    "mcp": ("mcp",),
    "completion": ("completion",),
    "help": ("help",),
}
"""Which module of this package has which words: of a command that is known only its own is loaded."""


ELSEWHERE = {
    "status": "ps", "list": "ps", "ls": "ps", "cancel": "stop", "kill": "stop", "remove": "rm", "delete": "rm", "submit": "launch",
    "run": "launch", "start": "launch", "log": "logs", "tail": "logs", "info": "show", "describe": "show", "download": "pull",
    "copy": "cp", "scp": "cp",
}  # fmt: skip
"""Words of other programs, and ours for them."""


_VERBS = {"list": "ls", "remove": "rm", "delete": "rm", "test": "check", "show": "ls"}
"""The same for the verbs of a command, where it has them."""


def nearest(word: str, known: Sequence[str], *, elsewhere: Mapping[str, str] = ELSEWHERE) -> str | None:
    """Return the closest known word, or None if none is close.

    Args:
        word: What was typed.
        known: The words there are.
        elsewhere: Words of other programs, with ours for them.
    """
    from difflib import get_close_matches

    if elsewhere.get(word) in known:
        return elsewhere[word]
    return next(iter(get_close_matches(word, known, 1, 0.7)), None)


class _Parser(argparse.ArgumentParser):
    """Argparse, leaving through our own errors so that there is one way out."""

    def __init__(self, **settings: Any) -> None:
        # Otherwise `--to` would be `--total` until an option called --together exists.
        super().__init__(add_help=False, allow_abbrev=False, **settings)
        self.add_argument("-h", "--help", action="help", help="Show this help and exit")
        self._mixes = False
        self._words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; where a command takes any number of words, options may stand between them (`stop A --grace 0 B`)."""
        self._words = self._words or tuple(args or ())
        if self._mixes or not any(action.nargs in ("*", "+") for action in self._get_positional_actions()):
            return super().parse_known_args(args, namespace)
        if "--" in (args or ()):  # mixing loses it, and takes the words after it for options
            with contextlib.suppress(UsageError):
                parsed, left = super().parse_known_args(args, namespace)
                if not left:
                    return parsed, left
        self._mixes = True  # what follows calls this method again
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixes = False

    def error(self, message: str) -> NoReturn:
        if found := re.match(r"argument COMMAND: invalid choice: '(.*?)' \(choose", message, re.DOTALL):
            near = nearest(found[1], [word for words in COMMANDS.values() for word in words])
            hint = f"did you mean armada {near}?" if near else "armada --help lists them"
            raise UsageError(f"there is no command {found[1]!r}", hint=hint)
        if found := re.match(r"argument VERB: invalid choice: '(.*?)' \(choose from (.*)\)", message, re.DOTALL):
            verbs = re.findall(r"[\w-]+", found[2])
            near = nearest(found[1], verbs, elsewhere=_VERBS)
            hint = f"did you mean {self.prog} {near}?" if near else f"{self.prog} has {', '.join(verbs)}"
            raise UsageError(f"there is no command {self.prog} {found[1]!r}", hint=hint)
        own = itertools.takewhile(lambda word: word != "--", self._words)
        flags = [word for word in own if word.startswith("--")]
        # What is required may be there, with a typing error.
        if "required" in message and (left := [word for word in flags if word.partition("=")[0] not in self.known]):
            raise self.unknown(left)
        raise UsageError(message, hint=f"{self.prog} --help")

    @property
    def known(self) -> list[str]:
        return [flag for action in self._actions for flag in action.option_strings]

    def unknown(self, left: Sequence[str]) -> UsageError:
        """The error for words that a command does not take, with the option that is meant, if one is near."""
        typed, known = left[0].partition("=")[0], self.known
        begun = next((flag for flag in sorted(known) if len(typed) > len("--") and flag.startswith(typed)), None)
        near = begun or nearest(typed, known) if typed.startswith("--") else None
        hint = f"did you mean {near}? {self.prog} --help lists all" if near else f"{self.prog} --help"
        return UsageError(f"unrecognized arguments: {' '.join(left)}", hint=hint)


def build_parser(word: str | None = None) -> _Parser:
    """The parser of the whole command line.

    Args:
        word: The command, if it is known already: the parser then knows no other.
    """
    parser = _Parser(
        prog="armada",
        description="Launch fine-tuning runs on all your GPUs, watch them, and bring every checkpoint home verified.",
        epilog="`armada help COMMAND` explains a command. `armada help TOPIC` explains experiment, hosts, filters, states, "
        "exit-codes or json.",
    )
    parser.add_argument(
        "-V", "--version", action="version", version=f"armada {__version__}", help="Show the version and exit"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    named = [module for module, words in COMMANDS.items() if word in words]
    for module in named or COMMANDS:
        importlib.import_module(f"armada.cli.{module}").register(commands)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Parse and carry out one command line; never raises."""
    ascii_text.register()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal without UTF-8 shows the nearest sign that it has. Python writes UTF-8 also in the locale C (PEP 540).
            plain = stream.isatty() and not ascii_text.is_utf8_terminal()
            stream.reconfigure(encoding="ascii" if plain else None, errors=ascii_text.ERRORS)
    if os.environ.get("ARMADA_BY") == "mcp":
        from armada.assistants.confinement import quote_own_files_only

        quote_own_files_only()
    try:
        if not arguments and sys.stdin.isatty() and sys.stdout.isatty():
            arguments = ["dashboard"]  # its module alone: those of all commands would be a sixth of the first paint
        if list(arguments[:1]) == ["sweep"]:
            from armada.cli.sweep import with_verb

            arguments = with_verb(arguments)
        parser = build_parser(next(iter(arguments), None))
        options, left = parser.parse_known_args(arguments)
        if left:
            raise _unknown(parser, options, left)
        if options.command is None:
            parser.print_help()
            return 2
        code: int = options.handler(options)
        sys.stdout.flush()
        return code
    except SystemExit as leaving:  # argparse after --help and --version
        return leaving.code if isinstance(leaving.code, int) else 0
    except ArmadaError as error:
        return _say(error, arguments)
    except KeyboardInterrupt:
        return _say_interrupted(arguments)
    except sqlite3.DatabaseError as error:
        from armada.paths import HomePaths
        from armada.store.database import explain

        explained = explain(error, HomePaths.from_environment().store)
        return _say(explained, arguments) if explained is not None else _say_bug(error, arguments)
    except OSError as error:
        from armada.cli.printing import as_error

        return _say(as_error(error), arguments)
    except Exception as error:
        # pydantic makes a model when it is first used, and reports Ctrl-C meanwhile as an error of its own.
        if type(error).__name__ == "SchemaError" and "KeyboardInterrupt" in str(error):
            return _say_interrupted(arguments)
        return _say_bug(error, arguments)


def _say_interrupted(arguments: Sequence[str]) -> int:
    if not end_live_line():
        sys.stderr.write("\n")  # the terminal has shown ^C
    return _say(Interrupted("interrupted; started runs continue (armada ps)"), arguments)


def _unknown(parser: _Parser, options: argparse.Namespace, left: Sequence[str]) -> UsageError:
    """The error for words that the command which was named does not take."""
    for word in (options.command, getattr(options, "verb", None)):
        groups = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]  # noqa: SLF001
        parser = next((each.choices[word] for each in groups if word in each.choices), parser)
    error = parser.unknown(left)
    if options.command == "ps" and not left[0].startswith("--"):
        error.hint = f"in a filter, write 'not {left[0][1:]}'"
    return error


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` is among the words, also shortened, as it was taken once. What follows `--` is another program's."""
    own = itertools.takewhile(lambda word: word != "--", arguments)
    return any(len(word) > 2 and "--json".startswith(word) for word in own)


def _say(error: ArmadaError, arguments: Sequence[str]) -> int:
    end_live_line()
    sys.stderr.write(f"armada: {sanitize_text(str(error), 8000)}\n")
    if error.hint:
        sys.stderr.write(f"  → {sanitize_line(error.hint, 2000)}\n")
    if _wants_json(arguments):
        from armada.cli.printing import print_error

        print_error(error)
    return error.exit_code


def _say_bug(error: Exception, arguments: Sequence[str]) -> int:
    import traceback

    traceback.print_exc()
    what = f"this is a bug in armada ({type(error).__name__}); please report the lines above"
    return _say(ArmadaError(what), arguments)
