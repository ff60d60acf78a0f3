"""Run the daemon: once a second, start watchers and syncs, report the status, and exit when nothing is left."""

from __future__ import annotations

import contextlib
import logging
import signal
import sqlite3
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from armada import __version__
from armada.daemon import readiness, status
from armada.daemon.host_status import HostStatusRegistry
from armada.daemon.hosts import KnownHosts
from armada.daemon.instance import only_instance
from armada.daemon.scheduler import SyncHost, SyncScheduler
from armada.daemon.watcher import Watcher, watchable_ids
from armada.errors import ArmadaError, ConfigError, Conflict, StoreDamaged, StoreGone
from armada.foundation import process_identity
from armada.notifications.messenger import Messenger, present_destinations
from armada.store import hosts as host_records
from armada.store import notifications, run_sync, running_operations, runs, sweeps
from armada.store.database import Database, explain
from armada.store.queries.renewal import KNOWN, version_of
from armada.sync.runs.sync_host import sync_host
from armada.units import span
from armada.verdicts.idle import stopping_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from armada.config.hosts import Host
    from armada.paths import HomePaths

log = logging.getLogger(__name__)

TICK_S = 1.0
IDLE_S = 300.0
"""A daemon that was started by another command exits after so many seconds with nothing to do."""

ASLEEP_S = 30.0
"""If a tick is so many seconds late, the machine slept, and every link is dead although nobody has noticed yet."""

STUCK_S = 600.0
"""No check of a host takes so many seconds."""

MOST_GIVEN_UP = 10
"""After so many hung threads, the daemon stops feeding systemd's watchdog, and systemd restarts it."""

SYNC_S = 2.0
"""Seconds between searches for due syncs, which take 50 ms with 2,000 runs in the store."""

SETTLE_S = 30.0
GIVEN_UP_S = 7 * 86_400.0
"""A run that ended so long ago and still is not at home, or cannot be found, does not keep a daemon alive."""

End = Literal["over", "another store", "another program"]
"""How a daemon ended: for good; because the store's file was replaced; because a newer armada renewed the store."""

