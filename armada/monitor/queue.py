"""What a cluster has room for, who waits in it, and what is left of one's allowance: part of its host's facts."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from armada.errors import ArmadaError, HostUnreachable
from armada.foundation.atomic_write import write_atomically
from armada.foundation.sanitize import last_states, sanitize_line, sanitize_text
from armada.units import span

if TYPE_CHECKING:
    from armada.paths import HomePaths
    from armada.rpc.session import HostSession

TIMEOUT_S = 240.0
"""An agent asks up to four programs, and gives each 45 s."""

_KEPT = "quota.json"
_NUMBER = re.compile(r"-?\d[\d,']*(?:\.\d+)?")


def look_at_queue(session: HostSession) -> dict[str, Any] | None:
    """Ask a host's batch system; None where there is none.

    What goes wrong is part of the answer: a host whose scheduler is silent is still a host that answers. Many may ask: the
    agent asks the batch system once in two minutes.

    Raises:
        HostUnreachable: The host itself does not answer.
    """
    host = session.host
    if host.batch is None:
        return None
    question = {"scheduler": host.scheduler, "quota": list(host.quota) or None}
    try:
        return session.call("scheduler.queue", question, timeout_s=TIMEOUT_S)
    except HostUnreachable:
        raise
    except ArmadaError as error:
        return {"time": None, "partitions": [], "mine": {}, "others": {}, "quota": None, "error": error.message}


def describe_queue(queue: dict[str, Any], scheduler: str, now: float) -> list[str]:
    """A queue as lines for a person; every word of the host's is inert."""
    lines = []
    if queue.get("error"):
        lines.append(f"⚠ {scheduler} does not answer: {sanitize_line(queue['error'], 400)}")
    else:
        parts = [part for part in queue.get("partitions") or [] if isinstance(part, dict)]
        lines += [_describe_part(part, scheduler) for part in parts[:40]]
        if len(parts) > 40:
            lines.append(f"… and {len(parts) - 40} more")
        if not parts:
            lines.append(f"{scheduler} shows no {'worker' if scheduler == 'htcondor' else 'partition'}")
        lines.append(f"my jobs: {_count(queue.get('mine'))} · others: {_count(queue.get('others'))}")
    if quota := sanitize_text(last_states(str(queue.get("quota") or ""))).strip():
        lines.append("quota:")
        lines += [f"  {line}" for line in quota.splitlines()[:30]]
    asked_at = queue.get("time")
    if isinstance(asked_at, int | float) and now - asked_at >= 5:
        lines.append(f"(as {scheduler} said {span(now - asked_at)} ago)")
    return lines


def describe_allowance(quota: dict[str, Any]) -> list[str]:
    """What a site's command said before a run and after it, and how far its last number moved."""
    lines = []
    for when in ("before", "after"):
        look = quota.get(when)
        if not isinstance(look, dict):
            lines.append(f"{when}: not asked yet")
            continue
        text = sanitize_text(last_states(str(look.get("text") or ""))).strip().splitlines() or ["(it printed nothing)"]
        lines.append(f"{when}: {'' if look.get('answered') else 'could not be asked: '}{text[0]}")
        lines += [f"{'':{len(when) + 2}}{line}" for line in text[1:30]]
    used = allowance_moved(quota)
    if used is not None:
        lines.append(f"used: the last number went from {used[0]:,g} to {used[1]:,g} ({used[1] - used[0]:+,g})")
    return lines


def allowance_moved(quota: dict[str, Any]) -> tuple[float, float] | None:
    """The last number before and after; None unless both answers have one."""
    found = []
    for when in ("before", "after"):
        look = quota.get(when)
        numbers = _NUMBER.findall(str(look.get("text"))) if isinstance(look, dict) and look.get("answered") else []
        if not numbers:
            return None
        found.append(float(re.sub(r"[,']", "", numbers[-1])))
    return found[0], found[1]


def look_at_allowance(session: HostSession, home: HomePaths, run_id: str) -> dict[str, Any]:
    """Ask what was left before and after a run, and keep the answer here: hosts go, and so do runs on them.

    Raises:
        HostUnreachable, NotFound: The host, or the run on it, is not there.
    """
    answer = session.call("run.quota", {"run_id": run_id})
    folder = home.run(run_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(folder / _KEPT, json.dumps(answer), mode=0o666, durable=False)
    return answer


def kept_allowance(home: HomePaths, run_id: str) -> dict[str, Any] | None:
    """The answer that was kept; None where there is none."""
    try:
        value = json.loads((home.run(run_id) / _KEPT).read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _describe_part(part: dict[str, Any], scheduler: str) -> str:
    cores = f"{_number(part.get('cpus_free'))} of {_number(part.get('cpus'))} cores"
    count = _number(part.get("gpus"))
    gpus = f", {_number(part.get('gpus_free'))} of {count} GPU{'' if count == 1 else 's'}" if count else ""
    limit = f", at most {sanitize_line(part['time_limit'], 40)}" if part.get("time_limit") else ""
    nodes = _number(part.get("nodes"))
    state = f", {sanitize_line(part['state'], 20)}" if part.get("state") not in (None, "up") else ""
    size = f" ({nodes} node{'' if nodes == 1 else 's'}{limit}{state})" if scheduler == "slurm" else state
    return f"{sanitize_line(part.get('name'), 60)}{size}: free {cores}{gpus}"


def _count(jobs: object) -> str:
    counts = {word: _number(count) for word, count in jobs.items()} if isinstance(jobs, dict) else {}
    said = [f"{count} {sanitize_line(word, 20).lower()}" for word, count in sorted(counts.items()) if count]
    return ", ".join(said[:8]) or "none"


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
