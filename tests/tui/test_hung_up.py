"""A terminal that is gone ends the dashboard, whatever it waits for."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

BLOCKED = """
import asyncio, threading
from armada.tui import hung_up
hung_up._PATIENCE_S = 0.0
hung_up.watch(asyncio.new_event_loop(), lambda: None)
print("up", flush=True)
threading.Event().wait()
"""


def test_a_dashboard_that_hangs_in_a_write_ends_with_its_terminal() -> None:
    """Textual's event loop waits for ever in a write that nobody takes: nothing in it can look for the terminal."""
    master, slave = pty.openpty()
    board = subprocess.Popen(
        [sys.executable, "-c", BLOCKED], stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    try:
        assert b"up" in os.read(master, 100)
        os.close(master)
        assert board.wait(60) == 1
    finally:
        board.kill()
        board.wait()
