"""What a sync works with: the store, a session with a host, home's folders and, for a single run, its id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.paths import HomePaths
    from armada.rpc.session import HostSession
    from armada.store.database import Database


@dataclass(frozen=True, slots=True)
class HostContext:
    """A sync with one host.

    Attributes:
        database: The store.
        session: A session with the host.
        home: Home's folders.
    """

    database: Database
    session: HostSession
    home: HomePaths

    @property
    def host(self) -> str:
        """The host's name."""
        return self.session.host.name

    def of_run(self, run_id: str) -> SyncContext:
        """Return the context for one run of the host."""
        return SyncContext(self.database, self.session, self.home, run_id)


@dataclass(frozen=True, slots=True)
class SyncContext(HostContext):
    """A sync of one run, `run_id`."""

    run_id: str
