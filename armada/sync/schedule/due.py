"""Decide when a run is due to be synced. Every clock and random number is passed in.

| situation                                      | due                                                                   |
|------------------------------------------------|-----------------------------------------------------------------------|
| another command works on its checkpoints       | after half a minute, whatever else holds                              |
| the user requested it (`sync now`)             | now, whatever the window says                                         |
| the run has ended, its final sync is not done  | now, whatever the window says, since a host may be billed by the hour |
| a finished checkpoint is on the host, not here | now, inside the window                                                |
| the run lives, `every` has passed              | now, inside the window                                                |
| the last sync failed, or the run has ended and | after its back-off, except on request                                 |
| … its host showed an earlier submission        |                                                                       |
| the clock was set back, or the laptop slept    | now, once: a time that lies too far ahead is ignored                  |
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config.sync import SyncSettings, settings_of
from armada.foundation.backoff import Backoff
from armada.store import run_sync, runs
from armada.store.queries.due_syncs import runs_with_news
from armada.store.run_sync import RunSync

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.store.database import Database

FIRST_BACKOFF_S = 15.0
LONGEST_BACKOFF_S = 900.0
_BACKOFF = Backoff(FIRST_BACKOFF_S, LONGEST_BACKOFF_S, jitter=(0.5, 1.0))
FINAL_AGAIN_S = 5.0
"""Seconds before the final sync of a run that ended just after a sync began."""

DISK_PAUSE_S = 60.0
"""Interval of retries while home's disk is full, in seconds: a check is free, and the user may have freed space."""


@dataclass(frozen=True, slots=True)
class Due:
    """One run that should be synced now."""

    run_id: str
    host: str
    why: str


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts that decide about one run."""

    ended: bool  # a certain end; a guessed one may be revised
    new_checkpoints: bool
    record: RunSync
    settings: SyncSettings


def why_due(situation: Situation, now: float, local: dt.time) -> str | None:
    """Return why a run is due, or None if it is not.

    Args:
        situation: What is known of it.
        now: Unix time.
        local: The user's local time of day.
    """
    record, settings = situation.record, situation.settings
    if record.is_put_off(now):
        return None
    if record.requested_at is not None:
        return "requested"
    if situation.ended and record.final_done and not situation.new_checkpoints:
        return None
    if record.failures and _ahead(record.next_due_at, now, LONGEST_BACKOFF_S * 1.5):
        return None
    if situation.ended and not record.final_done and _ahead(_after(record.last_at, FINAL_AGAIN_S), now, FINAL_AGAIN_S):
        return None
    if situation.ended:
        return "run ended" if not record.final_done or settings.open_at(local) else None
    if not settings.open_at(local):
        return None
    if situation.new_checkpoints:
        return "checkpoint finished"
    return (
        None if _ahead(_after(record.last_at, settings.every_s), now, settings.every_s) else f"every {settings.every}"
    )


def _after(moment: float | None, wait_s: float) -> float | None:
    return None if moment is None else moment + wait_s


def _ahead(moment: float | None, now: float, most: float) -> bool:
    """Whether a moment is still to come; one more than `most` seconds ahead comes from a wrong clock and does not count."""
    return moment is not None and now < moment <= now + most


def backoff_s(failures: int, roll: float) -> float:
    """Return how long to wait after `failures` failures in a row, in seconds.

    Args:
        failures: At least 1.
        roll: Between 0 and 1. It spreads the retries of many runs, so that a host that comes back is not overloaded.
    """
    return _BACKOFF.pause_s(failures, roll)


def due(
    database: Database,
    now: float,
    *,
    local_time: Callable[[float], dt.time] | None = None,
) -> list[Due]:
    """List the runs that should be synced now: first those that ended, then those that have waited longest."""
    local = (local_time or _local_time)(now)
    records = run_sync.every(database)
    waiting = runs_with_news(database, now, not_wanted=NOT_WANTED, longest_wait_s=LONGEST_TRY_S * 1.5)
    found = []
    for run in runs.unsettled(database):
        record = records.get(run.run_id, RunSync(run.run_id))
        over = run.is_settled(now)
        if over and record.final_done and record.requested_at is None and run.run_id not in waiting:
            continue  # most runs of an old store: their specs need not be read
        if run.state == "preparing":
            continue  # nothing of it is on a host yet
        situation = Situation(over, run.run_id in waiting, record, settings_of(runs.spec(database, run.run_id)))
        if why := why_due(situation, now, local):
            found.append((not over, record.last_at or 0.0, Due(run.run_id, run.host, why)))
    return [item for *_, item in sorted(found, key=lambda entry: entry[:2])]


NOT_WANTED = "excluded by sync.keep_home"
LONGEST_TRY_S = 86_400.0
_REFETCH = Backoff(600.0, LONGEST_TRY_S)


def next_try_at(now: float, tries: int) -> float:
    """Return when to fetch a checkpoint with wrong bytes again; the host's copy rarely improves."""
    return now + _REFETCH.pause_s(tries + 1)


def _local_time(now: float) -> dt.time:
    return dt.datetime.fromtimestamp(now, tz=dt.UTC).astimezone().time()
