"""Sync runs of many hosts at once: each host in its own thread, so that a dead one delays no other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, NotFound
from armada.foundation.progress import SerialProgress
from armada.rpc.session import HostSession
from armada.store.database import Database
from armada.sync.context import HostContext
from armada.sync.runs.report import SyncOutcome
from armada.sync.runs.sync_host import sync_host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.config.hosts import Host
    from armada.foundation.progress import Progress
    from armada.paths import HomePaths
    from armada.store.runs import Run

MOST_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class HostResult:
    """The outcomes for one host's runs."""

    host: str
    outcomes: tuple[SyncOutcome, ...]
    error: ArmadaError | None = None


def sync_hosts(
    home: HomePaths,
    hosts: Mapping[str, Host],
    wanted: Sequence[Run],
    *,
    progress: Progress,
    patience_s: float = 20.0,
) -> list[HostResult]:
    """Sync runs, all hosts at once; an error of one host is in its result.

    Args:
        home: Home's folders.
        hosts: All configured hosts.
        wanted: The runs.
        progress: Receives the progress, from one thread at a time.
        patience_s: How long to retry a broken link, in seconds.
    """
    by_host: dict[str, list[str]] = {}
    for run in wanted:
        by_host.setdefault(run.host, []).append(run.run_id)
    told = SerialProgress(progress)

    def work(name: str) -> HostResult:
        if name not in hosts:
            return HostResult(name, (), NotFound("no longer in hosts.yaml", host=name))
        try:
            with (
                Database(home.store, existing=True) as database,
                HostSession(hosts[name], home, patience_s=patience_s) as session,
            ):
                return HostResult(
                    name, tuple(sync_host(HostContext(database, session, home), by_host[name], progress=told))
                )
        except ArmadaError as error:
            return HostResult(name, (), error)

    if not by_host:
        return []
    with ThreadPoolExecutor(max_workers=min(MOST_AT_ONCE, len(by_host))) as pool:
        return list(pool.map(work, by_host))
