"""Watch one host in one thread: record its runs, GPUs and facts in the store. A dead host delays only its own watcher."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from armada.config.hosts import load_hosts
from armada.daemon.host_budget import HostBudget
from armada.daemon.idle_stop import IdleStop
from armada.errors import ArmadaError, HostUnreachable, StoreGone, UnexpectedAnswer
from armada.foundation.backoff import Backoff, jitter_roll
from armada.foundation.sanitize import sanitize_line
from armada.launch.retry import Retries
from armada.monitor.observe import observe
from armada.monitor.queue import look_at_queue
from armada.protocol.facts import AskFacts
from armada.protocol.host import AskLoad, Load
from armada.rpc.client import Call
from armada.rpc.session import HostSession
from armada.store import hosts as host_records
from armada.store import running_operations, runs, telemetry
from armada.store.database import Database
from armada.sweeps.tending import Tending
from armada.sync.schedule.disk_forecast import note_forecast
from armada.units import span
from armada.verdicts.idle import GAP_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from armada.config.hosts import Host
    from armada.daemon.host_status import HostStatusRegistry
    from armada.paths import HomePaths
    from armada.protocol.facts import Facts
    from armada.protocol.message import Request
    from armada.protocol.scheduler import ClusterQueue
    from armada.store.runs import Run

log = logging.getLogger(__name__)

ACTIVE_S = 2.0
"""Seconds between checks of a host with runs that have not ended."""

SEEN_S = 1.0
"""The same while a dashboard is open, so that a run's output is on the screen within two seconds."""

LOAD_S = 10.0
IDLE_S = 60.0
"""Seconds between checks of a host without such runs; also the longest wait for one that does not answer."""

FACTS_S = 60.0
QUEUE_S = 120.0
"""Seconds between queries of a cluster's queue, which cost its site more than us; the agent caches an answer for as long."""

THIN_S = 600.0

_MOST = 1e18
"""An upper bound for a GPU's values."""

_UNREACHABLE = Backoff(2 * ACTIVE_S, IDLE_S, jitter=(0.5, 1.0))


def wait_after_failure_s(failures: int, roll: float) -> float:
    """Return the pause after so many failures of a host in a row, in seconds; `roll` in [0, 1) spreads many daemons."""
    return _UNREACHABLE.pause_s(failures, roll)


def active_wait_s(home: HomePaths, now: float) -> float:
    """Seconds to wait between checks of a host that has active runs."""
    try:
        looked_at = home.looked_at.stat().st_mtime
    except OSError:
        return ACTIVE_S
    return SEEN_S if abs(now - looked_at) < 3 * ACTIVE_S else ACTIVE_S


