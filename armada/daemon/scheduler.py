"""Schedule syncs: sync what is due, all hosts in parallel, one worker for each."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Protocol

from armada.errors import ArmadaError
from armada.foundation.sanitize import sanitize_line
from armada.rpc.session import HostSession
from armada.store.database import Database
from armada.sync.context import HostContext
from armada.sync.runs.sync_host import sync_host
from armada.sync.schedule import due as schedule
from armada.units import amount, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from armada.config.hosts import Host
    from armada.daemon.host_status import HostStatusRegistry
    from armada.paths import HomePaths
    from armada.sync.runs.report import SyncOutcome
    from armada.sync.schedule.due import Due

log = logging.getLogger(__name__)

MOST_AT_ONCE = 8
"""Number of hosts synced at the same time; each may use several streams."""

COOL_S = 60.0
"""Pause of a host's syncs after an internal error, in seconds, so that it does not fill the log."""


class SyncHost(Protocol):
    """The signature of `armada.sync.runs.sync_host.sync_host`."""

    def __call__(
        self,
        context: HostContext,
        run_ids: Sequence[str],
        /,
        *,
        news: Callable[[], Sequence[str]],
    ) -> Sequence[SyncOutcome]: ...


class SyncScheduler:
    """Starts the syncs that are due.

    Args:
        home: Home's folders.
        board: Knows which hosts answer, and receives the running syncs.
        due: Returns what is due at a time.
        sync_host: Carries out the syncs of a host.
    """

    def __init__(
        self,
        home: HomePaths,
        board: HostStatusRegistry,
        *,
        due: Callable[[Database, float], Sequence[Due]] = schedule.due,
        sync_host: SyncHost = sync_host,
    ) -> None:
        self._home = home
        self._board = board
        self._due = due
        self._sync_host = sync_host
        self._lock = threading.Lock()
        self._workers: dict[str, tuple[threading.Thread, HostSession]] = {}
        self._rests_until: dict[str, float] = {}
        self._busy: set[str] = set()
        self._ticked_at = 0.0

    @property
    def busy(self) -> bool:
        with self._lock:
            return bool(self._workers)

    def tick(self, database: Database, hosts: Mapping[str, Host], now: float) -> None:
        """Start a worker for every host that answers, has something due and has no worker yet.

        A host that does not answer gets no worker, since there are few; its watcher notices when it answers again.
        """
        self._ticked_at = now
        by_host: dict[str, list[str]] = {}
        for due in self._due(database, now):
            by_host.setdefault(due.host, []).append(due.run_id)
        for name, run_ids in by_host.items():
            resting = time.monotonic() < self._rests_until.get(name, 0.0)
            if name not in hosts or resting or not self._board.reachable(name):
                continue
            with self._lock:
                if len(self._workers) >= MOST_AT_ONCE:
                    return
                if name not in self._workers:
                    self._start(hosts[name], run_ids, now)

    def close(self, timeout_s: float) -> None:
        """Interrupt running syncs. Staging keeps the data that arrived, and the next daemon continues there."""
        with self._lock:
            workers = list(self._workers.values())
        deadline = time.monotonic() + timeout_s
        for _, session in workers:
            session.close()
        for thread, _ in workers:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start(self, host: Host, run_ids: list[str], now: float) -> None:
        session = HostSession(host, self._home)
        thread = threading.Thread(
            target=self._work, args=(session, run_ids, now), name=f"sync {host.name}", daemon=True
        )
        self._workers[host.name] = (thread, session)
        self._board.syncs(host.name, run_ids, now)
        thread.start()

    def _work(self, session: HostSession, run_ids: list[str], began: float) -> None:
        name = session.host.name
        try:
            with Database(self._home.store, existing=True) as database, session:

                def news() -> list[str]:
                    """Return runs that became due while the worker was busy; they must not wait for all earlier ones."""
                    found = [due.run_id for due in self._due(database, self._ticked_at) if due.host == name]
                    self._board.syncs(name, [*run_ids, *(each for each in found if each not in run_ids)], began)
                    return found

                for outcome in self._sync_host(HostContext(database, session, self._home), run_ids, news=news):
                    _say(name, outcome)
                    self._say_busy(name, outcome)
        except ArmadaError as error:
            log.warning("%s: sync interrupted (%s); armada retries it later", name, sanitize_line(error.message))
        except Exception:
            log.exception("%s: sync failed", name)
            self._rests_until[name] = time.monotonic() + COOL_S
        finally:
            self._board.synced(name)
            with self._lock:
                del self._workers[name]

    def _say_busy(self, host: str, outcome: SyncOutcome) -> None:
        """Log once that a run is put off, and not at every try: a pull may take hours."""
        if outcome.busy is None:
            self._busy.discard(outcome.run_id)
        elif outcome.run_id not in self._busy:
            self._busy.add(outcome.run_id)
            log.info("%s: %s is synced later: %s", host, outcome.run_id, outcome.busy)


def _say(host: str, outcome: SyncOutcome) -> None:
    if outcome.published:
        count = len(outcome.published)
        what = f"{count} checkpoint{'s' if count > 1 else ''} of {outcome.run_id} home and verified"
        log.info("%s: %s, %s", host, what, amount(outcome.size_bytes))
    if kept := outcome.outputs.kept:
        what = f"{counted(len(kept), 'file')} of {outcome.run_id} of which the host has no later version"
        log.info("%s: %s moved aside at home", host, what)
    for trouble in outcome.troubles:
        log.warning("%s: %s: %s (%s)", host, outcome.run_id, sanitize_line(trouble.error.message), trouble.cause)
    if outcome.final:
        log.info("%s: everything of %s is home", host, outcome.run_id)
