"""Keep what the daemon's threads know about hosts in memory, so that a tick can report it without asking them."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from armada.daemon.status import HostStatus, SyncStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from armada.notifications.events import Continuing


class HostStatusRegistry:
    """The status of every host. Watchers and sync workers write it; any thread may read it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts: dict[str, HostStatus] = {}
        self._looking: dict[str, float] = {}
        self._syncing: dict[str, SyncStatus] = {}
        self._continuing: dict[str, tuple[Continuing, ...]] = {}

    def add(self, host: str) -> None:
        with self._lock:
            self._hosts.setdefault(host, HostStatus("new", None, None, None))
            self._continuing.pop(host, None)  # its budget may be another one

    def remove(self, host: str) -> None:
        with self._lock:
            self._hosts.pop(host, None)
            self._looking.pop(host, None)
            self._continuing.pop(host, None)

    def looks(self, host: str, now: float) -> None:
        """Record that a watcher starts a check."""
        with self._lock:
            self._looking[host] = now

    def saw(self, host: str, now: float, next_look: float) -> HostStatus | None:
        """Record that the host answered; return its former status."""
        return self._set(host, HostStatus("ok", now, None, next_look))

    def failed(self, host: str, why: str, next_look: float) -> HostStatus | None:
        """Record that the host did not answer; return its former status."""
        with self._lock:
            former = self._hosts.get(host)
            last_ok = former.last_ok if former else None
        return self._set(host, HostStatus("unreachable", last_ok, why, next_look))

    def reachable(self, host: str) -> bool:
        with self._lock:
            known = self._hosts.get(host)
            return known is not None and known.state == "ok"

    def syncs(self, host: str, run_ids: Iterable[str], now: float) -> None:
        with self._lock:
            self._syncing[host] = SyncStatus(host, tuple(run_ids), now)

    def synced(self, host: str) -> None:
        with self._lock:
            self._syncing.pop(host, None)

    def continue_there(self, host: str, found: Sequence[Continuing]) -> None:
        """Record which runs continue on a host whose budget is spent."""
        with self._lock:
            self._continuing[host] = tuple(found)

    def continuing(self) -> list[Continuing]:
        """Return the runs that continue on hosts whose budgets are spent."""
        with self._lock:
            return [each for found in self._continuing.values() for each in found]

    def hosts(self) -> dict[str, HostStatus]:
        with self._lock:
            return dict(self._hosts)

    def syncing(self) -> tuple[SyncStatus, ...]:
        with self._lock:
            return tuple(self._syncing.values())

    def looking_since(self) -> dict[str, float]:
        """Return the hosts that are being checked now, with the monotonic second at which that began."""
        with self._lock:
            return dict(self._looking)

    def forget_waits(self) -> None:
        """Forget the planned checks, which are meaningless after the machine slept."""
        with self._lock:
            self._hosts = {name: replace(status, next_look=None) for name, status in self._hosts.items()}

    def _set(self, host: str, status: HostStatus) -> HostStatus | None:
        with self._lock:
            former = self._hosts.get(host)
            if former is not None:  # it may have been removed from hosts.yaml meanwhile
                self._hosts[host] = status
            self._looking.pop(host, None)
            return former
