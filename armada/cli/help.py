"""`armada help`."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING

from armada.cli.printing import print_json
from armada.errors import EXIT_CODES, UsageError

if TYPE_CHECKING:
    import argparse


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from armada.cli.topics import TOPICS

    parser = commands.add_parser(
        "help",
        help="Explain a command or a topic",
        description="Explain a command, such as `armada help hosts add`, or a topic.",
        epilog="Topics: " + "; ".join(f"`{topic}`: {about}" for topic, (about, _) in TOPICS.items()) + ".",
    )
    parser.add_argument("topic", nargs="*", metavar="TOPIC", help="A command, or a topic")
    parser.add_argument(
        "--json", action="store_true", help="Print a JSON object: the text, or the exit codes one by one"
    )
    parser.set_defaults(handler=_explain)


def _explain(options: argparse.Namespace) -> int:
    from armada.cli.main import build_parser

    words: list[str] = options.topic
    if words == ["exit-codes"] and options.json:
        print_json({"exit_codes": {str(code): meaning for code, meaning in EXIT_CODES.items()}})
    elif words == ["json"]:
        print(_text(words))
    elif options.json:
        print_json({"topic": " ".join(words), "text": _text(words) if words else build_parser().format_help()})
    elif words:
        print(_text(words))
    else:
        build_parser().print_help()
    return 0


def _text(words: list[str]) -> str:
    """The page about a command or a topic; `hosts` is both.

    Raises:
        UsageError: There is neither.
    """
    from armada.cli.main import COMMANDS, nearest
    from armada.cli.topics import TAKE_WORDS, TOPICS

    known = [word for group in COMMANDS.values() for word in group]
    pages = [_command(words)] if words[0] in known else []
    if words[0] in TOPICS and (len(words) == 1 or not pages):
        if len(words) > 1 and words[0] not in TAKE_WORDS:
            raise UsageError(
                f"the topic {words[0]} has no page {' '.join(words[1:])!r}", hint=f"armada help {words[0]}"
            )
        pages.append(TOPICS[words[0]][1](words[1:]))
    if pages:
        return "\n\n".join(pages)
    near = nearest(words[0], [*known, *TOPICS])
    raise UsageError(
        f"there is no command or topic {words[0]!r}",
        hint=f"did you mean armada help {near}?" if near else "armada help lists the commands",
    )


def _command(words: list[str]) -> str:
    """What a command prints with `--help`.

    Raises:
        UsageError: There is no such command.
    """
    from armada.cli.main import build_parser

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        build_parser(words[0]).parse_args([*words, "--help"])  # prints it and leaves
    return said.getvalue().rstrip("\n")
