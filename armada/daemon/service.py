"""Run the daemon: once a second, start watchers and syncs, report the status, and exit when nothing is left."""

from __future__ import annotations

import logging
import signal
import sqlite3
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada import __version__
from armada.daemon import readiness, status
from armada.daemon.host_status import HostStatusRegistry
from armada.daemon.hosts import KnownHosts
from armada.daemon.instance import only_instance
from armada.daemon.scheduler import SyncHost, SyncScheduler
from armada.daemon.watcher import Watcher, watchable_ids
from armada.errors import Conflict, StoreDamaged
from armada.foundation import process_identity
from armada.notifications.messenger import Messenger
from armada.store import notifications, run_sync, running_operations, runs
from armada.store.database import Database, explain
from armada.sync.runs.sync_host import sync_host
from armada.units import span

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from armada.config.hosts import Host
    from armada.paths import HomePaths

log = logging.getLogger(__name__)

TICK_S = 1.0
IDLE_S = 300.0
"""A daemon that was started by another command ends when there was nothing to do for so long."""

ASLEEP_S = 30.0
"""A tick that comes so much too late: the machine slept, and every link is dead although nobody has noticed yet."""

STUCK_S = 600.0
"""One look at a host never takes so long."""

MOST_GIVEN_UP = 10
"""After so many threads that hang, the watchdog is left hungry, and systemd starts us anew."""

SYNC_S = 2.0
"""Between two looks for what is due: 50 ms with 2,000 runs in the store."""

SETTLE_S = 30.0
GIVEN_UP_S = 7 * 86_400.0
"""A run that ended so long ago and still is not home, or is not to be found, keeps no daemon alive."""

LEAVE_S = 5.0
COMPLAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Where the time comes from; tests bring their own."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


