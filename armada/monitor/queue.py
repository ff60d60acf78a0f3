"""Query a cluster's free resources, its waiting jobs, and what is left of the user's allowance: part of its host's facts."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, HostUnreachable
from armada.foundation.atomic_write import write_atomically
from armada.foundation.sanitize import last_states, sanitize_line, sanitize_text
from armada.protocol.runs import AskQuota, Quota
from armada.protocol.scheduler import AskQueue, ClusterQueue, Partition
from armada.units import span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.paths import HomePaths
    from armada.rpc.session import HostSession

TIMEOUT_S = 240.0
"""An agent runs up to four programs, with 45 s for each."""

_KEPT = "quota.json"
_NUMBER = re.compile(r"-?\d[\d,']*(?:\.\d+)?")


def look_at_queue(session: HostSession) -> ClusterQueue | None:
    """Query a host's batch system; return None if there is none.

    A failing scheduler is reported in the answer, because its host still answers. Frequent calls are harmless: the
    agent queries the batch system once in two minutes.

    Raises:
        HostUnreachable: The host itself does not answer.
    """
    host = session.host
    if host.batch is None or host.scheduler == "direct":
        return None
    try:
        return session.call(AskQueue(scheduler=host.scheduler, quota=host.quota or None), timeout_s=TIMEOUT_S)
    except HostUnreachable:
        raise
    except ArmadaError as error:
        return ClusterQueue(error=sanitize_line(error.message))


def describe_queue(queue: ClusterQueue, scheduler: str, now: float) -> list[str]:
    """Describe a queue in lines for the user; every text from the host is sanitized."""
    lines = []
    if queue.error:
        lines.append(f"⚠ {scheduler} does not answer: {sanitize_line(queue.error, 400)}")
    else:
        parts = queue.partitions
        lines += [_describe_part(part, scheduler) for part in parts[:40]]
        if len(parts) > 40:
            lines.append(f"… and {len(parts) - 40} more")
        if not parts:
            lines.append(f"{scheduler} shows no {'worker' if scheduler == 'htcondor' else 'partition'}")
        lines.append(f"my jobs: {_count(queue.mine)} · others: {_count(queue.others)}")
    if quota := sanitize_text(last_states(queue.quota or "")).strip():
        lines.append("quota:")
        lines += [f"  {line}" for line in quota.splitlines()[:30]]
    if queue.time is not None and now - queue.time >= 5:
        lines.append(f"(as {scheduler} said {span(now - queue.time)} ago)")
    return lines


def describe_allowance(quota: Quota) -> list[str]:
    """Describe what a site's command printed before and after a run, and how much its last number changed."""
    lines = []
    for when, look in (("before", quota.before), ("after", quota.after)):
        if look is None:
            lines.append(f"{when}: not asked yet")
            continue
        text = sanitize_text(last_states(look.text)).strip().splitlines() or ["(it printed nothing)"]
        lines.append(f"{when}: {'' if look.answered else 'could not be asked: '}{text[0]}")
        lines += [f"{'':{len(when) + 2}}{line}" for line in text[1:30]]
    used = allowance_moved(quota)
    if used is not None:
        lines.append(f"used: the last number went from {used[0]:,g} to {used[1]:,g} ({used[1] - used[0]:+,g})")
    return lines


def allowance_moved(quota: Quota) -> tuple[float, float] | None:
    """Return the last number before and after; None unless both outputs have one."""
    found = []
    for look in (quota.before, quota.after):
        numbers = _NUMBER.findall(look.text) if look is not None and look.answered else []
        if not numbers:
            return None
        found.append(float(re.sub(r"[,']", "", numbers[-1])))
    return found[0], found[1]


def look_at_allowance(session: HostSession, home: HomePaths, run_id: str) -> Quota:
    """Query the allowance before and after a run, and keep the answer at home, because hosts and runs disappear.

    Raises:
        HostUnreachable, NotFound: The host does not answer, or has no such run.
    """
    answer = session.call(AskQuota(run_id=run_id))
    folder = home.run(run_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(folder / _KEPT, json.dumps(answer.model_dump(exclude_unset=True)), mode=0o666, durable=False)
    return answer


def kept_allowance(home: HomePaths, run_id: str) -> Quota | None:
    """Return the answer that was kept, or None."""
    try:
        return Quota.model_validate(json.loads((home.run(run_id) / _KEPT).read_text()))
    except (OSError, ValueError):  # pydantic's error is a ValueError
        return None


def _describe_part(part: Partition, scheduler: str) -> str:
    cores = f"{part.cpus_free} of {part.cpus} cores"
    gpus = f", {part.gpus_free} of {part.gpus} GPU{'' if part.gpus == 1 else 's'}" if part.gpus else ""
    limit = f", at most {part.time_limit}" if part.time_limit else ""
    state = f", {part.state}" if part.state not in (None, "up") else ""
    size = f" ({part.nodes} node{'' if part.nodes == 1 else 's'}{limit}{state})" if scheduler == "slurm" else state
    return f"{part.name}{size}: free {cores}{gpus}"


def _count(jobs: Mapping[str, int]) -> str:
    said = [f"{count} {sanitize_line(word, 20).lower()}" for word, count in sorted(jobs.items()) if count]
    return ", ".join(said[:8]) or "none"
