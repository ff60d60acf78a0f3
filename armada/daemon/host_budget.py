"""Stop the runs of a host whose budget is spent: each saves in its grace period, and its checkpoints stay until home."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

from armada.launch.stop import request_of
from armada.rpc.client import Call
from armada.store import runs
from armada.store.queries.host_costs import why_over_budget

if TYPE_CHECKING:
    from armada.rpc.session import HostSession
    from armada.store.database import Database

log = logging.getLogger(__name__)

EVERY_S = 30.0
"""Seconds between two looks at what a host has cost."""


@dataclasses.dataclass(slots=True)
class HostBudget:
    """Watches over the budget of one host.

    Attributes:
        session: A session with the host.
    """

    session: HostSession
    _next_at: float = 0.0

    def look(self, database: Database, now: float) -> None:
        """Stop the host's runs if its budget is spent, unless that was looked at a moment ago.

        Raises:
            HostUnreachable: The host does not answer now.
        """
        host = self.session.host
        if host.budget is None or now < self._next_at <= now + EVERY_S:
            return
        self._next_at = now + EVERY_S
        active = [run for run in runs.every(database, host=host.name, active=True) if run.state != "preparing"]
        why = why_over_budget(database, host, now) if active else None
        if why is None:
            return
        log.warning("%s; %d of its runs are stopped", why, len(active))
        requests = [request_of(database, run, None).model_copy(update={"budget": why}) for run in active]
        self.session.call_all([Call.of(each, 60.0) for each in requests])
