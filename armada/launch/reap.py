"""Find the processes that ended runs left on a host, and end them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, HostUnreachable, NotFound, OutcomeUnknown
from armada.foundation.sanitize import sanitize_line
from armada.monitor.look import Folder, where
from armada.protocol.orphans import ListOrphans
from armada.protocol.runs import StopRun
from armada.store import runs
from armada.units import counted, counted_processes
from armada.verdicts.orphans import Left, Seen, judge, words
from armada.verdicts.presence import There

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from armada.protocol.orphans import Orphans, OrphansOfRun
    from armada.rpc.session import HostSession
    from armada.store.database import Database

KILL_S = 30.0
"""Seconds after the grace period until SIGKILL has ended a process, unless a driver holds it."""
LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Orphaned:
    """A run's processes without a supervisor.

    Attributes:
        entry: What the host showed.
        left: What the run is.
        what: The same in words.
        hint: What the user can do if the processes may not be ended.
        root: The id of the root that was seen.
    """

    entry: OrphansOfRun
    left: Left
    what: str
    hint: str | None
    root: str | None

    @property
    def run_id(self) -> str:
        return self.entry.run_id

    @property
    def count(self) -> str:
        """`1 process`, `3 processes`."""
        return counted_processes(self.entry.count)


def look(database: Database, session: HostSession, named: Collection[str] = ()) -> tuple[list[Orphaned], int]:
    """Ask a host for processes that no supervisor looks after, and judge each run's.

    Args:
        database: The store.
        session: A session with the host.
        named: The runs that the user named; of others nothing is returned. Empty: all.

    Returns:
        The runs, and how many more there are than one answer holds.

    Raises:
        NotFound: No named run has such processes there.
        HostUnreachable: The host does not answer.
    """
    found, more = _look(database, session, ListOrphans(), named)
    chosen = [each for each in found if not named or each.run_id in named]
    if named and not chosen:  # one of several may have been ended just now
        raise NotFound(
            f"every process of {', '.join(sorted(set(named)))} there has a supervisor, or there is none",
            hint=f"armada hosts reap --dry-run {session.host.name} lists those without one",
            host=session.host.name,
        )
    return chosen, more


def _look(
    database: Database, session: HostSession, request: ListOrphans, named: Collection[str]
) -> tuple[list[Orphaned], int]:
    answer = session.call(request, timeout_s=60.0)
    found = [_judged(database, session.host.name, answer, each, each.run_id in named) for each in answer.runs]
    return found, answer.more


def _judged(database: Database, host: str, answer: Orphans, entry: OrphansOfRun, named: bool) -> Orphaned:
    known = runs.is_known(database, entry.run_id) and runs.find(database, entry.run_id).host == host
    there = There.HERE if entry.exists else There.UNKNOWN
    if known:
        run = runs.find(database, entry.run_id)
        there = where(run, Folder(exists=entry.exists, root=answer.root, wiped=answer.wiped))
    left = judge(Seen(there, entry.has_ended, known, named))
    what, hint = words(left, run_id=entry.run_id, host=host)
    return Orphaned(entry, left, what, hint, answer.root)


def reap(
    database: Database,
    session: HostSession,
    wanted: Sequence[Orphaned],
    grace_s: float,
    say: Callable[[str], None],
    *,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> list[str]:
    """End processes that runs left, and wait until they are gone.

    The host looks at each run once more: one that was resumed meanwhile is left alone.

    Args:
        database: The store.
        session: A session with the host.
        wanted: Runs whose processes may be ended.
        grace_s: Seconds between SIGTERM and SIGKILL.
        say: Receives progress messages.
        sleep: Waits for some seconds.
        monotonic: A clock.

    Returns:
        What was refused, a sentence each.

    Raises:
        HostUnreachable: The host does not answer. What it was told goes on.
        OutcomeUnknown: Some live on, long after SIGKILL.
    """
    told, refused = set(), []
    for each in wanted:
        request = StopRun(run_id=each.run_id, grace_s=grace_s, root=each.root)
        if each.entry.exists:
            request = StopRun(run_id=each.run_id, grace_s=grace_s, only_ended=True)
        try:
            session.call(request, timeout_s=60.0)
        except HostUnreachable:
            raise
        except NotFound:
            continue  # somebody removed it, or ended them: the next look shows it
        except ArmadaError as error:
            refused.append(f"{each.run_id}: {sanitize_line(error.message)}")
            continue
        told.add(each.run_id)
    deadline = monotonic() + grace_s + KILL_S
    while left := _left(database, session, told):
        if monotonic() > deadline:
            pids = [process.pid for each in left for process in each.entry.processes]
            raise OutcomeUnknown(
                f"SIGKILL does not end these processes of {', '.join(each.run_id for each in left)}:"
                f" {', '.join(map(str, pids[:10]))}",
                hint="a driver or a file system may hold them; only a reboot ends such processes",
                host=session.host.name,
            )
        say(f"{counted(len(left), 'run')} · grace {grace_s:.0f} s")
        sleep(LOOK_EVERY_S)
    return refused


def _left(database: Database, session: HostSession, told: Collection[str]) -> list[Orphaned]:
    """Return those of which processes live still, also while something ends them; not one that was resumed meanwhile."""
    if not told:
        return []
    found, _ = _look(database, session, ListOrphans(also=tuple(sorted(told))), told)
    return [each for each in found if each.run_id in told and each.left is not Left.LIVES]