class Watcher:
    """Checks a host again and again until stopped.

    Args:
        host: The host.
        home: Home's folders.
        board: Receives the status.
        now: Returns unix time.
        hosts: Returns all hosts, for what they cost; those of hosts.yaml by default, so without those of projects.
    """

    def __init__(
        self,
        host: Host,
        home: HomePaths,
        board: HostStatusRegistry,
        *,
        now: Callable[[], float] = time.time,
        hosts: Callable[[], Mapping[str, Host]] | None = None,
    ) -> None:
        self.host = host
        self._home = home
        self._board = board
        self._now = now
        self._stopped = threading.Event()
        self._wake = threading.Event()
        self._session = HostSession(host, home, patience_s=0.0)
        self._failures = 0
        self._asked_at: dict[str, float] = {}
        self._facts_at: float | None = None
        self._queue: ClusterQueue | None = None
        self._queue_look: threading.Thread | None = None
        self._retries = Retries(self._session)
        self._idle_stop = IdleStop(host, home, now=now)
        self._budget = HostBudget(self._session, partial(board.continue_there, host.name))
        self._tending = Tending(self._session, hosts or (lambda: load_hosts(home)))
        board.add(host.name)
        self._thread = threading.Thread(target=self._work, name=f"watch {host.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Check again now, because something was launched or the machine slept."""
        self._failures = 0
        self._wake.set()

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()

    @property
    def has_ended(self) -> bool:
        """Whether nobody watches the host any more: its thread ended, or could not be started."""
        return not self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while not self._stopped.is_set():
            try:
                with Database(self._home.store, existing=True) as database:
                    while not self._stopped.is_set():
                        self._rest(self.look(database))
            except StoreGone:
                break  # the daemon says so and ends
            except Exception as error:
                log.exception("%s: armada cannot use the store; retrying", self.host.name)
                self._rest(self._stumbled(error))
        self.close()

    def _rest(self, wait_s: float) -> None:
        self._wake.wait(wait_s)
        self._wake.clear()

    def close(self) -> None:
        """Tell its thread to close the connection."""
        self._session.close()

    def look(self, database: Database) -> float:
        """Check the host once. Return the seconds until the next check. No error here ends the watcher."""
        name = self.host.name
        self._board.looks(name, time.monotonic())
        try:
            active = watchable(database, name)
            self._ask(database, [*active, *self._told(database)])
            if self._retries.look(database, self._now()):
                active = watchable(database, name)
            self._tending.look(database, self._now())
            self._budget.look(database, self._now())
        except ArmadaError as error:
            wait_s = self._failed(database, error.message)
        except Exception as error:
            # A full disk, a locked store, or a bug of ours: this host and the others are still watched.
            log.exception("%s: checking it failed", name)
            wait_s = self._stumbled(error)
        else:
            going = any(not run.ended for run in active)  # a guessed end is revised soon enough
            wait_s = active_wait_s(self._home, self._now()) if going else IDLE_S
            self._failures = 0
            self._note_idle(database)
            former = self._board.saw(name, self._now(), self._now() + wait_s)
            if former is not None and former.state != "ok":
                log.info("%s: answers", name)
        return wait_s

    def _stumbled(self, error: Exception) -> float:
        """Report a failure of home's own. Return the seconds until the next try."""
        self._failures += 1
        wait_s = wait_after_failure_s(self._failures, jitter_roll())
        why = sanitize_line(f"{type(error).__name__}: {error}")
        self._board.failed(self.host.name, why, self._now() + wait_s)
        return wait_s

    def _told(self, database: Database) -> list[Run]:
        """Return the ended runs that may run again; their batch system is not asked more often for them than on an idle host."""
        if not self._due("told", IDLE_S):
            return []
        now = self._asked_at["told"] = self._now()
        watched = runs.every(database, host=self.host.name, watched=True, now=now)
        return [run for run in watched if run.is_only_told]

    def _note_idle(self, database: Database) -> None:
        if self._facts_at is None or not 0 <= self._now() - self._facts_at <= GAP_S:
            return  # who is on its GPUs is not known: its time of idleness breaks off
        try:
            self._idle_stop.answered(database)
        except ArmadaError as error:  # says nothing about the host and its runs
            log.warning("%s: its idleness: %s", self.host.name, sanitize_line(error.message))

    def _ask(self, database: Database, active: list[Run]) -> None:
        """Query the host in one round trip: runs every time, the load of its GPUs every 10 s, its other facts every minute."""
        if self.host.batch is not None and self._due("queue", QUEUE_S) and self._queue_look is None:
            # In another thread: a batch system that takes minutes to answer must not delay the runs.
            self._queue_look = threading.Thread(
                target=self._look_at_queue, name=f"queue of {self.host.name}", daemon=True
            )
            self._queue_look.start()
            self._asked_at["queue"] = self._now()
        elif self._queue_look is not None and not self._queue_look.is_alive():
            self._queue_look = None
            self._asked_at.pop("facts", None)  # the answer is stored with the facts
        due: dict[str, tuple[float, Request[Any]]] = {"facts": (FACTS_S, AskFacts()), "load": (LOAD_S, AskLoad())}
        asked = {what: request for what, (every_s, request) in due.items() if self._due(what, every_s)}
        answers = observe(database, self._session, active, [Call.of(request) for request in asked.values()])
        for what, answer in zip(asked, answers, strict=True):
            self._asked_at[what] = self._now()
            if isinstance(answer, UnexpectedAnswer):
                log.warning("%s: %s; what it said before stays", self.host.name, sanitize_line(answer.message))
            elif isinstance(answer, ArmadaError):
                self._asked_at.pop(what)
                raise answer
            else:
                self._take(database, answer)
        if self._due("thin", THIN_S):
            telemetry.thin(database, self.host.name, self._now())
            self._asked_at["thin"] = self._now()

    def _take(self, database: Database, answer: Facts | Load) -> None:
        if isinstance(answer, Load):
            telemetry.record(database, self.host.name, points_of(answer, self._now()))
            return
        queue = {"queue": self._queue.model_dump()} if self._queue is not None else {}
        host_records.record_facts(database, self.host.name, {**answer.as_json(), **queue})
        self._facts_at = self._now()
        note_forecast(database, self.host.name, now=self._now())

    def _look_at_queue(self) -> None:
        try:
            self._queue = look_at_queue(self._session)
        except HostUnreachable as error:
            log.debug("%s: its queue could not be read (%s)", self.host.name, sanitize_line(error.message))

    def _due(self, what: str, every_s: float) -> bool:
        asked_at = self._asked_at.get(what)
        return asked_at is None or not 0 <= self._now() - asked_at < every_s - ACTIVE_S / 2  # clock set back: due

    def _failed(self, database: Database, why: str) -> float:
        name = self.host.name
        self._session.disconnect()
        self._failures += 1
        self._asked_at.pop("facts", None)  # the next facts clear its mark in the store
        wait_s = wait_after_failure_s(self._failures, jitter_roll())
        host_records.mark_unreachable(database, name, why)
        self._idle_stop.silent(database)
        former = self._board.failed(name, sanitize_line(why), self._now() + wait_s)
        if former is None or former.state != "unreachable":
            log.warning(
                "%s: does not answer (%s); its runs continue; next try in %s", name, sanitize_line(why), span(wait_s)
            )
        return wait_s


def watchable(database: Database, host: str) -> list[Run]:
    """Return the runs of a host that may not have ended, except those that a running launch is starting."""
    active = runs.every(database, host=host, active=True)
    if not any(run.state == "preparing" for run in active):
        return active
    launching = running_operations.being_launched(database)
    return [run for run in active if run.state != "preparing" or run.run_id not in launching]


def watchable_ids(database: Database) -> list[tuple[str, str]]:
    """Return (run id, host) of such runs on all hosts: new ones are checked now, not when their host is due."""
    active = runs.active_ids(database)
    launching = (
        running_operations.being_launched(database) if any(state == "preparing" for *_, state in active) else set()
    )
    return [(run_id, host) for run_id, host, state in active if state != "preparing" or run_id not in launching]


def points_of(load: Load, now: float) -> list[telemetry.Point]:
    """Convert the GPUs of a `host.load` answer to points in home's time; values that the store cannot hold become None."""
    return [
        telemetry.Point(
            gpu.index,
            now,
            _stored(gpu.utilization),
            gpu.memory_used_bytes,
            _stored(gpu.power_w),
            _stored(gpu.temperature_c),
        )
        for gpu in load.gpus[:64]
    ]


def _stored(value: float | None) -> float | None:
    return value if value is not None and -1e18 < value < 1e18 else None
