"""Add the runs of a host to the store."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, HostUnreachable
from armada.home import own
from armada.monitor.observe import observe
from armada.paths import RUN_ID
from armada.protocol.facts import AskFacts
from armada.protocol.homes import AskingHome, Enroll
from armada.protocol.message import Misfit
from armada.protocol.runs import ListedRun, ListRuns, ReadSpecs, StoredSpec
from armada.recovery.published import adopt_spec
from armada.store import adopted, hosts, runs
from armada.store.queries.uses import read_uses

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.rpc.session import HostSession
    from armada.store.database import Database

_SPECS_PER_QUESTION = 100
_MOST_RUNS = 100_000
_RUNS_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class HostFindings:
    """The runs found on a host: how many, which are new to the store, and which the store has on another host.

    `damaged`: folders without a readable plan, each with the reason. `unenrolled`: the runs for which the host could not
    record that this home wants to hear of them. `error`: why the host could not be queried.
    """

    host: str
    seen: int = 0
    added: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    damaged: tuple[tuple[str, str], ...] = ()
    unenrolled: tuple[str, ...] = ()
    error: ArmadaError | None = None


def read_host(
    database: Database, session: HostSession, told: Callable[[str], None], *, enroll: bool = True
) -> HostFindings:
    """Add every run of a host to the store, and observe all of them. With `enroll`, register this home for them on the host.

    Raises:
        HostUnreachable: The connection was lost. Everything read before that stays in the store; repeat the call to
            continue.
    """
    host = session.host.name
    listed = session.call(ListRuns(), timeout_s=120.0).runs[:_MOST_RUNS]
    there = [entry.run_id for entry in listed if isinstance(entry, ListedRun)]
    known = {run.run_id: run.host for run in runs.every(database)}
    elsewhere = tuple(name for name in there if known.get(name, host) not in (host, adopted.NO_HOST))
    unknown = [name for name in there if known.get(name, adopted.NO_HOST) == adopted.NO_HOST]
    told(f"{len(there)} runs on the host, {len(unknown)} of them not in the store yet")
    added: list[str] = []
    damaged: list[tuple[str, str]] = []
    for entry in _specs(session, unknown):
        if entry.spec is not None and adopt_spec(database, session.home, entry.run_id, entry.spec, host=host):
            added.append(entry.run_id)
        else:
            damaged.append((entry.run_id, entry.problem or "its spec.json is not valid"))
    unenrolled = _enroll(session, there) if enroll else ()
    seen = [run for run in runs.every(database, host=host) if run.run_id in set(there) or not run.ended]
    for start in range(0, len(seen), _RUNS_AT_ONCE):
        told(f"reading the state of {len(seen)} runs, {start} done")
        observe(database, session, seen[start : start + _RUNS_AT_ONCE])
    for run_id in added:
        adopted.retell(database, run_id)
    hosts.record_facts(database, host, session.call(AskFacts(), timeout_s=60.0).as_json())
    _count_from_its_runs(database, session, set(added))
    return HostFindings(host, len(there), tuple(added), elsewhere, tuple(damaged), unenrolled)


def _count_from_its_runs(database: Database, session: HostSession, added: set[str]) -> None:
    """Let a host cost from the first run that this home began there: the lost store knew since when it is rented.

    What another command wrote into a new store before does not count: they are on this very root, so it is this box.
    """
    host, theirs = session.host.name, runs.launchers(database, own(session.home).id)
    mine = [run for run in runs.every(database, host=host) if run.run_id in added and run.run_id not in theirs]
    starts = [start for use in read_uses(database, mine, time.time()) for start, _ in use.spans]
    if starts:
        hosts.was_seen_before(database, host, min(starts))


def _enroll(session: HostSession, run_ids: list[str]) -> tuple[str, ...]:
    """Register this home on the host, so that the host keeps what it has not fetched.

    Returns:
        The runs for which that failed: a disk is full, or the agent is of the first release, which cannot do it.

    Raises:
        HostUnreachable: Whether the host has recorded it is not known.
    """
    home = AskingHome(**own(session.home).as_json())
    try:
        done = session.call(Enroll(home=home, run_ids=tuple(run_ids)), timeout_s=120.0).runs
    except HostUnreachable:
        raise
    except ArmadaError:
        done = ()
    return tuple(run_id for run_id in run_ids if run_id not in set(done))


def _specs(session: HostSession, wanted: list[str]) -> list[StoredSpec]:
    """Return the plans of runs. An answer contains as many as fit; the rest is requested again."""
    found: list[StoredSpec] = []
    left = list(wanted)
    while left:
        asked = left[:_SPECS_PER_QUESTION]
        answer = session.call(ReadSpecs(run_ids=tuple(asked)), timeout_s=120.0)
        came = [entry for entry in map(_stored, answer.specs) if entry is not None and entry.run_id in asked]
        if not came:
            return [*found, *(StoredSpec(run_id=name, spec=None, problem="the agent left it out") for name in left)]
        found += came
        names = {entry.run_id for entry in came}
        left = [name for name in left if name not in names]
    return found


def _stored(entry: StoredSpec | Misfit) -> StoredSpec | None:
    """Return an unreadable plan for an invalid entry; None if the entry does not even name its run."""
    if isinstance(entry, StoredSpec):
        return entry
    known = entry.run_id is not None and RUN_ID.fullmatch(entry.run_id)
    return StoredSpec(run_id=entry.run_id, spec=None) if known and entry.run_id is not None else None
