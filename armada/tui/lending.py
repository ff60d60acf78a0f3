"""Lend the terminal to a command, such as a shell or an editor, and take it back, whatever becomes of that."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from armada.tui.app import Dashboard

SOON_S = 10.0
"""A command that fails within so many seconds says why: that stays until Enter is pressed. A shell that ends later ends with
the exit code of its last command, which is no failure."""
_ENDS = ((signal.SIGTERM, 0), (signal.SIGHUP, 1), (signal.SIGQUIT, 1))
"""Signals that end the dashboard, with its exit codes."""


def heed_signals(board: Dashboard) -> None:
    """End as `q` does at the signals of a system that shuts down, a terminal that is closed, or Ctrl-backslash."""
    if threading.current_thread() is threading.main_thread():
        for each, code in _ENDS:
            asyncio.get_running_loop().add_signal_handler(each, board.exit, None, code)


def lend(board: Dashboard, words: Sequence[str], shown: str, *, stays: bool = False) -> int:
    """Run a command in the terminal, and return its exit code.

    Args:
        board: Whose terminal it is.
        words: The command.
        shown: The same as a person would type it.
        stays: If it fails soon, wait for Enter.

    Raises:
        OSError: It could not be started; the dashboard has its terminal again.
    """
    code, trouble = 0, None
    with board.suspend(), _keys_are_its_own(board):
        try:  # inside: Textual does not take the terminal back after an exception
            sys.stdout.write(f"{sanitize_line(shown, 1000)}\n")
            sys.stdout.flush()
            began = time.monotonic()
            code = subprocess.run(words, check=False).returncode
            if stays and code and time.monotonic() - began < SOON_S:
                sys.stdout.write(f"\nended with {code}; Enter goes back to the dashboard ")
                sys.stdout.flush()
                with contextlib.suppress(ValueError):
                    sys.stdin.readline()
        except OSError as error:
            trouble = error
    if trouble is not None:
        raise trouble
    return code


@contextlib.contextmanager
def _keys_are_its_own(board: Dashboard) -> Iterator[None]:
    """Let Ctrl-C and Ctrl-backslash, which reach all programs of a terminal, end the command and not the dashboard."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    loop.remove_signal_handler(signal.SIGQUIT)
    # A handler, which a child does not inherit: it would inherit that a signal is ignored.
    kept = {each: signal.signal(each, lambda *_: None) for each in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for each, was in kept.items():
            signal.signal(each, was)
        # Once the loop has passed over the signals that came meanwhile.
        loop.call_soon(loop.call_soon, heed_signals, board)
