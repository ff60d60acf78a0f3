"""Running operations: long work records its progress, and shows as interrupted if its process was killed.

    with operation(database, kind="launch", host="a100-1", argv=sys.argv) as op:
        op.step("provision", "environment 3f2a", done=100, total=2000)

The row is stored before the work begins. Its end is written on every exit that Python sees. After a `kill -9`, `broken`
finds the row because its process is gone.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, OutcomeUnknown
from armada.foundation import process_identity
from armada.foundation.progress import JoinedProgress, with_fraction
from armada.foundation.sanitize import sanitize_line
from armada.store import operations as records
from armada.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from armada.foundation.progress import Progress, TransferProgress
    from armada.store.operations import Operation

WRITE_EVERY_S = 0.5
"""Progress is written at most once in this many seconds; a new step is written at once."""

DAY_S = 86_400.0
CLEARING = "clearing"
"""The step of a release from which on it deletes."""
WIPING = "wiping"
"""The step of a release in which its host deletes everything."""
BY = "ARMADA_BY"
"""The environment variable with which a program that starts commands says what it is; operations record it."""

_caller: ContextVar[str | None] = ContextVar("caller", default=None)
OUTCOME_UNKNOWN = OutcomeUnknown.exit_code


class OperationProgress:
    """The running operation, as a `Progress`. Any thread may report to it: a host's progress arrives on other threads."""

    def __init__(self, path: Path, id: str, *, monotonic: Callable[[], float]) -> None:  # noqa: A002
        self.id = id
        self._path = path
        self._monotonic = monotonic
        self._own = threading.local()
        self._lock = threading.Lock()
        self._step: str | None = None
        self._held: str | None = None
        self._written_at = float("-inf")

    @property
    def _database(self) -> Database:
        """Return this thread's connection to the store: SQLite connections are not shared between threads."""
        if not hasattr(self._own, "database"):
            self._own.database = Database(self._path, existing=True)
        found: Database = self._own.database
        return found

    def step(
        self,
        step: str,
        message: str | None = None,
        *,
        done: int | None = None,
        total: int | None = None,
        rate: float | None = None,
    ) -> None:
        """Record the current step.

        Args:
            step: One word: plan, provision, submit, pull.
            message: A sentence. It is sanitized here, since hosts can influence it.
            done: Bytes done.
            total: Bytes to do.
            rate: Bytes per second.
        """
        now = self._monotonic()
        with self._lock:
            step = self._held or step
            if step == self._step and now - self._written_at < WRITE_EVERY_S:
                return
            self._step, self._written_at = step, now
        said = sanitize_line(message) if message is not None else None
        records.advance(self._database, self.id, step=step, message=said, done_bytes=done, total_bytes=total, rate=rate)

    def hold(self, step: str) -> None:
        """Record a step that other processes look for. It stays, whatever is reported afterwards, until another is held."""
        with self._lock:
            self._held = step
        self.step(step)

    def concerns(self, run_id: str) -> None:
        """Record the run's id once it is known."""
        records.advance(self._database, self.id, run_id=run_id)

    def stage(self, name: str, message: str) -> None:
        self.step(name, message)

    def now(self, name: str, message: str, fraction: float | None = None) -> None:
        self.step(name, with_fraction(message, fraction))

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        self.step(name, what, done=seen.done_bytes, total=seen.total_bytes, rate=seen.rate_bytes_per_s)

    def and_tell(self, progress: Progress) -> Progress:
        """Return a `Progress` that records each report in this operation and passes it on to `progress`."""
        return JoinedProgress(self, progress)


@contextlib.contextmanager
def called_by(caller: str) -> Iterator[None]:
    """Record `caller` in the operations that this thread begins inside."""
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


@contextlib.contextmanager
def operation(
    database: Database,
    *,
    kind: str,
    argv: Sequence[str],
    run_id: str | None = None,
    host: str | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[OperationProgress]:
    """Record the work done inside as an operation of this process.

    An `ArmadaError` ends it as failed with that error's exit code, Ctrl-C as interrupted; both propagate to the caller.
    """
    from armada.foundation.secrets import without_secret_arguments  # its patterns take 4 ms, which a list need not pay

    id_ = f"{kind}-{os.urandom(6).hex()}"
    me = process_identity.current()
    records.begin(
        database,
        id=id_,
        kind=kind,
        run_id=run_id,
        host=host,
        argv=tuple(without_secret_arguments(argv)),
        pid=me.pid,
        start_time=me.start_time,
        boot_id=me.boot_id,
        by=_caller.get() or sanitize_line(os.environ.get(BY, ""), 40) or None,
    )
    try:
        yield OperationProgress(database.path, id_, monotonic=monotonic)
    except ArmadaError as error:
        records.finish(database, id_, "failed", message=sanitize_line(error.message), exit_code=error.exit_code)
        raise
    except (KeyboardInterrupt, SystemExit):
        records.finish(database, id_, "interrupted", exit_code=130)
        raise
    except BaseException as error:
        records.finish(database, id_, "failed", message=sanitize_line(f"{type(error).__name__}: {error}"), exit_code=1)
        raise
    records.finish(database, id_, "done", exit_code=0)


def is_alive(found: Operation) -> bool:
    """Whether the operation's process is still running it."""
    process = process_identity.Process(found.pid, found.start_time, found.boot_id)
    return found.state == "running" and process_identity.lives(process)


def being_launched(database: Database) -> set[str | None]:
    """Return the ids of runs that a living launch is submitting, and names of sweeps. Their host may not know of them yet."""
    found = {each.run_id for each in records.running(database) if is_alive(each)}
    cells = "SELECT run_id FROM runs WHERE sweep = ?"
    return found | {row["run_id"] for each in found for row in database.connection.execute(cells, (each,))}


def being_wiped(database: Database) -> set[str]:
    """Return the hosts on which a living release deletes everything. Any connection would put the agent back there."""
    running = [each for each in records.running(database) if each.kind == "release" and each.step == WIPING]
    return {each.host for each in running if each.host is not None and is_alive(each)}


def broken(database: Database) -> list[Operation]:
    """Return operations recorded as running whose process is gone: killed, or the machine went down."""
    return [found for found in records.running(database) if not is_alive(found)]


def settle(database: Database) -> list[Operation]:
    """Record the end of broken operations as interrupted. The daemon calls this from time to time."""
    found = broken(database)
    for each in found:
        records.finish(database, each.id, "interrupted", message=f"its process {each.pid} is gone at “{each.step}”")
    return found


def unfinished(database: Database, now: float) -> list[Operation]:
    """Return operations that broke within the last day and were not repeated since, for the user to continue."""
    gone = {each.id for each in broken(database)}
    newest: dict[tuple[str, ...], Operation] = {}
    for each in reversed(records.recent(database, 500)):
        newest[each.argv] = each
    return [
        each
        for each in newest.values()
        if now - each.started_at < DAY_S
        and (
            each.id in gone
            or (each.state == "interrupted" and each.exit_code is None)
            or each.exit_code == OUTCOME_UNKNOWN
        )
    ]
