"""Predict when a host's disk will be full: how much its runs save, how often, and how much of it stays there, against free space.

A run that is synced leaves a fixed number of checkpoints on its host. A run that is not synced, or whose sync fails,
leaves all. Either way it stops with its last step. What other programs write there is not predicted.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config.sync import SyncSettings, settings_of
from armada.store import checkpoints, hosts, run_sync, runs
from armada.store.hosts import DiskForecast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.run_sync import RunSync
    from armada.store.runs import Run

RECENT = 8
"""How many of the last checkpoints determine the interval; older ones may come from other settings."""

SYNCED_S = 3600.0
"""A run counts as not synced if its last sync is older than its `every` plus this, in seconds."""

BESIDE = 2
"""Checkpoints on a host beyond those that its settings keep: the best, and the one being fetched."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What one run still writes to its host's disk: `bytes_per_s`, up to `most_bytes` in total (infinity: no end)."""

    bytes_per_s: float
    most_bytes: float


def note_forecast(database: Database, host: str, *, now: float | None = None) -> DiskForecast | None:
    """Predict a host's disk usage from its newest facts and the store's records of its runs, and store the forecast with the facts.

    Returns:
        The forecast, or None if the host has not reported its free space.
    """
    moment = time.time() if now is None else now
    record = hosts.find(database, host)
    free_bytes = _free_bytes(record.facts if record is not None else None)
    forecast = None
    if free_bytes is not None:
        records = run_sync.every(database)
        active = [run for run in runs.every(database, host=host, active=True) if run.state == "running"]
        found = [_growth_of_run(database, run, records.get(run.run_id), moment) for run in active]
        forecast = foresee(free_bytes, [growth for growth in found if growth is not None], moment)
    hosts.record_forecast(database, host, forecast)
    return forecast


def foresee(free_bytes: int, growths: Sequence[Growth], now: float) -> DiskForecast:
    """Combine what runs will write; each stops growing at its own limit."""
    growing = [growth for growth in growths if growth.bytes_per_s > 0 and growth.most_bytes > 0]
    needed_bytes = sum(growth.most_bytes for growth in growing)
    return DiskForecast(
        at=now,
        free_bytes=free_bytes,
        bytes_per_s=sum(growth.bytes_per_s for growth in growing),
        needed_bytes=needed_bytes if math.isfinite(needed_bytes) else None,
        full_at=None if needed_bytes < free_bytes else now + _full_after_s(free_bytes, growing),
    )


def _full_after_s(free_bytes: float, growing: Sequence[Growth]) -> float:
    """Return the seconds until so many bytes are written; the runs' limits must add up to at least that."""
    passed_s = 0.0
    for number, growth in enumerate(sorted(growing, key=_lasts_s)):
        left = sorted(growing, key=_lasts_s)[number:]
        rate = sum(each.bytes_per_s for each in left)
        until_s = _lasts_s(growth)
        if rate * (until_s - passed_s) >= free_bytes:
            return passed_s + free_bytes / rate
        free_bytes -= rate * (until_s - passed_s)
        passed_s = until_s
    return passed_s


def _lasts_s(growth: Growth) -> float:
    return growth.most_bytes / growth.bytes_per_s


def growth_of(
    known: Sequence[Checkpoint],
    *,
    started_at: float | None,
    left_s: float | None,
    kept_there: int,
    is_synced: bool,
) -> Growth | None:
    """Predict what one run will still write.

    Args:
        known: Its checkpoints, at home, on the host or deleted.
        started_at: When it started, by its host's clock, as are the times of checkpoints.
        left_s: How long it still trains, in seconds; None if unknown.
        kept_there: How many checkpoints its settings leave on the host.
        is_synced: Whether its checkpoints are fetched.

    Returns:
        None while its interval of checkpoints is unknown.
    """
    timed = sorted((c.created_at, c.size_bytes) for c in known if c.created_at is not None)[-RECENT:]
    if not timed:
        return None
    began = timed[0][0] if len(timed) > 1 else started_at
    if began is None or began >= timed[-1][0]:
        return None
    interval_s = (timed[-1][0] - began) / max(1, len(timed) - 1)
    size_bytes = max(size for _, size in timed)
    most = math.inf if left_s is None else left_s / interval_s + 1  # the last one is saved at the end, whenever that is
    if is_synced:
        there = sum(1 for c in known if c.on_host)
        most = min(most, max(0, kept_there + BESIDE - there))
    return Growth(size_bytes / interval_s, most * size_bytes)


def _growth_of_run(database: Database, run: Run, record: RunSync | None, now: float) -> Growth | None:
    spec = runs.spec(database, run.run_id)
    settings = settings_of(spec)
    return growth_of(
        checkpoints.of_run(database, run.run_id),
        started_at=run.started_at,
        left_s=run.eta_s,
        kept_there=max(settings.keep_remote, _outbox_keep(spec)),
        is_synced=_is_synced(record, settings, now),
    )


def _is_synced(record: RunSync | None, settings: SyncSettings, now: float) -> bool:
    if record is None or record.last_at is None or record.failing_since is not None:
        return False
    # A window may keep a run from being synced for the rest of the day, which is not a failure.
    patience_s = settings.every_s + SYNCED_S + (86_400.0 if settings.window else 0.0)
    return now - record.last_at < patience_s


def _outbox_keep(spec: dict[str, object]) -> int:
    """Return how many checkpoints the run's supervisor and trainer keep there."""
    outbox = spec.get("outbox")
    keep = outbox.get("keep") if isinstance(outbox, dict) else None
    return keep if isinstance(keep, int) else 3


def _free_bytes(facts: dict[str, object] | None) -> int | None:
    disk = (facts or {}).get("disk")
    free = disk.get("free_bytes") if isinstance(disk, dict) else None
    return free if isinstance(free, int) and not isinstance(free, bool) and 0 <= free < 2**63 else None
