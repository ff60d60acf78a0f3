"""Runs of many hosts synced at once: each host in a thread of its own, so that a dead one delays nobody."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, NotFound
from armada.rpc.session import HostSession
from armada.store.database import Database
from armada.sync.context import HostContext
from armada.sync.runs.report import SyncOutcome
from armada.sync.runs.sync_host import sync_host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.config.hosts import Host
    from armada.paths import HomePaths
    from armada.store.runs import Run
    from armada.sync.runs.report import Listener
    from armada.transport.interface import TransferProgress

MOST_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class HostResult:
    """What became of one host's runs."""

    host: str
    outcomes: tuple[SyncOutcome, ...]
    error: ArmadaError | None = None


class _OneAtATime:
    """Lets several hosts tell one listener."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._lock = threading.Lock()

    def transfer(self, what: str, seen: TransferProgress) -> None:
        with self._lock:
            self._listener.transfer(what, seen)

    def done(self, what: str) -> None:
        with self._lock:
            self._listener.done(what)


def sync_hosts(
    home: HomePaths,
    hosts: Mapping[str, Host],
    wanted: Sequence[Run],
    *,
    listener: Listener,
    patience_s: float = 20.0,
) -> list[HostResult]:
    """Sync runs, all hosts at once; an error of one host is in its result.

    Args:
        home: Home's folders.
        hosts: Every host that is configured.
        wanted: Which runs.
        listener: Told what is going on, by one thread at a time.
        patience_s: How long a broken link is waited for.
    """
    by_host: dict[str, list[str]] = {}
    for run in wanted:
        by_host.setdefault(run.host, []).append(run.run_id)
    quiet = _OneAtATime(listener)

    def work(name: str) -> HostResult:
        if name not in hosts:
            return HostResult(name, (), NotFound("no longer in hosts.yaml", host=name))
        try:
            with Database(home.store) as database, HostSession(hosts[name], home, patience_s=patience_s) as session:
                return HostResult(
                    name, tuple(sync_host(HostContext(database, session, home), by_host[name], listener=quiet))
                )
        except ArmadaError as error:
            return HostResult(name, (), error)

    if not by_host:
        return []
    with ThreadPoolExecutor(max_workers=min(MOST_AT_ONCE, len(by_host))) as pool:
        return list(pool.map(work, by_host))