LEAVE_S = 5.0
COMPLAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Clock:
    """The source of the time; tests pass their own."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


class Daemon:
    """Watches and syncs until it is told to stop.

    Args:
        home: Home's folders.
        auto: Exit when nothing is left to watch or sync.
        clock: The source of the time.
        sync_host: Carries out the syncs of a host.
        again: This process had the store before: if it is gone by now, create no empty one.
    """

    def __init__(
        self,
        home: HomePaths,
        *,
        auto: bool = False,
        clock: Clock | None = None,
        sync_host: SyncHost = sync_host,
        again: bool = False,
    ) -> None:
        self._home = home
        self._auto = auto
        self._clock = clock or Clock()
        self._stop = threading.Event()
        self._board = HostStatusRegistry()
        self._watchers: dict[str, Watcher] = {}
        self._known = KnownHosts(home)
        self._sync = SyncScheduler(home, self._board, sync_host=sync_host)
        self._messenger = Messenger(
            home, now=self._clock.now, hosts=self._known.last_configured, continuing=self._board.continuing
        )
        self._active: dict[str, frozenset[str]] = {}
        self._started_at = self._clock.now()
        self._last_tick: tuple[float, float] | None = None
        self._settled_at: float | None = None
        self._synced_at: float | None = None
        self._idle_since: float | None = None
        self._given_up = 0
        self._complaint = ("", 0.0)
        self._again = again

    def stop(self) -> None:
        """Exit after the current tick; callable from a signal handler or another thread."""
        self._stop.set()

    @property
    def syncs(self) -> bool:
        """Whether a sync is running."""
        return self._sync.busy

    def run(self) -> End:
        """Run as this home's daemon.

        Returns:
            Whether it is over, or who should start at once in its place.

        Raises:
            Conflict: Another process is the daemon.
        """
        self._handle_signals()
        while True:
            with only_instance(self._home):
                store = self._serve()
                self._again = True
                self._write_status(self._why(store))
            if self._stop.is_set() or store != "there" or not self._came_late():
                break
        if not self._stop.is_set() and store in ("replaced", "renewed"):
            # This process goes on. After STOPPING=1, systemd would kill it and what it started 90 s later.
            return "another store" if store == "replaced" else "another program"
        readiness.notify("STOPPING=1")
        return "over"

    def _why(self, store: str) -> str:
        """Return why it exits."""
        if self._stop.is_set():
            return "a stop was requested"
        if store == "gone":
            return f"the store {self._home.store} was deleted or moved away"
        if store == "replaced":
            return f"another store replaced {self._home.store}"
        if store == "renewed":
            return f"a newer armada than {__version__} renewed the store {self._home.store}"
        return "nothing was left to watch or sync"

    def tick(self, database: Database) -> bool:
        """Do what is due now.

        Returns:
            Whether to continue.
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
        """Tick until there is a reason to exit; return the state of the store's file."""
        try:
            opened = Database(self._home.store, existing=self._again)
        except StoreGone as gone:
            log.error("ending: %s", gone)  # noqa: TRY400  # its traceback says no more
            return "gone"
        except (Conflict, ConfigError) as error:
            if isinstance(error.__cause__, sqlite3.Error) and not isinstance(error, StoreDamaged):
                # A lock or a full disk is temporary: not the exit codes after which systemd starts no other.
                raise ArmadaError(str(error), hint=error.hint) from error
            raise
        with opened as database:
            log.info("armada %s watches (process %d)", __version__, process_identity.current().pid)
            self._messenger.start()
            self._write_status()
            readiness.notify("READY=1", f"STATUS=watching from {self._home.store}")
            going = True
            # If the store was deleted, nobody sees what is written to the open file, and its name must not be created
            # again.
            while (store := _state_of(database)) == "there" and going and not self._stop.is_set():
                try:
                    going = self.tick(database)
                except Exception as error:
                    if isinstance(error, sqlite3.DatabaseError):
                        self._leave_a_damaged_store(error)
                    # A full disk or a locked store is temporary; a daemon that exits because of it would watch nothing.
                    self._complain(error)
                if going:
                    self._stop.wait(TICK_S)
            log.log(logging.INFO if store == "there" else logging.ERROR, "ending: %s", self._why(store))
        self.close()
        return store

    def _leave_a_damaged_store(self, error: sqlite3.DatabaseError) -> None:
        """Exit if the store is damaged: it stays damaged, and `armada recover` needs the daemon to be gone.

        Raises:
            StoreDamaged: The store is damaged.
        """
        explained = explain(error, self._home.store)
        if isinstance(explained, StoreDamaged):
            log.error("%s; %s", explained, explained.hint)
            self.close()
            raise explained from error

    def _complain(self, error: Exception) -> None:
        """Log why a tick failed, the same reason once a minute: the log may be on the full disk."""
        text, now = f"{type(error).__name__}: {error}", time.monotonic()
        if text != self._complaint[0] or now - self._complaint[1] > COMPLAIN_S:
            self._complaint = (text, now)
            log.error("a tick failed; continuing with the next one", exc_info=error)

    def close(self) -> None:
        """Stop what the ticks started. The next daemon continues unfinished work."""
        for watcher in self._watchers.values():
            watcher.stop()
        self._sync.close(LEAVE_S)
        self._messenger.stop()
        deadline = time.monotonic() + LEAVE_S
        for watcher in self._watchers.values():
            watcher.join(max(0.0, min(1.0, deadline - time.monotonic())))  # do not wait for one with a dead connection
        self._watchers.clear()
        self._active.clear()

    def _came_late(self) -> bool:
        """Whether a run was launched while we released the lock: its launch saw us and started no other daemon."""
        late = False
        with contextlib.suppress(StoreGone), Database(self._home.store, existing=True) as database:
            late = bool(self._left(database, self._clock.now()))
        if late:
            self._idle_since = None
        return late

    def _watch(self, database: Database, hosts: dict[str, Host]) -> None:
        """Start a watcher for every new host, and replace those of hosts whose configuration changed."""
        former = [
            each for each, watcher in self._watchers.items() if watcher.has_ended or hosts.get(each) != watcher.host
        ]
        for name in former:
            self._watchers.pop(name).stop()
            if name not in hosts:
                self._board.remove(name)
        for name, host in hosts.items():
            if name not in self._watchers:
                self._watchers[name] = Watcher(
                    host, self._home, self._board, now=self._clock.now, hosts=self._known.last_configured
                )
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
        """Return what is left to watch, sync or send; None if nothing is."""
        synced = run_sync.every(database)
        hosts = self._known.read(database)
        searches = {each.name for each in sweeps.searches(database)}
        for run in runs.recent(database, now - GIVEN_UP_S):
            if run.sweep in searches and run.host in hosts:
                return run.run_id  # further trials follow
            lost = run.state == "unknown" and now - (run.observed_at or run.created_at) > GIVEN_UP_S
            home = run.ended and run.run_id in synced and synced[run.run_id].final_done
            if run.host in hosts and not lost and not home:
                return run.run_id
        for name, host in hosts.items():
            if host.stop_when_idle is not None and (left := self._may_stop(database, name, now)):
                return left
        waiting = [each for each in notifications.waiting(database) if now - each.created_at < GIVEN_UP_S]
        present = present_destinations(self._home) if waiting else frozenset()
        if present is None:  # the file is wrong; once it is corrected, they are sent
            return "a notification"
        return "a notification" if any(each.destination in present for each in waiting) else None

    def _may_stop(self, database: Database, name: str, now: float) -> str | None:
        """Return a host that is to be stopped when it is idle, unless it has not answered for a long time."""
        record = host_records.find(database, name)
        seen_at = record.observed_at if record is not None else None
        if (
            seen_at is None
            or now - seen_at > GIVEN_UP_S
            or stopping_of(record.stopping if record else None).state == "gone"
        ):
            return None
        return name

    def _slept(self, now: float) -> bool:
        """Whether the machine slept: the wall clock advanced, but the monotonic clock stood still."""
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
        """Replace hung watchers. A thread cannot be stopped from outside, so it is abandoned with its connection."""
        for name, since in self._board.looking_since().items():
            if time.monotonic() - since > STUCK_S and name in self._watchers:
                log.error("%s: one check took longer than %s; its watcher is replaced", name, span(STUCK_S))
                former = self._watchers.pop(name)
                former.stop()
                self._board.remove(name)
                self._given_up += 1

    def _write_status(self, ended: str | None = None) -> None:
        me = process_identity.current()
        # Read these before the clock, so that nothing in them is later than the tick.
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


def _state_of(database: Database) -> str:
    """Return `renewed` if a newer armada renewed the store, which this one then reads wrong, else the state of its file."""
    if (state := database.state) != "there":
        return state
    try:
        return "renewed" if version_of(database) > KNOWN else state
    except sqlite3.DatabaseError:
        return state  # a lock or a full disk; the next tick reports what is wrong


def serve(home: HomePaths, *, auto: bool) -> bool:
    """Run the daemon until it is told to stop, or another one takes over.

    Returns:
        Whether the installed program should be started in place of this one: a newer armada renewed the store.

    Raises:
        Conflict: Another daemon runs, and `auto` is not set.
    """
    end: End = "over"
    try:
        again = False
        while (end := Daemon(home, auto=auto, again=again).run()) == "another store":
            again = True
    except Conflict as held:
        if not auto:
            raise
        log.info("not needed: %s", held.message)
    return end == "another program"
