"""Read the top of the first screen in a thread while Textual is imported, so that the first paint has runs in it."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from typing import TYPE_CHECKING

from armada.errors import ArmadaError

if TYPE_CHECKING:
    from armada.paths import HomePaths
    from armada.tui.snapshot import Snapshot

PATIENCE_S = 0.2
"""How long the first paint may wait for runs, in seconds; after that they come with the whole store."""


class FirstRows:
    """Begins to read at once.

    Args:
        home: The home whose store is read. It exists, and has the newest version.
    """

    def __init__(self, home: HomePaths) -> None:
        self._home = home
        self._found: Snapshot | None = None
        self._thread = threading.Thread(target=self._read, name="first rows", daemon=True)
        self._thread.start()

    def wait(self) -> Snapshot | None:
        """Return the runs at the top; None if they are not there in time, or are too many to be read first."""
        self._thread.join(PATIENCE_S)
        return self._found

    def _read(self) -> None:
        from armada.store.database import Database
        from armada.tui import remembered
        from armada.tui.reading import read_first

        # A store that cannot be read is reported by the watcher, which goes on trying.
        try:
            with Database(self._home.store, patience_s=PATIENCE_S) as database:
                lines = shutil.get_terminal_size().lines
                self._found = read_first(database, last=lines, pinned=remembered.pinned(self._home))
        except (ArmadaError, sqlite3.Error, ValueError, OSError):
            self._found = None