class Daemon:
    """Watches and syncs until told to stop.

    Args:
        home: Home's folders.
        auto: End when nothing is left to watch or sync.
        clock: The time.
        sync_host: What is done about syncs that are due.
    """

    def __init__(
        self,
        home: HomePaths,
        *,
        auto: bool = False,
        clock: Clock | None = None,
        sync_host: SyncHost = sync_host,
    ) -> None:
        self._home = home
        self._auto = auto
        self._clock = clock or Clock()
        self._stop = threading.Event()
        self._board = HostStatusRegistry()
        self._watchers: dict[str, Watcher] = {}
        self._known = KnownHosts(home)
        self._sync = SyncScheduler(home, self._board, sync_host=sync_host)
        self._messenger = Messenger(home, now=self._clock.now)
        self._active: dict[str, frozenset[str]] = {}
        self._started_at = self._clock.now()
        self._last_tick: tuple[float, float] | None = None
        self._settled_at: float | None = None
        self._synced_at: float | None = None
        self._idle_since: float | None = None
        self._given_up = 0
        self._complaint = ("", 0.0)

    def stop(self) -> None:
        """End after the present tick; from a signal handler or another thread."""
        self._stop.set()

    @property
    def syncs(self) -> bool:
        """Whether a sync is under way."""
        return self._sync.busy

    def run(self) -> bool:
        """Run as this home's daemon.

        Returns:
            Whether another one is to take over at once, for the store that took the place of the one it had.

        Raises:
            Conflict: Another process is.
        """
        self._handle_signals()
        while True:
            with only_instance(self._home):
                store = self._serve()
                self._write_status(self._why(store))
            if self._stop.is_set() or store != "there" or not self._came_late():
                break
        readiness.notify("STOPPING=1")
        return store == "replaced" and not self._stop.is_set()

    def _why(self, store: str) -> str:
        """Why it ends."""
        if self._stop.is_set():
            return "a stop was requested"
        if store == "gone":
            return f"the store {self._home.store} was deleted or moved away"
        if store == "replaced":
            return f"another store replaced {self._home.store}"
        return "nothing was left to watch or sync"

    def tick(self, database: Database) -> bool:
        """Do what is due now.

        Returns:
            Whether to go on.
        """
        now = self._clock.now()
        if self._slept(now):
            for watcher in self._watchers.values():
                watcher.wake()
            self._board.forget_waits()
        hosts = self._known.read(database)
        self._watch(database, hosts)
        if self._settled_at is None or not 0 <= now - self._settled_at < SETTLE_S:
            self._settled_at = now
            for each in running_operations.settle(database):
                log.info(
                    "%s of %s was interrupted; run the same command again to continue",
                    each.kind,
                    each.run_id or each.host,
                )
        if self._synced_at is None or not 0 <= now - self._synced_at < SYNC_S:
            self._synced_at = now
            self._sync.tick(database, hosts, now)
            self._idle(database, now)
        self._write_status()
        self._replace_stuck()
        if self._given_up < MOST_GIVEN_UP:
            readiness.notify("WATCHDOG=1")
        return not (self._auto and self._idle_since is not None and now - self._idle_since >= IDLE_S)

    def _serve(self) -> str:
        """Tick until there is a reason to end; gives what became of the store's file meanwhile."""
        with Database(self._home.store) as database:
            log.info("armada %s watches (process %d)", __version__, process_identity.current().pid)
            self._messenger.start()
            self._write_status()
            readiness.notify("READY=1", f"STATUS=watching from {self._home.store}")
            going = True
            # An open file outlives its name: what is written to a deleted store nobody sees, and its name must stay free.
            while (store := database.state) == "there" and going and not self._stop.is_set():
                try:
                    going = self.tick(database)
                except Exception as error:
                    if isinstance(error, sqlite3.DatabaseError):
                        self._leave_a_damaged_store(error)
                    # A full disk or a locked store passes; a daemon that died of it would watch nothing.
                    self._complain(error)
                if going:
                    self._stop.wait(TICK_S)
            log.log(logging.INFO if store == "there" else logging.ERROR, "ending: %s", self._why(store))
        self.close()
        return store

    def _leave_a_damaged_store(self, error: sqlite3.DatabaseError) -> None:
        """What is damaged stays so, and `armada recover` needs the daemon gone.

        Raises:
            StoreDamaged: Where that is the case.
        """
        explained = explain(error, self._home.store)
        if isinstance(explained, StoreDamaged):
            log.error("%s; %s", explained, explained.hint)
            self.close()
            raise explained from error

    def _complain(self, error: Exception) -> None:
        """Say what a tick failed of, the same thing once a minute: the log is on the disk that may be full."""
        text, now = f"{type(error).__name__}: {error}", time.monotonic()
        if text != self._complaint[0] or now - self._complaint[1] > COMPLAIN_S:
            self._complaint = (text, now)
            log.error("a tick failed; continuing with the next one", exc_info=error)

    def close(self) -> None:
        """End what the ticks started. The next daemon continues unfinished work."""
        for watcher in self._watchers.values():
            watcher.stop()
        self._sync.close(LEAVE_S)
        self._messenger.stop()
        deadline = time.monotonic() + LEAVE_S
        for watcher in self._watchers.values():
            watcher.join(max(0.0, min(1.0, deadline - time.monotonic())))  # one in a dead connection is not waited for
        self._watchers.clear()
        self._active.clear()

    def _came_late(self) -> bool:
        """Whether a run was launched while we gave the lock back: its launch saw us and started no other daemon."""
        with Database(self._home.store) as database:
            late = bool(self._left(database, self._clock.now()))
        if late:
            self._idle_since = None
        return late

    def _watch(self, database: Database, hosts: dict[str, Host]) -> None:
        """Every host has a watcher; one whose configuration changed gets another."""
        for name in [name for name, watcher in self._watchers.items() if hosts.get(name) != watcher.host]:
            self._watchers.pop(name).stop()
            if name not in hosts:
                self._board.remove(name)
        for name, host in hosts.items():
            if name not in self._watchers:
                self._watchers[name] = Watcher(host, self._home, self._board, now=self._clock.now)
                self._watchers[name].start()
        active: dict[str, set[str]] = {}
        for run_id, host_name in watchable_ids(database):
            active.setdefault(host_name, set()).add(run_id)
        for name, run_ids in active.items():
            new = run_ids - self._active.get(name, frozenset())
            if name in self._watchers and new:
                self._watchers[name].wake()
            elif name not in hosts and new:
                runs.mark_unreachable(database, run_ids, "no longer in hosts.yaml")
        self._active = {name: frozenset(run_ids) for name, run_ids in active.items()}

    def _idle(self, database: Database, now: float) -> None:
        if not self._auto:
            return
        if self._left(database, now) or self._sync.busy:
            self._idle_since = None
        elif self._idle_since is None or now < self._idle_since:
            self._idle_since = now

    def _left(self, database: Database, now: float) -> str | None:
        """What there is still to watch, sync or say; None when nothing is."""
        synced = run_sync.every(database)
        hosts = self._known.read(database)
        for run in runs.recent(database, now - GIVEN_UP_S):
            lost = run.state == "unknown" and now - (run.observed_at or run.created_at) > GIVEN_UP_S
            home = run.ended and run.run_id in synced and synced[run.run_id].final_done
            if run.host in hosts and not lost and not home:
                return run.run_id
        waiting = [each for each in notifications.waiting(database) if now - each.created_at < GIVEN_UP_S]
        return "a notification" if waiting else None

    def _slept(self, now: float) -> bool:
        """Whether the wall clock went on while this process did not; the monotonic one stands still in sleep."""
        before, self._last_tick = self._last_tick, (now, self._clock.monotonic())
        if before is None:
            return False
        missed_s = (now - before[0]) - (self._last_tick[1] - before[1])
        late_s = now - before[0] - TICK_S
        slept = max(missed_s, late_s) > ASLEEP_S
        if slept:
            log.info("the machine slept for %s; checking everything again", span(now - before[0]))
        return slept

    def _replace_stuck(self) -> None:
        """A thread cannot be ended from outside: one that hangs is left behind, with its connection, for a new one."""
        for name, since in self._board.looking_since().items():
            if time.monotonic() - since > STUCK_S and name in self._watchers:
                log.error("%s: one check took longer than %s; its watcher is replaced", name, span(STUCK_S))
                former = self._watchers.pop(name)
                former.stop()
                self._board.remove(name)
                self._given_up += 1

    def _write_status(self, ended: str | None = None) -> None:
        me = process_identity.current()
        # Before the clock is read: nothing in them is later than the tick.
        hosts, syncing = self._board.hosts(), self._board.syncing()
        status.write(
            self._home,
            status.Status(
                pid=me.pid,
                start_time=me.start_time,
                boot_id=me.boot_id,
                version=__version__,
                auto=self._auto,
                started_at=self._started_at,
                tick_at=self._clock.now(),
                hosts=hosts,
                syncing=syncing,
                idle_since=self._idle_since,
                tick_monotonic=time.monotonic(),
                ended=ended,
                configuration=self._known.troubles,
            ),
        )

    def _handle_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return

        def leave(_number: int, _frame: FrameType | None) -> None:
            self.stop()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, leave)


def serve(home: HomePaths, *, auto: bool) -> None:
    """Run the daemon until it is told to stop, or another one takes over.

    Raises:
        Conflict: Another one is, and this one was not started only in case there is none.
    """
    try:
        while Daemon(home, auto=auto).run():
            pass  # there is another store: it gets another daemon
    except Conflict as held:
        if not auto:
            raise
        log.info("not needed: %s", held.message)
