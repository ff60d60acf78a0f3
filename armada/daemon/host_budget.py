"""Stop the runs of a host whose budget is spent: each saves in its grace period, and its checkpoints stay until home.

Runs that another home launched continue: that home never set this budget, and `armada stop` asks before it ends them.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

from armada.home import own
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
    _told: frozenset[str] = frozenset()
    """Runs of other homes, which were named in the log."""

    def look(self, database: Database, now: float) -> None:
        """Stop the runs of this home there if the host's budget is spent, unless that was looked at a moment ago.

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
        others = runs.launchers(database, own(self.session.home).id)
        mine = [run for run in active if run.run_id not in others]
        theirs = {run.run_id: others[run.run_id] for run in active if run.run_id in others}
        if theirs.keys() - self._told:
            self._told = frozenset(theirs)
            named = ", ".join(f"{run_id} of {label}" for run_id, label in sorted(theirs.items()))
            log.warning("%s; other homes launched %s: armada stop RUN --other-home stops one", why, named)
        if not mine:
            return
        log.warning("%s; %d of its runs are stopped", why, len(mine))
        requests = [request_of(database, run, None).model_copy(update={"budget": why}) for run in mine]
        self.session.call_all([Call.of(each, 60.0) for each in requests])
