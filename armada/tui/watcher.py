"""The thread that reads the store when `PRAGMA data_version` changes or a screen needs data, and passes on snapshots."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from armada.errors import ArmadaError, StoreDamaged
from armada.foundation.extras import install_command
from armada.foundation.sanitize import sanitize_line
from armada.store import metrics
from armada.store.database import Database, explain, identity_of
from armada.store.queries.curves import is_long, is_rewritten, read_curve, read_spark
from armada.store.queries.renewal import KNOWN, version_of
from armada.tui.best import BestReader
from armada.tui.curves import Curve, CurveUpdate
from armada.tui.fact_reading import FactReader
from armada.tui.host_reading import HostReader
from armada.tui.money import MoneyReader
from armada.tui.reading import RunReader, read_detail
from armada.tui.snapshot import EMPTY, DaemonView, RunRow, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from armada.config.hosts import Host
    from armada.filters.keys import Fact
    from armada.paths import HomePaths
    from armada.store.hosts import HostRecord
    from armada.tui.best import Wanted

LOOK_EVERY_S = 0.2
CALM = ((60.0, 1.0), (5.0, 0.5))
"""After so many seconds without a change, how often it looks, in seconds: a key wakes it at once."""
UNTAKEN_S = 60.0
"""How long it waits for a snapshot to be taken before it reads again, in seconds."""
READ_EVERY_S = 0.4
"""The shortest interval between readings, in seconds: the eye follows only two or three frames a second."""
BESIDES_EVERY_S = 2.0
"""How often data outside the store is read, in seconds: the daemon's status, configuration, disk."""
SPARKS_KEPT = 2000
PATIENCE_S = 2.0
"""A store that is locked for longer than these seconds is reported."""


MAIN = ""
"""Stands for the metric that says most about a run, in place of a curve's name."""


class Subscription(NamedTuple):
    """What the screen shows now, so that only that is read: visible runs, runs in full, curves, GPUs (`telemetry`)."""

    visible: frozenset[str] = frozenset()
    details: frozenset[str] = frozenset()
    curves: frozenset[tuple[str, str]] = frozenset()
    telemetry: bool = False
    history: tuple[str, float] | None = None
    """A host, and the time span in seconds for which its GPUs' points are needed."""
    sketches: frozenset[tuple[str, str]] = frozenset()
    """Curves for which the outline suffices; a name may be `MAIN`."""
    facts: frozenset[Fact] = frozenset()
    """Settings and metrics of all runs, for the filter and the columns."""
    words: bool = False
    """Whether to find out which settings and metrics there are."""
    bests: Wanted = ""
    """Of which runs it is needed how good they are."""


class _Read(NamedTuple):
    """What was read of a curve: its highest step, and when its newest point was measured; for which attempt and offset."""

    attempt: int
    step: float
    time: float
    offset: int


def _read(points: list[tuple[float, float, float | None]], attempt: int, offset: int) -> _Read:
    nothing = float("-inf")
    newest = max((moment for _, moment, _ in points), default=nothing)
    return _Read(attempt, points[-1][0] if points else nothing, newest, offset)


FULL = 100_000
"""A disk with fewer free bytes is full."""
TOLD = 100
"""Notifications that are read."""


