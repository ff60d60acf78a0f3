"""`armada help`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.errors import EXIT_CODES

if TYPE_CHECKING:
    import argparse


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("help", help="explain a topic", description="Explain a topic.")
    parser.add_argument("topic", choices=["exit-codes"], help="what to explain")
    parser.set_defaults(handler=_explain)


def _explain(_: argparse.Namespace) -> int:
    for code, meaning in EXIT_CODES.items():
        print(f"{code:>4}  {meaning}")
    return 0
