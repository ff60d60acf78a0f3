"""`armada dashboard`, and `armada` alone on a terminal."""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import os
import shutil
import sys
from typing import TYPE_CHECKING

from armada.errors import UsageError
from armada.foundation.extras import install_command

if TYPE_CHECKING:
    from armada.paths import HomePaths


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "dashboard",
        help="Open the dashboard",
        description="Open the dashboard: runs, hosts, transfers and loss curves, live. `armada` without a "
        "command opens it too. Runs continue when you leave it.",
    )
    parser.add_argument("--read-only", action="store_true", help="Only show: never start, stop or fetch anything")
    parser.add_argument(
        "--web",
        action="store_true",
        help="Serve the dashboard to a browser on this machine (needs the extra `web`)",
    )
    parser.add_argument(
        "--port", type=int, metavar="N", help="With --web: listen on this port (default: any free port)"
    )
    parser.set_defaults(handler=_handle)


def _handle(options: argparse.Namespace) -> int:
    if options.web:
        return serve(port=options.port or 0, read_only=options.read_only)
    if options.port is not None:
        raise UsageError("--port needs --web", hint=f"armada dashboard --web --port {options.port}")
    return show(read_only=options.read_only)


def show(*, read_only: bool = False) -> int:
    """Open the dashboard and wait until the user closes it.

    Raises:
        UsageError: There is no terminal to draw on.
        ConfigError: The store is none of ours, or of a newer armada.
    """
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError("the dashboard needs a terminal", hint="armada ps, armada show RUN, armada logs RUN")
    gc.disable()  # until the first paint: nothing that is created before becomes garbage, and Textual's import is 8 % faster
    from armada.cli.context import Context

    context = Context()  # an older store is migrated, a newer one refused, before the screen is taken
    context.database.close()
    from armada.tui.first_rows import FirstRows
    from armada.tui.frame_rate import import_textual

    reading = FirstRows(context.home)
    with _asked_for_background(context.home):
        import_textual()
        from armada.tui.app import Dashboard

    board = Dashboard(context.home, read_only=read_only, first=reading.wait())
    # Of a terminal that says it has no size (a new pseudo-terminal), Rich and Textual assume two that differ by a line, and
    # Textual would lay the screen out for one and the other without end.
    board.console.size = shutil.get_terminal_size()
    board.run()
    if board.return_code:
        return 1
    print("The dashboard is closed. Runs, operations and the daemon continue: armada ps")
    return 0


def _asked_for_background(home: HomePaths) -> contextlib.AbstractContextManager[None]:
    """Ask the terminal for its background meanwhile, where the theme depends on it."""
    from armada.tui import background, remembered

    if background.is_worth_asking(os.environ, remembered.theme(home)):
        return background.asked(sys.stdin.fileno(), sys.stdout.fileno(), background.patience_s(os.environ))
    return contextlib.nullcontext()


def serve(*, port: int, read_only: bool) -> int:
    """Serve the dashboard to browsers until Ctrl-C.

    Raises:
        UsageError: What serves it is not installed, or the port is no port.
        Conflict: The port is taken.
        ConfigError: The store is none of ours, or of a newer armada.
    """
    if not 0 <= port <= 65_535:
        raise UsageError(f"{port} is not a port", hint="1 to 65535, or 0 for any free one")
    if importlib.util.find_spec("textual_serve") is None:
        raise UsageError("the dashboard in a browser needs textual-serve", hint=install_command("web"))
    import asyncio

    from armada.cli.context import Context
    from armada.tui.web import server

    Context().database.close()
    listening = server.listen(port)
    asyncio.run(server.serve(listening, read_only=read_only, tell=_tell))
    print("\nThe dashboard is closed. Runs, operations and the daemon continue: armada ps")
    return 0


def _tell(address: str) -> None:
    print(f" dashboard  {address}")
    print("            Anyone who has this address can do what you can do in armada. Do not share it.")
    print("            Ctrl-C ends it.", flush=True)