class Watcher:
    """Reads the store in its own thread, which dies with the process and delays no exit.

    Args:
        home: The home with the store.
        tell: Called in the thread with each new snapshot and the updates of curves. If it returns True, `taken` is called
            once they were taken.
        project: The folder whose armada.yaml has hosts, too; None if there is none.
    """

    def __init__(
        self,
        home: HomePaths,
        tell: Callable[[Snapshot, tuple[CurveUpdate, ...]], bool | None],
        project: Path | None = None,
    ) -> None:
        self._home = home
        self._project = project
        self._receiver = tell
        self._taken = threading.Event()
        self._taken.set()
        self._wants = Subscription()
        self._who: object = None
        self._curves_of: object = None
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._hosts: dict[str, Host] = {}
        self._hosts_stamp: object = None
        self._sparks: dict[str, tuple[object, tuple[float | None, ...]]] = {}
        self._read_until: dict[tuple[str, str], _Read] = {}
        self._outlined: dict[tuple[str, str], tuple[int, int]] = {}
        """Curves of which only the outline was sent so far, with their attempt and offset: all of their points follow."""
        self._hosts_trouble: str | None = None
        self._opened: tuple[int, int] | None = None
        """The device and inode of the store."""
        self._besides_at = float("-inf")
        self._besides: dict[str, Any] = {}
        self._last = EMPTY
        self._records: list[HostRecord] = []
        """Those of all hosts, of the last reading."""
        self._configured = False
        self._notifications: tuple[float | None, str | None] = (None, None)
        self._money = MoneyReader()

    def start(self) -> None:
        # By default a key press would wait 5 ms each time while this thread holds the GIL.
        sys.setswitchinterval(0.001)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._wake.set()
        self._taken.set()

    def taken(self) -> None:
        """Read on: what was told last was taken."""
        self._taken.set()

    def _tell(self, snapshot: Snapshot, updates: tuple[CurveUpdate, ...]) -> None:
        self._taken.clear()
        if not self._receiver(snapshot, updates):
            self._taken.set()

    def want(self, wants: Subscription, who: object = None) -> None:
        """Set what is visible; missing data is read at once. A new subscriber has no curves yet."""
        if wants != self._wants or who != self._who:
            self._wants, self._who = wants, who  # in this order: `_read_wanted` reads them in the other
            self._wake.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._look_whether_it_is_there()
                with Database(self._home.store, existing=self._opened is not None, patience_s=PATIENCE_S) as database:
                    self._opened = identity_of(self._home.store)
                    self._sparks.clear()
                    self._read_until.clear()
                    self._watch(database)
            except _Replaced:
                continue
            except Exception as error:
                # Whatever the error: an outdated screen must say so, and keep its content.
                explained = explain(error, self._home.store) if isinstance(error, sqlite3.DatabaseError) else None
                hint = " → armada recover" if isinstance(explained or error, StoreDamaged) else ""
                is_other = isinstance(error, OSError) and not isinstance(error, ArmadaError)
                what = "the dashboard cannot go on reading" if is_other else "the store cannot be read"
                words = f"{what}{hint}: {sanitize_line(error, 300)}"  # its end may be cut
                words = sanitize_line(error, 400) if isinstance(error, _Gone) else words
                self._tell(self._last._replace(taken_at=time.time(), trouble=words), ())
                self._ended.wait(2.0)
                if isinstance(error, _Renewed):
                    self._wait_for_another()

    def _look_whether_it_is_there(self) -> None:
        """Check that the store is still the file that was opened; reading must not create a deleted store again.

        Raises:
            _Gone: It was deleted, or its disk is away.
            _Replaced: Another file has its name.
        """
        if self._opened is None:
            return
        found = identity_of(self._home.store)
        if found is None:
            raise _Gone(f"the store is gone: {self._home.store} was deleted or moved; this shows the last known state")
        if found != self._opened:
            self._opened = None
            raise _Replaced

    def _wait_for_another(self) -> None:
        """Wait until the store that cannot be read here is deleted or replaced, or can be read again: a copy was put back."""
        with contextlib.suppress(_Gone, _Replaced):
            while not self._ended.wait(2.0):
                with contextlib.suppress(ArmadaError, sqlite3.DatabaseError, OSError):
                    self._look_whether_it_is_there()
                    with Database(self._home.store, existing=True, patience_s=PATIENCE_S):
                        return

    def _watch(self, database: Database) -> None:
        reader, hosts = RunReader(database, self._home), HostReader(database, self._home)
        facts, bests = FactReader(database), BestReader(database)
        version: int | None = None
        # The changes between this store and the one opened before are unknown.
        self._last = self._last._replace(generation=self._last.generation + 1)
        first, moved_at = True, time.monotonic()
        while not self._ended.is_set():
            # While a shell has the terminal, nothing is taken, and what is told would fill the memory.
            self._taken.wait(UNTAKEN_S)
            self._look_whether_it_is_there()
            woken = self._wake.is_set()
            if woken:  # else what is asked for between these two lines would be forgotten
                self._wake.clear()
            now = database.data_version
            if not first and self._look_besides() and now == version:
                self._last = self._last._replace(**self._besides)
                self._tell(self._last, ())
            moved = now != version or reader.due or self._configured
            if moved or woken:
                if now != version:
                    _refuse_newer(database)
                version = now
                began = moved_at = time.monotonic()
                if moved:
                    self._configured = False
                    self._read(database, reader)
                snapshot, updates = self._read_wanted(database, hosts, facts, bests)
                if not self._ended.is_set():
                    self._tell(snapshot, updates)
                    self._complete(database)
                first = False
                self._rest(time.monotonic() - began, asked=woken)
            else:
                calm_s = time.monotonic() - moved_at
                self._wake.wait(next((every_s for after_s, every_s in CALM if calm_s >= after_s), LOOK_EVERY_S))

    def _rest(self, spent_s: float, *, asked: bool) -> None:
        """Wait until the next reading: a store that changes all the time is read at most at an interval, a screen's request sooner."""
        if asked:
            self._ended.wait(min(READ_EVERY_S, 3 * spent_s + 0.03))
        else:
            self._ended.wait(max(0.05, READ_EVERY_S - spent_s))

    def _read(self, database: Database, reader: RunReader) -> None:
        """Read what every screen draws."""
        from armada.store import hosts, notifications, operations, sweeps, transfers
        from armada.store.queries.tariffs import read_tariffs, switched_off

        now = time.time()
        tariffs = read_tariffs(database, self._hosts)
        self._records = hosts.every(database)
        rows = reader.read(tariffs, self._records, self._hosts)
        self._last = Snapshot(
            now,
            rows,
            reader.by_id,
            reader.counts,
            self._last.generation + 1,
            reader.changed,
            operations=tuple(operations.recent(database, 50)),
            transfers=tuple(transfers.under_way(database)),
            told=tuple(notifications.events(database, TOLD)),
            silent=reader.silent,
            syncs=reader.syncs,
            sweeps=sweeps.names(database),
            money=self._money.read(rows, tariffs, now, switched_off(database), reader.counts),
            **self._besides,
        )

    def _read_wanted(
        self, database: Database, hosts: HostReader, facts: FactReader, bests: BestReader
    ) -> tuple[Snapshot, tuple[CurveUpdate, ...]]:
        """Add what only the visible screen needs. When just the cursor moves, the runs are not read again."""
        who, wants, index = self._who, self._wants, self._last.by_id
        facts.read(wants.facts, self._last.generation, self._last.changed, words=wants.words)
        changed = {each: index[each] for each in self._last.changed} if self._last.changed is not None else None
        bests.read(wants.bests, self._last.runs, self._last.generation, changed)
        self._last = self._last._replace(
            sparks={run_id: self._spark(database, index[run_id]) for run_id in wants.visible if run_id in index},
            details={run_id: found for run_id in wants.details if (found := read_detail(database, run_id))},
            hosts=hosts.read(
                self._hosts,
                telemetry=wants.telemetry,
                history=wants.history,
                now=time.time(),
                silent=self._last.silent,
                records=self._records,
            ),
            words=facts.words,
            facts=facts.facts,
            facts_version=facts.version,
            bests=bests.bests,
            bests_version=bests.version,
            answers=(wants, who),
        )
        return self._last, self._curves(database, wants, index)

    def _spark(self, database: Database, row: RunRow) -> tuple[float | None, ...]:
        run = row.run
        stamp = (run.metrics_offset, run.step)
        if (known := self._sparks.get(run.run_id)) is None or known[0] != stamp:
            if len(self._sparks) > SPARKS_KEPT:
                self._sparks.clear()
            known = self._sparks[run.run_id] = (stamp, read_spark(database, run.run_id))
        return known[1]

    def _curves(self, database: Database, wants: Subscription, rows: Mapping[str, RunRow]) -> tuple[CurveUpdate, ...]:
        if self._who != self._curves_of:
            self._curves_of = self._who
            self._read_until.clear()
            self._outlined.clear()
        wanted = {(run_id, name or _main(database, run_id)) for run_id, name in wants.curves | wants.sketches}
        for gone in set(self._read_until) - wanted:
            del self._read_until[gone]
            self._outlined.pop(gone, None)
        updates = []
        for run_id, name in sorted(wanted):
            row = rows.get(run_id)
            attempt, offset = (row.run.attempt, row.run.metrics_offset) if row is not None else (0, 0)
            known = self._read_until.get((run_id, name))
            points = [] if known is None else read_curve(database, run_id, name, after=known.step)
            # A resume repeats steps, and so may a script: the points read before are outdated.
            if (
                known is None
                or known.attempt != attempt
                or (not points and offset != known.offset and is_rewritten(database, run_id, name, *known[1:3]))
            ):
                points = read_curve(database, run_id, name, outline=True)
                updates.append(CurveUpdate(run_id, name, Curve(points)))
                self._read_until[run_id, name] = _read(points, attempt, offset)
                if (run_id, name) in wants.curves and points and is_long(points[0][0], points[-1][0]):
                    self._outlined[run_id, name] = (attempt, offset)
            elif points:
                updates.append(CurveUpdate(run_id, name, None, tuple(points)))
                newer = _read(points, attempt, offset)
                self._read_until[run_id, name] = newer._replace(time=max(known.time, newer.time))
            else:
                self._read_until[run_id, name] = known._replace(offset=offset)
        return tuple(updates)

    def _complete(self, database: Database) -> None:
        """Replace outlines by all points, one curve after the other, until something else is needed: a million points take seconds."""
        while self._outlined and not self._wake.is_set() and not self._ended.is_set():
            key, stamp = self._outlined.popitem()
            points = read_curve(database, *key)
            self._read_until[key] = _read(points, *stamp)
            self._tell(self._last, (CurveUpdate(*key, Curve(points)),))

    def _look_besides(self) -> bool:
        """Read data outside the store; return whether the screen should be drawn again because of it."""
        if time.monotonic() - self._besides_at < BESIDES_EVERY_S:
            return False
        self._besides_at = time.monotonic()
        disk = shutil.disk_usage(self._home.state)
        trouble = (
            f"the disk with {self._home.state} is full: what you do here is not kept" if disk.free < FULL else None
        )
        try:
            self._home.daemon.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._home.looked_at.touch()
        except OSError as error:  # the daemon then checks as often as without us
            trouble = (
                trouble or f"{self._home.state} cannot be written ({error.strerror}): what you do here is not kept"
            )
        self._load_hosts()
        found = {
            "home_trouble": sanitize_line(trouble, 400) if trouble else None,
            "daemon": self._daemon(),
            "disk_free_bytes": disk.free,
            "disk_total_bytes": disk.total,
        }
        found["config_trouble"] = self._hosts_trouble or self._notifications_trouble()
        moved = (
            any(found[name] != self._besides.get(name) for name in ("home_trouble", "daemon", "config_trouble"))
            or not self._besides
        )
        self._besides = found
        return moved

    def _load_hosts(self) -> None:
        from armada.config.hosts import PROJECT_FILE, load_hosts

        files = [self._home.hosts_file, *([self._project / PROJECT_FILE] if self._project is not None else [])]
        stamp = tuple(_stamp(path) for path in files)
        if stamp == self._hosts_stamp:
            return
        self._hosts_stamp = stamp
        self._configured = True
        try:
            self._hosts = load_hosts(self._home, self._project)
            self._hosts_trouble = None
        except ArmadaError as error:  # the hosts known so far stay on the screen
            kept = "hosts and prices stay as last read" if self._hosts else "no host and no price is known"
            self._hosts_trouble = f"{_told(error)} Until then {kept}."

    def _notifications_trouble(self) -> str | None:
        """Return why notifications cannot be sent although they are configured, or None."""
        stamp = _stamp(self._home.notifications_file)
        if stamp == self._notifications[0]:
            return self._notifications[1]
        trouble: str | None = None
        try:
            from armada.notifications.settings import load_settings

            settings = load_settings(self._home)
            if settings is not None and settings.urls and importlib.util.find_spec("apprise") is None:
                names = self._home.notifications_file
                trouble = f"{names} names services, but apprise is not installed: {install_command('notify')}"
        except ArmadaError as error:
            trouble = f"{_told(error)} Until then nobody is notified."
        self._notifications = (stamp, trouble)
        return trouble

    def _daemon(self) -> DaemonView:
        from armada.daemon.status import judge

        judged = judge(self._home)
        if judged.status is None:
            return DaemonView(judged.condition, None)
        shift_s = time.time() - judged.now()
        # Only if the clock was set: a time that differs slightly with every reading would be drawn again each time.
        return DaemonView(judged.condition, judged.status.tick_at + (round(shift_s) if abs(shift_s) > 1 else 0))


def _main(database: Database, run_id: str) -> str:
    from armada.compare.metrics import main_metric

    return main_metric(metrics.names(database, run_id))


class _Gone(Exception):
    """The store that was shown no longer exists."""


class _Renewed(_Gone):
    """A newer armada renewed the store."""


class _Replaced(Exception):
    """Another store took its place."""


def _refuse_newer(database: Database) -> None:
    """Check that the store is still one that this armada reads right.

    Raises:
        _Renewed: A newer armada renewed it meanwhile.
    """
    if (version := version_of(database)) > KNOWN:
        raise _Renewed(
            "a newer armada renewed the store: update armada, then start it again. This shows the last known state; the"
            f" store has version {version}, and this dashboard knows {KNOWN}"
        )


def _told(error: ArmadaError) -> str:
    """Format an error with its place and hint, as one line."""
    hint = f" ({error.hint})" if error.hint else ""
    return f"{sanitize_line(error, 400)}{sanitize_line(hint, 200)}."


def _stamp(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
