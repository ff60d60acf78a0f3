"""Handle a repeated launch: find an earlier one that was interrupted, and follow or continue it before anything is started.

Launches have a key, the hash of the request: experiment, host, profile, name. If a launch with that key did not
complete (exit 9, `kill -9`, a power loss), its run may or may not be on the host, so the host is queried.

If the same launch runs twice at once, a lock per key makes one armada wait for the other. The second compares the
launches of the key that were complete when it began with those that are complete now. No clock is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config import labels
from armada.errors import Conflict, NotFound
from armada.home import own
from armada.monitor.observe import observe
from armada.protocol.homes import AskingHome
from armada.protocol.runs import RemoveRun, SubmitRun
from armada.store import operations as records
from armada.store import runs
from armada.store.running_operations import is_alive
from armada.verdicts.state import NOT_ON_HOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.config.tasks.experiment import Experiment
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run

YOUNG_S = 86_400.0
"""Seconds: a launch that was interrupted longer ago is history. The same request then starts a new run."""

ENDED_S = 3600.0
"""Seconds: if the run of an interrupted launch has ended meanwhile, it is returned only for so long."""

SETTLE_S = 30.0
"""Seconds to wait for the former holder of the lock, which has released it and only has to record how its launch ended."""

_LOOK_S = 0.02

_OURS = frozenset({"provision_failed", "submit_refused", "interrupted", "killed_by_user", "removed"})
"""Ends that home itself recorded, knowing that nothing was started, or that somebody cancelled it on purpose."""


@dataclass(frozen=True, slots=True)
class InterruptedLaunch:
    """An interrupted launch. `started`: the host has the run, so follow it; otherwise start it there."""

    run: Run
    started: bool


def launch_key(
    experiment: Experiment, host: str, profile: str | None, name: str | None, *, only_prepare: bool = False
) -> str:
    """Hash the properties that make two launches the same."""
    settings = experiment.model_dump(mode="json", exclude={*labels.KEYS, "sweep"})
    asked = [settings, host, profile, name or experiment.name]
    asked += ["prepare"] if only_prepare else []
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Complete:
    """The runs of a key whose launches were complete at one moment, created after `since`."""

    run_ids: frozenset[str]
    since: float


def complete_launches(database: Database, key: str, host: str, since: float) -> Complete:
    """Return the runs of a key whose launch was completed. Later attempts count, interrupted ones do not."""
    found = [run.run_id for run in runs.launched_as(database, key, host=host, since=since)]
    launches = {run_id: records.of_run(database, run_id, kind="launch") for run_id in found}
    done = {run_id for run_id, each in launches.items() if any(launch.state == "done" for launch in each)}
    return Complete(frozenset(done), since)


def refuse_second(
    database: Database, key: str, host: str, before: Complete, pause: Callable[[float], None] = time.sleep
) -> None:
    """Refuse a launch that another armada carried out since this one began. Call it with the key's lock held.

    Args:
        database: The store.
        key: From `launch_key`.
        host: The host's name.
        before: What was complete when this launch began.
        pause: Waits between two polls.

    Raises:
        Conflict: The error names the other run.
    """
    _await_end_of_others(database, key, host, before.since, pause)
    new = complete_launches(database, key, host, before.since).run_ids - before.run_ids
    if new:
        run = max((runs.find(database, run_id) for run_id in new), key=lambda run: run.created_at)
        raise Conflict(
            f"{run.run_id} was just launched by another armada and is {run.state}; nothing was started twice",
            hint=f"armada logs -f {run.run_id} follows it; running the same command again starts another run",
            host=host,
        )


def _await_end_of_others(database: Database, key: str, host: str, since: float, pause: Callable[[float], None]) -> None:
    """Wait until the former holder of the lock has recorded how its launch ended, or its process is gone."""
    of_key = {run.run_id for run in runs.launched_as(database, key, host=host, since=since)}
    waited_s = 0.0
    while waited_s < SETTLE_S and any(
        each.kind == "launch" and each.run_id in of_key and is_alive(each) for each in records.running(database)
    ):
        pause(_LOOK_S)
        waited_s += _LOOK_S


def find_former(database: Database, session: HostSession, key: str, now: float) -> InterruptedLaunch | None:
    """Find an interrupted launch with that key, and ask the host what became of it.

    A claim that nothing has started is submitted again under its own number, which starts at most one job.

    Args:
        database: The store.
        session: A session with the host.
        key: From `launch_key`.
        now: Unix time.

    Raises:
        HostUnreachable: The host does not answer, so the outcome stays unknown.
    """
    run = _candidate(database, key, session.host.name, now)
    if run is None:
        return None
    observe(database, session, [run])
    run = runs.find(database, run.run_id)
    if run.reason == NOT_ON_HOST:
        return InterruptedLaunch(run, started=False)
    if run.state == "preparing":
        # Created but never claimed: it contains nothing, and its spec may be older than the files it names.
        with contextlib.suppress(NotFound):
            home = AskingHome(**own(session.home).as_json())
            session.call(RemoveRun(run_id=run.run_id, home=home), timeout_s=300.0)
        return InterruptedLaunch(run, started=False)
    if run.state == "submitted":
        session.call(SubmitRun(run_id=run.run_id, submission=run.submission))
        observe(database, session, [run])
    return InterruptedLaunch(runs.find(database, run.run_id), started=True)


def find_unfinished(database: Database, key: str, host: str, now: float) -> Run | None:
    """Return the run of an interrupted launch with that key, as home knows it. Asks no host."""
    return _candidate(database, key, host, now)


def _candidate(database: Database, key: str, host: str, now: float) -> Run | None:
    for run in runs.launched_as(database, key, host=host, since=now - YOUNG_S):
        launches = records.of_run(database, run.run_id, kind="launch")
        if run.ended and (run.reason in _OURS or run.created_at < now - ENDED_S):
            continue
        if launches and not any(launch.state == "done" or is_alive(launch) for launch in launches):
            return run
    return None
