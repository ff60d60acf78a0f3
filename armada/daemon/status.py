"""Write and judge the daemon's status file. It is rewritten with every tick; its age and the lock show whether the daemon works.

The age comes from the monotonic clock, which all processes of one boot share, and which neither users nor NTP set. If
the file has no such time (an older daemon wrote it), the age comes from the wall clock, and `is_certain` is false.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from armada.daemon import instance
from armada.foundation import process_identity
from armada.foundation.atomic_write import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from armada.paths import HomePaths

FRESH_S = 15.0
"""Ticks come every second; a daemon without one for so many seconds is stale, even if its process lives."""

CONFIRM_S = 3.0
"""How long to watch a stale daemon before acting on that, in seconds: three ticks."""

_LOOK_S = 0.1

WATCHED_S = 10.0
"""A host that the daemon checked within so many seconds need not be checked again by another command."""


@dataclass(frozen=True, slots=True)
class HostStatus:
    """One watched host: `new` before the first answer, then `ok` or `unreachable`."""

    state: Literal["new", "ok", "unreachable"]
    last_ok: float | None
    error: str | None
    next_look: float | None


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """A running sync."""

    host: str
    runs: tuple[str, ...]
    since: float


@dataclass(frozen=True, slots=True)
class Status:
    """The content of status.json. `auto`: the daemon was started by another command and exits when nothing is left to do.

    `tick_at` is from the daemon's wall clock, `tick_monotonic` counts from the boot with that `boot_id`.
    """

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
    tick_monotonic: float | None = None
    ended: str | None = None
    configuration: tuple[str, ...] = ()
    """Problems in the user's files, each with its place and what is in effect meanwhile."""


Condition = Literal["fresh", "stale", "dead", "ended", "never"]
"""`ended`: the daemon recorded its exit; `dead`: it disappeared without doing so."""


def status_file(home: HomePaths) -> Path:
    return home.daemon / "status.json"


def write(home: HomePaths, status: Status) -> None:
    """Replace the file atomically. It is not synced to disk, because after a power cut there is no daemon either."""
    write_atomically(status_file(home), json.dumps({"format": 1, **asdict(status)}), durable=False, unique=False)


def read(home: HomePaths) -> Status | None:
    """Read the last status that any daemon wrote; None if there is none that can be read."""
    try:
        told: dict[str, Any] = json.loads(status_file(home).read_text(encoding="utf-8"))
        del told["format"]
        told["hosts"] = {name: HostStatus(**host) for name, host in told["hosts"].items()}
        told["configuration"] = tuple(map(str, told.get("configuration") or ()))
        told["syncing"] = tuple(SyncStatus(s["host"], tuple(s["runs"]), s["since"]) for s in told["syncing"])
        known = {field.name for field in dataclasses.fields(Status)}
        status = Status(**{name: value for name, value in told.items() if name in known})  # a newer daemon may add some
        return status if math.isfinite(status.started_at) and math.isfinite(status.tick_at) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The state of a home's daemon at one moment.

    `age_s`: seconds since its last tick, None if unknown. `is_certain`: the age comes from a clock that nobody sets.
    """

    condition: Condition
    status: Status | None
    age_s: float | None = None
    is_certain: bool = False

    def now(self) -> float:
        """The current time by the wall clock that the status was written with, which may have been set since."""
        if self.status is None or self.age_s is None:
            return time.time()
        return self.status.tick_at + self.age_s


def judge(
    home: HomePaths, *, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
) -> Judgement:
    """Judge whether there is a daemon (by its lock), and whether it works (by the age of its last tick).

    Args:
        home: The home.
        monotonic: Returns seconds since boot; called after the status is read, so that no tick is in the future.
        wall: Returns unix time; called likewise.
    """
    status = read(home)
    age_s, is_certain = _age(status, monotonic, wall)
    if not instance.is_held(home):
        gone: Condition = "never" if status is None else "dead" if status.ended is None else "ended"
        return Judgement(gone, status, age_s, is_certain)
    if age_s is None or age_s > FRESH_S:
        return Judgement("stale", status, age_s, is_certain)
    return Judgement("fresh", status, age_s, is_certain)


def _age(status: Status | None, monotonic: Callable[[], float], wall: Callable[[], float]) -> tuple[float | None, bool]:
    """Return the seconds since the tick, or None; and whether they come from a clock that nobody sets."""
    if status is None:
        return None, False
    if (
        status.tick_monotonic is not None
        and status.boot_id is not None
        and status.boot_id == process_identity.boot_id()
    ):
        age_s, is_certain = monotonic() - status.tick_monotonic, True
    else:
        age_s, is_certain = wall() - status.tick_at, False
    return (age_s, is_certain) if age_s >= 0 else (None, False)


def judge_twice(home: HomePaths, *, pause: Callable[[float], None] = time.sleep) -> Judgement:
    """Judge the daemon, but wait for its next tick before calling it stale. For callers that act on the result.

    After a clock was set or the machine was paused, or while the daemon is slow for a moment, a single check may find
    it stale. After this call, a stale daemon did not tick for `FRESH_S` by the monotonic clock, or while it was
    watched.

    Args:
        home: The home.
        pause: Waits between two checks.
    """
    first = judged = judge(home)
    waited_s = 0.0
    while judged.condition == "stale" and waited_s < (CONFIRM_S if first.is_certain else FRESH_S):
        pause(_LOOK_S)
        waited_s += _LOOK_S
        judged = judge(home)
        if judged.condition == "stale" and judged.status is not None and judged.status != first.status:
            return dataclasses.replace(judged, condition="fresh", age_s=0.0)  # it ticked, whatever its clock says
    if judged.condition == "stale" and not judged.is_certain:
        return dataclasses.replace(judged, age_s=None)
    return judged


def seen_hosts(home: HomePaths, *, monotonic: Callable[[], float] = time.monotonic) -> frozenset[str]:
    """Return the hosts that a fresh daemon has just checked, or knows to be unreachable, so no other command needs to ask them."""
    judged = judge(home, monotonic=monotonic)
    if judged.condition != "fresh" or judged.status is None:
        return frozenset()
    now = judged.now()
    return frozenset(
        name
        for name, host in judged.status.hosts.items()
        if host.state == "unreachable" or (host.last_ok is not None and 0 <= now - host.last_ok <= WATCHED_S)
    )
