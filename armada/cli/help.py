"""`armada help`."""

from __future__ import annotations

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
    parser.add_argument("--json", action="store_true", help="Print the exit codes as a JSON object")
    parser.set_defaults(handler=_explain)


def _explain(options: argparse.Namespace) -> int:
    from armada.cli.main import COMMANDS, build_parser, nearest

    words: list[str] = options.topic
    if not words:
        build_parser().print_help()
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
        build_parser(words[0]).parse_args([*words, "--help"])  # prints it and leaves
    return 0
