"""Operations as they run: what takes time records how far it is, and shows as interrupted when its process was killed.

    with operation(database, kind="launch", host="a100-1", argv=sys.argv) as op:
        op.step("provision", "environment 3f2a", done=100, total=2000)

The row is in the store before the work begins. The end is written on every way out that Python sees; a `kill -9` is seen
by whoever asks `broken`: the process in the row is gone.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
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
"""Progress goes into the store at most so often; a new step at once."""

DAY_S = 86_400.0
OUTCOME_UNKNOWN = OutcomeUnknown.exit_code


class OperationProgress:
    """The running operation, a `Progress` for whoever does it; a host's progress arrives on other threads, so any may speak here."""

    def __init__(self, path: Path, id: str, *, monotonic: Callable[[], float]) -> None:  # noqa: A002
        self.id = id
        self._path = path
        self._monotonic = monotonic
        self._own = threading.local()
        self._lock = threading.Lock()
        self._step: str | None = None
        self._written_at = float("-inf")

    @property
    def _database(self) -> Database:
        """A connection to the store for this thread: SQLite's are not shared between threads."""
        if not hasattr(self._own, "database"):
            self._own.database = Database(self._path)
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
        """Say what is going on now.

        Args:
            step: One word: plan, provision, submit, pull.
            message: A sentence; made inert here, since hosts have a say in it.
            done: Bytes done.
            total: Bytes to do.
            rate: Bytes per second.
        """
        now = self._monotonic()
        with self._lock:
            if step == self._step and now - self._written_at < WRITE_EVERY_S:
                return
            self._step, self._written_at = step, now
        said = sanitize_line(message) if message is not None else None
        records.advance(self._database, self.id, step=step, message=said, done_bytes=done, total_bytes=total, rate=rate)

    def concerns(self, run_id: str) -> None:
        """Name the run, once it is known."""
        records.advance(self._database, self.id, run_id=run_id)

    def stage(self, name: str, message: str) -> None:
        self.step(name, message)

    def now(self, name: str, message: str, fraction: float | None = None) -> None:
        self.step(name, with_fraction(message, fraction))

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        self.step(name, what, done=seen.done_bytes, total=seen.total_bytes, rate=seen.rate_bytes_per_s)

    def and_tell(self, progress: Progress) -> Progress:
        """Give what writes all it hears into this operation and passes it on."""
        return JoinedProgress(self, progress)


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
    """Record what is done inside as an operation of this process.

    An `ArmadaError` ends it as failed with its exit code, Ctrl-C as interrupted; both are raised to the caller.
    """
    id_ = f"{kind}-{secrets.token_hex(6)}"
    me = process_identity.current()
    records.begin(
        database,
        id=id_,
        kind=kind,
        run_id=run_id,
        host=host,
        argv=tuple(argv),
        pid=me.pid,
        start_time=me.start_time,
        boot_id=me.boot_id,
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
    """Whether its process is still at it."""
    process = process_identity.Process(found.pid, found.start_time, found.boot_id)
    return found.state == "running" and process_identity.lives(process)


def being_launched(database: Database) -> set[str | None]:
    """The ids of runs that a living launch is putting on a host: of these the host may not have heard yet."""
    return {each.run_id for each in records.running(database) if is_alive(each)}


def broken(database: Database) -> list[Operation]:
    """Operations that say they run, but whose process is gone: killed, or the machine went down."""
    return [found for found in records.running(database) if not is_alive(found)]


def settle(database: Database) -> list[Operation]:
    """Write the end of what broke off; the daemon does this from time to time."""
    found = broken(database)
    for each in found:
        records.finish(database, each.id, "interrupted", message=f"its process {each.pid} is gone at “{each.step}”")
    return found


def unfinished(database: Database, now: float) -> list[Operation]:
    """What broke off in the last day and was not asked for again since: what a person may want to continue."""
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
