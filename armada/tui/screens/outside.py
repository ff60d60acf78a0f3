"""What leaves the dashboard: a run's page in a browser, a shell on its host, a command that gets the terminal."""

from __future__ import annotations

import contextlib
import shlex
import sqlite3
import subprocess
import sys
import webbrowser
from typing import TYPE_CHECKING

from armada.errors import ArmadaError
from armada.foundation.sanitize import sanitize_line
from armada.tui import logs, web_pages
from armada.tui.lending import lend
from armada.tui.operations import command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.paths import HomePaths
    from armada.tui.app import Dashboard
    from armada.tui.snapshot import RunRow


def open_page(board: Dashboard, rows: Sequence[RunRow]) -> None:
    """Open the page of a run at W&B or on the hub; the URL is shown and confirmed first, because a host printed it."""
    from armada.tui.screens.chooser import Choice, Chooser

    if not rows:
        _say(board, "no run under the cursor")
        return
    row = rows[0]
    log = logs.at_home(board.home, row.run, local=row.run.host == "local")
    pages = web_pages.pages(row.run.run_id, log, _spec(board.home, row.run.run_id))
    if not pages:
        _say(
            board,
            f"{row.name} has no page: its log at home has no W&B address, and its experiment names nothing on the hub",
        )
        return
    chooser = Chooser("Open which page?", [Choice(page.url, page.url, page.about) for page in pages], board.symbols)
    board.push_screen(chooser, lambda url: show_page(board, url) if url else None)


def show_page(board: Dashboard, url: str) -> None:
    """Open a validated URL; without a browser, copy it instead."""
    if board.is_web:
        board.open_url(url)
        _say(board, f"opened {url}", good=True)
        return
    if not has_browser():
        board.copy_to_clipboard(url)
        _say(board, f"there is no browser on this machine; copied: {url}")
        return
    program = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"
    subprocess.Popen(  # not in this process: what it prints would be drawn over the dashboard
        [sys.executable, "-c", program, url],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _say(board, f"opened {url}", good=True)


def has_browser() -> bool:
    """Return whether this machine has a browser with a window of its own; one in the terminal would draw over the dashboard."""
    try:
        return type(webbrowser.get()) is not webbrowser.GenericBrowser
    except webbrowser.Error:
        return False


def open_shell(board: Dashboard, words: Sequence[str]) -> None:
    """Give the terminal to `armada ssh`, and take it back when that ends."""
    if not board.refuses("shell"):
        give_terminal(board, words, "a shell")


def give_terminal(board: Dashboard, words: Sequence[str], what: str) -> int | None:
    """Give the terminal to an armada command, and take it back when that ends.

    Args:
        board: Whose terminal it is.
        words: The arguments after `armada`.
        what: What needs a terminal, for the sentence where there is none.

    Returns:
        The exit code; None if the command was not started.
    """
    shown = shlex.join(["armada", *words])
    if board.is_web:
        _say(board, f"{what} needs a terminal, and this is a browser; in a terminal: {shown}")
        return None
    if not board.can_suspend:
        _say(board, f"{what} needs a terminal of its own; in another one: {shown}")
        return None
    try:
        code = lend(board, command(*words), shown, stays=True)
    except OSError as error:
        _say(board, f"{shown}: {error.strerror}")
        return None
    if code:
        _say(board, f"{shown} ended with {code}")
    return code


def _spec(home: HomePaths, run_id: str) -> Mapping[str, object] | None:
    from armada.store import runs
    from armada.store.database import Database

    with (
        contextlib.suppress(ArmadaError, OSError, sqlite3.Error),
        Database(home.store, existing=True, patience_s=1.0) as database,
    ):
        return runs.spec(database, run_id)
    return None


def _say(board: Dashboard, words: str, *, good: bool = False) -> None:
    text = board.symbols.text(sanitize_line(words, 700))
    board.notify(text, severity="information" if good else "warning", markup=False, timeout=15)
