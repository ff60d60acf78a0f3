"""Keep the hosts checked while the dashboard is open: by the daemon, or by a command now and then if none is wanted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from armada.errors import HostUnreachable
from armada.foundation.sanitize import sanitize_line
from armada.tui import operations

if TYPE_CHECKING:
    from armada.tui.app import Dashboard

FIRST_S = 3.0
EVERY_S = 10.0
"""How often a child process checks the hosts of active runs if there is no daemon, in seconds."""
TITLE = "check hosts"


class Lookout:
    """Looks again and again, and says once why it cannot."""

    def __init__(self, board: Dashboard) -> None:
        self._board = board
        self._is_looking = False
        self._said = ""

    def start(self) -> None:
        self._board.set_timer(FIRST_S, self._look)

    def _look(self) -> None:
        board = self._board
        board.set_timer(EVERY_S, self._look)
        daemon = board.snapshot.daemon
        if board.snapshot.trouble is not None:
            return  # a command would create a missing store again, empty
        if self._is_looking or daemon is None or daemon.is_alive:
            return
        if any(not row.run.ended for row in board.snapshot.runs) or board.snapshot.transfers:
            self._is_looking = True
            wanted = os.environ.get("ARMADA_NO_DAEMON", "") in ("", "0")
            words = ["daemon", "start", "--auto"] if wanted else ["ps"]
            operations.start(board.home, TITLE, words, board.tell_end, is_own=True)

    def take(self, ended: operations.Ended) -> bool:
        """Return whether it was a look that has ended; one that failed for a new reason is told."""
        if ended.title != TITLE:
            return False
        self._is_looking = False
        # That a host does not answer is recorded, and its runs say so.
        said = (
            ended.last or f"exit code {ended.exit_code}"
            if ended.exit_code not in (0, HostUnreachable.exit_code)
            else ""
        )
        if said and said != self._said:
            words = f"the hosts are not being checked: {sanitize_line(said, 500)}"
            self._board.notify(self._board.symbols.text(words), severity="error", markup=False, timeout=15)
        self._said = said
        return True
