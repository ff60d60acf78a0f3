"""`armada mcp`: serve coding assistants over standard input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    mcp = commands.add_parser(
        "mcp",
        help="Serve coding assistants (MCP)",
        description="Serve the Model Context Protocol on standard input and output: a coding assistant may read runs, "
        "logs, metrics and hosts, and plan experiments. It may act only as --allow says.",
        epilog="example: armada mcp --allow launch,stop",
    )
    mcp.add_argument(
        "--allow",
        metavar="NAMES",
        help="Also offer these tools that act, separated by commas: launch, stop, resume, pull",
    )
    mcp.set_defaults(handler=_mcp)


def _mcp(options: argparse.Namespace) -> int:
    from armada.assistants.server import parse_allowed, serve

    serve(parse_allowed(options.allow) if options.allow is not None else ())
    return 0
