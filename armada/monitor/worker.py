"""Find the worker on which a cluster runs a job now, by the address that its batch system names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from armada.errors import Conflict, NotFound
from armada.foundation.sanitize import sanitize_line
from armada.monitor.look import TIMEOUT_S, Look, looks, question

if TYPE_CHECKING:
    from armada.protocol.records import Evidence
    from armada.rpc.session import HostSession
    from armada.store.runs import Run

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_CONDOR_ADDRESS = re.compile(r"<([0-9.]+):[0-9]+[?>].*")
_WAITS = {"pending": "waits in the queue", "held": "is held in the queue", "ending": "is ending", "ended": "has ended"}


def find_worker(session: HostSession, run: Run) -> str:
    """Ask a cluster where the job of a run is.

    Raises:
        NotFound: The run is not on the host.
        Conflict: Its job waits in the queue, has ended, or is where armada cannot say.
        HostUnreachable: No answer.
    """
    look = looks(session.call(question([run]), timeout_s=TIMEOUT_S)).get(run.run_id)
    if not isinstance(look, Look) or not look.folder.exists or look.run.evidence is None:
        raise NotFound(f"{run.run_id} cannot be read there", hint=f"armada show {run.run_id}", host=run.host)
    status = look.run.evidence.scheduler
    if status is None or status.state != "running":
        raise Conflict(f"{_why_not(run.run_id, look.run.evidence)}, so it has no worker now", host=run.host)
    address = parse_worker(status.node or "")
    if address is None:
        said = f"{sanitize_line(status.node, 60)!r}" if status.node else "none"
        raise Conflict(f"the scheduler names no single worker of {run.run_id}: {said}", host=run.host)
    return address


def parse_worker(node: str) -> str | None:
    """Return the address in a scheduler's name of a worker: `node7`, `slot1_2@node7`, `<10.0.0.7:9618?…>`. None if it is none."""
    condor = _CONDOR_ADDRESS.fullmatch(node)
    address = condor[1] if condor is not None else node.rpartition("@")[2]
    return address if _NAME.fullmatch(address) else None


def _why_not(run_id: str, evidence: Evidence) -> str:
    status = evidence.scheduler
    if status is None:
        return f"{run_id} has ended, or was not submitted yet"
    said = _WAITS.get(status.state, "is in a state that is not known now")
    why = status.detail or status.error
    return f"the job of {run_id} {said}" + (f" ({sanitize_line(why, 100)})" if why else "")
