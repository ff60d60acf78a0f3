"""Look after the sweeps of a host: dispatchers that died are started again, and stop rules are applied."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING

from armada.config.sweep import StopRule
from armada.costs.report import cost_so_far
from armada.errors import ArmadaError, HostUnreachable
from armada.foundation.sanitize import sanitize_line
from armada.protocol.sweeps import TendSweeps
from armada.store import runs, sweeps
from armada.store.queries.stopped_cells import is_stopped_with
from armada.store.queries.tariffs import read_tariffs
from armada.store.queries.uses import read_uses
from armada.sweeps.pruning import prune
from armada.sweeps.rules import settings_of, why_stop
from armada.sweeps.standing import cells_of
from armada.sweeps.stopping import SWEEP_STOPPED, TOLD_TO_STOP, Because, tell_cells
from armada.sweeps.unfinished import complete_launches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from armada.config.hosts import Host
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.sweeps.rounds import Rounds

log = logging.getLogger(__name__)

EVERY_S = 30.0
"""Seconds between looks at the sweeps of a host."""

_MOST = 200


class Tending:
    """Looks after the sweeps of one host.

    Args:
        session: A session with the host.
        hosts: Gives all configured hosts, for what they cost.
    """

    def __init__(self, session: HostSession, hosts: Callable[[], Mapping[str, Host]]) -> None:
        self._session = session
        self._hosts = hosts
        self._next_at = 0.0
        self._rounds: Rounds | None = None

    def look(self, database: Database, now: float | None = None) -> None:
        """Look at the host's sweeps, unless that was done a moment ago.

        Args:
            database: The store.
            now: Unix time.

        Raises:
            HostUnreachable: The host does not answer now.
        """
        now = time.time() if now is None else now
        if now < self._next_at <= now + EVERY_S:
            return
        self._next_at = now + EVERY_S
        with self._contained("its sweeps"):
            self._look(database, now)

    def _look(self, database: Database, now: float) -> None:
        host = self._session.host.name
        complete_launches(database, host)
        names = sweeps.active_on(database, host)
        searches = [record.name for record in sweeps.searches(database)]
        for name in dict.fromkeys([*names, *searches]):  # of a search all cells may have ended
            with self._contained(f"the rules of {name}"):
                self._apply_rule(database, name, now)
                self._prune(database, name)
        waiting = [name for name in names if sweeps.find(database, name).state != "stopped"][:_MOST]
        if waiting and sweeps.has_waiting(database, host):
            with self._contained("cells that wait"):
                self._session.call(TendSweeps(sweeps=tuple(waiting)), timeout_s=60.0)
        if searches:
            if self._rounds is None:
                from armada.sweeps.rounds import Rounds  # planning and launching, which a look seldom needs

                self._rounds = Rounds(self._session)
            self._rounds.look(database, now)

    @contextlib.contextmanager
    def _contained(self, what: str) -> Iterator[None]:
        """Log an error: what is wrong with one sweep says nothing about the other ones, nor about the host and its runs."""
        try:
            yield
        except HostUnreachable:
            raise
        except ArmadaError as error:
            log.info("%s: %s: %s", self._session.host.name, what, sanitize_line(error.message))

    def _apply_rule(self, database: Database, name: str, now: float) -> None:
        record = sweeps.find(database, name)
        settings = settings_of(record)
        if record.state != "stopped" and settings.stop != StopRule():
            cost = None
            if settings.stop.cost is not None:
                tariffs = read_tariffs(database, self._hosts())
                cost = cost_so_far(read_uses(database, runs.of_sweep(database, name), now), tariffs)
            why = why_stop(record, cells_of(database, name, settings.metric, settings.decided_goal), cost, now)
            if why is None:
                return
            log.info("%s is stopped: %s", name, sanitize_line(why))
            sweeps.set_state(database, name, "stopped", why)
            record = sweeps.find(database, name)
        elif record.state == "stopped":
            why = record.why
        else:
            return
        found = [run for run in runs.of_sweep(database, name) if run.host == self._session.host.name and not run.ended]
        left = [run for run in found if is_stopped_with(database, run, record)]
        because = {}
        if why and why != TOLD_TO_STOP:
            because = {run.run_id: Because(SWEEP_STOPPED, f"its sweep ended: {why}") for run in left}
        tell_cells(database, self._session, left, because=because)

    def _prune(self, database: Database, name: str) -> None:
        record = sweeps.find(database, name)
        because = prune(database, record, self._session.host.name) if record.state != "stopped" else {}
        if because:
            left = [run for run in runs.of_sweep(database, name) if run.run_id in because]
            tell_cells(database, self._session, left, because=because)
