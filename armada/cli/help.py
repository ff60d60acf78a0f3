"""`armada help`."""

from __future__ import annotations

import contextlib
import io
import json
from typing import TYPE_CHECKING

from armada.cli.printing import print_json
from armada.errors import EXIT_CODES, UsageError

if TYPE_CHECKING:
    import argparse

TOPICS = ("exit-codes", "json")


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "help",
        help="Explain a command or a topic",
        description="Explain a command, such as `armada help hosts add`, or a topic. `exit-codes` lists the "
        "exit codes. `json` prints the JSON Schema of what --json prints.",
    )
    parser.add_argument("topic", nargs="*", metavar="TOPIC", help="A command, `exit-codes`, or `json`")
    parser.add_argument(
        "--json", action="store_true", help="Print a JSON object: the text, or the exit codes one by one"
    )
    parser.set_defaults(handler=_explain)


def _explain(options: argparse.Namespace) -> int:
    from armada.cli.main import COMMANDS, build_parser, nearest

    words: list[str] = options.topic
    if not words:
        _show("", build_parser().format_help(), as_json=options.json)
    elif words == ["json"]:
        from armada.cli.shapes import all_schemas

        print(json.dumps(all_schemas(), indent=1))
    elif words == ["exit-codes"] and options.json:
        print_json({"exit_codes": {str(code): meaning for code, meaning in EXIT_CODES.items()}})
    elif words == ["exit-codes"]:
        for code, meaning in EXIT_CODES.items():
            print(f"{code:>4}  {meaning}")
    elif words[0] not in (known := [word for group in COMMANDS.values() for word in group]):
        near = nearest(words[0], [*known, *TOPICS])
        raise UsageError(
            f"there is no command or topic {words[0]!r}",
            hint=f"did you mean armada help {near}?" if near else "armada help lists the commands",
        )
    else:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            build_parser(words[0]).parse_args([*words, "--help"])  # prints it and leaves
        _show(" ".join(words), said.getvalue(), as_json=options.json)
    return 0


def _show(topic: str, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"topic": topic, "text": text})
    else:
        print(text, end="")
