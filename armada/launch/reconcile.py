"""The same launch again: one that broke off is found, looked at, and followed or continued, before anything is started.

Launches carry a key, the hash of what was asked for: experiment, host, profile, name. A run of that key whose launch never
ended well (exit 9, `kill -9`, the laptop's battery) may or may not be on the host. The host knows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import NotFound
from armada.home import own
from armada.monitor.observe import observe
from armada.monitor.state import NOT_ON_HOST
from armada.operations import is_alive
from armada.store import operations as records
from armada.store import runs

if TYPE_CHECKING:
    from armada.config.experiments import Experiment
    from armada.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run

YOUNG_S = 86_400.0
"""A launch that broke off longer ago is history: who asks for the same now wants it anew."""

ENDED_S = 3600.0
"""…and one whose run has ended meanwhile answers only who asks soon."""

_OURS = frozenset({"provision_failed", "submit_refused", "interrupted", "killed_by_user"})
"""Ends that home itself wrote, knowing that nothing had been started, or that nobody wanted it."""


@dataclass(frozen=True, slots=True)
class Former:
    """A launch that broke off. `started`: the host has it, so follow it; otherwise it has nothing, so put it there."""

    run: Run
    started: bool


def launch_key(
    experiment: Experiment, host: str, profile: str | None, name: str | None, *, only_prepare: bool = False
) -> str:
    """What makes two launches the same."""
    asked = [experiment.model_dump(mode="json"), host, profile, name or experiment.name]
    asked += ["prepare"] if only_prepare else []
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def find_former(database: Database, session: HostSession, key: str, now: float) -> Former | None:
    """Look for a launch of that key that broke off, and ask the host what became of it.

    A claim nobody took up is submitted again under its own number, which starts at most one job.

    Args:
        database: The store.
        session: With the host.
        key: From `launch_key`.
        now: Unix time.

    Raises:
        HostUnreachable: The host does not answer, so nobody can tell.
    """
    run = _candidate(database, key, session.host.name, now)
    if run is None:
        return None
    observe(database, session, [run])
    run = runs.find(database, run.run_id)
    if run.reason == NOT_ON_HOST:
        return Former(run, started=False)
    if run.state == "preparing":
        # Made, never claimed: it holds nothing, and its spec may be older than the files it names.
        with contextlib.suppress(NotFound):
            question = {"run_id": run.run_id, "home": own(session.home).as_json()}
            session.call("run.remove", question, timeout_s=300.0)
        return Former(run, started=False)
    if run.state == "submitted":
        session.call("run.submit", {"run_id": run.run_id, "submission": run.submission})
        observe(database, session, [run])
    return Former(runs.find(database, run.run_id), started=True)


def _candidate(database: Database, key: str, host: str, now: float) -> Run | None:
    for run in runs.launched_as(database, key, host=host, since=now - YOUNG_S):
        launches = records.of_run(database, run.run_id, kind="launch")
        if run.ended and (run.reason in _OURS or run.created_at < now - ENDED_S):
            continue
        if launches and not any(launch.state == "done" or is_alive(launch) for launch in launches):
            return run
    return None
