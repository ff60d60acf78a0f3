"""What the daemon says about itself: a file rewritten with every tick, believed only as far as its age and its lock go."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from armada.daemon import instance

if TYPE_CHECKING:
    from pathlib import Path

    from armada.paths import HomePaths

FRESH_S = 15.0
"""A tick is a second; a daemon silent for longer than this is stale, even if its process lives."""

WATCHED_S = 10.0
"""A host that the daemon saw so long ago need not be looked at again by who asks now."""


@dataclass(frozen=True, slots=True)
class HostStatus:
    """One watched host: `new` before the first answer, then `ok` or `unreachable`."""

    state: Literal["new", "ok", "unreachable"]
    last_ok: float | None
    error: str | None
    next_look: float | None


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """A sync under way."""

    host: str
    runs: tuple[str, ...]
    since: float


@dataclass(frozen=True, slots=True)
class Status:
    """All of status.json. `auto`: it was started by another command and ends when nothing is left to do."""

    pid: int
    start_time: str | None
    boot_id: str | None
    version: str
    auto: bool
    started_at: float
    tick_at: float
    hosts: dict[str, HostStatus]
    syncing: tuple[SyncStatus, ...]
    idle_since: float | None = None


Condition = Literal["fresh", "stale", "dead", "never"]


def status_file(home: HomePaths) -> Path:
    return home.daemon / "status.json"


def write(home: HomePaths, status: Status) -> None:
    """Replace the file whole; not synced to disk, since after a power cut there is no daemon either."""
    place = status_file(home)
    temporary = place.with_suffix(".tmp")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
        json.dump({"format": 1, **asdict(status)}, stream)
    temporary.replace(place)


def read(home: HomePaths) -> Status | None:
    """The last status that was written, by whoever; None where there is none that can be read."""
    try:
        told: dict[str, Any] = json.loads(status_file(home).read_text(encoding="utf-8"))
        del told["format"]
        told["hosts"] = {name: HostStatus(**host) for name, host in told["hosts"].items()}
        told["syncing"] = tuple(SyncStatus(s["host"], tuple(s["runs"]), s["since"]) for s in told["syncing"])
        return Status(**told)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def judge(home: HomePaths, now: float) -> tuple[Condition, Status | None]:
    """Whether there is a daemon, and whether it does its work: the lock says the first, the age of its tick the second."""
    status = read(home)
    if not instance.is_held(home):
        return ("never" if status is None else "dead"), status
    if status is None or not 0 <= now - status.tick_at <= FRESH_S:
        return "stale", status
    return "fresh", status


def seen_hosts(home: HomePaths, now: float) -> frozenset[str]:
    """Hosts a fresh daemon has just looked at, or knows to be unreachable: nobody else needs to ask them now."""
    condition, status = judge(home, now)
    if condition != "fresh" or status is None:
        return frozenset()
    return frozenset(
        name
        for name, host in status.hosts.items()
        if host.state == "unreachable" or (host.last_ok is not None and now - host.last_ok <= WATCHED_S)
    )
