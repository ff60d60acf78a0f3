"""Sweeps: what was asked for, and how far handing it over got. The runs with a sweep's name are its cells."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from armada.errors import NotFound, UsageError
from armada.store.values import decode
from armada.verdicts.states import ENDED

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from armada.store.database import Database

State = Literal["preparing", "started", "stopped"]


_STOPPED_AT = "stopped_at"
"""In a sweep's settings; former releases do not write it."""


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """One sweep.

    Attributes:
        name: Its id, from which the ids of its runs are made.
        title: What the user called it.
        experiment: The file, if it is known.
        launch_key: Identifies repeated launches.
        settings: The sweep's settings, and options of its launch.
        state: `preparing` until all cells are handed over; `stopped` once it was told to stop.
        why: Why it was stopped.
        created_at: Unix time.
    """

    name: str
    title: str
    experiment: str | None
    launch_key: str | None
    settings: Mapping[str, Any]
    state: str
    why: str | None
    created_at: float

    @property
    def stopped_at(self) -> float | None:
        """When it was stopped; None if it is not stopped, or a former release stopped it."""
        told = self.settings.get(_STOPPED_AT)
        return told if self.state == "stopped" and isinstance(told, float) else None


def insert(
    database: Database, *, name: str, title: str, experiment: str | None, launch_key: str, settings: Mapping[str, Any]
) -> None:
    """Record a sweep before anything of it exists elsewhere."""
    with database.transaction() as connection:
        connection.execute(
            "INSERT INTO sweeps VALUES (?, ?, ?, ?, ?, 'preparing', NULL, ?)",
            (name, title, experiment, launch_key, json.dumps(settings), time.time()),
        )


def set_state(database: Database, name: str, state: State, why: str | None = None) -> None:
    """Record how far a sweep got, and when it was stopped."""
    with database.transaction() as connection:
        connection.execute("UPDATE sweeps SET state = ?, why = ? WHERE name = ?", (state, why, name))
        row = connection.execute("SELECT settings FROM sweeps WHERE name = ?", (name,)).fetchone()
        if state == "stopped" and row is not None:
            change_settings(database, name, {**_settings(row["settings"], name), _STOPPED_AT: time.time()})


def change_settings(database: Database, name: str, settings: Mapping[str, Any]) -> None:
    """Replace a sweep's settings."""
    with database.transaction() as connection:
        connection.execute("UPDATE sweeps SET settings = ? WHERE name = ?", (json.dumps(settings), name))


def find(database: Database, prefix: str) -> SweepRecord:
    """Return the sweep of this name, or the only one whose name begins so. One that only its runs know has no settings.

    Raises:
        NotFound: There is none.
        UsageError: Several names begin so, or it is empty.
    """
    if not prefix.strip():
        raise UsageError("the sweep's name is empty", hint="armada ps lists them")
    pattern = prefix.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_") + "%"
    query = r"""SELECT name FROM sweeps WHERE name LIKE :like ESCAPE '\' UNION
                SELECT DISTINCT sweep FROM runs WHERE sweep LIKE :like ESCAPE '\' ORDER BY 1 LIMIT 6"""
    names = [str(row["name"]) for row in database.connection.execute(query, {"like": pattern})]
    if not names:
        raise NotFound(f"no sweep's name begins with {prefix!r}", hint="armada ps lists them")
    if len(names) > 1 and prefix not in names:
        raise UsageError(f"{prefix!r} matches several sweeps: {', '.join(names[:5])}", hint="type more characters")
    name = prefix if prefix in names else names[0]
    row = database.connection.execute("SELECT * FROM sweeps WHERE name = ?", (name,)).fetchone()
    if row is not None:
        return _record(row)
    oldest = database.connection.execute(
        "SELECT name, experiment, min(created_at) AS at FROM runs WHERE sweep = ?", (name,)
    ).fetchone()
    return SweepRecord(name, name, oldest["experiment"], None, {}, "started", None, float(oldest["at"]))


def launched_as(database: Database, key: str, *, since: float) -> list[SweepRecord]:
    """Return the sweeps of one launch key, newest first."""
    query = "SELECT * FROM sweeps WHERE launch_key = ? AND created_at >= ? ORDER BY created_at DESC, name"
    return [_record(row) for row in database.connection.execute(query, (key, since))]


def names(database: Database) -> tuple[str, ...]:
    """Return the names of all sweeps but those that only their runs know, the newest first."""
    return tuple(row["name"] for row in database.connection.execute("SELECT name FROM sweeps ORDER BY created_at DESC"))


def active_on(database: Database, host: str) -> list[str]:
    """Return the names of the sweeps with cells on a host that have not ended."""
    marks = ", ".join("?" * len(ENDED))
    query = f"SELECT DISTINCT sweep FROM runs WHERE host = ? AND sweep IS NOT NULL AND state NOT IN ({marks}) ORDER BY sweep"  # noqa: S608  # question marks only
    return [row["sweep"] for row in database.connection.execute(query, (host, *sorted(ENDED)))]


def preparing_on(database: Database, host: str) -> list[str]:
    """Return the names of the sweeps with cells on a host whose launch or extension is not complete, as far as is recorded."""
    query = """SELECT name FROM sweeps WHERE state = 'preparing'
               AND EXISTS (SELECT 1 FROM runs WHERE sweep = sweeps.name AND host = ?) ORDER BY name"""
    return [row["name"] for row in database.connection.execute(query, (host,))]


def searches(database: Database) -> list[SweepRecord]:
    """Return the searches that are neither stopped nor at their last trial, and those with cells that a host may not have."""
    query = """SELECT sweeps.*, EXISTS (SELECT 1 FROM runs WHERE sweep = sweeps.name AND runs.state IN ('preparing', 'unknown'))
               AS unsure FROM sweeps WHERE state = 'started' AND settings LIKE '%"search": {%' ORDER BY created_at, name"""
    found = []
    for row in database.connection.execute(query):
        values = dict(row)
        is_unsure = values.pop("unsure")
        record = _record(values)
        search, last = record.settings.get("search"), record.settings.get("last")
        trials = search.get("trials") if isinstance(search, dict) else None
        if isinstance(trials, int) and isinstance(last, int) and (last < trials or is_unsure):
            found.append(record)
    return found


def without_settings(database: Database) -> list[str]:
    """Return the sweeps with cells that have not ended of which only the runs are known, not what was asked for."""
    marks = ", ".join("?" * len(ENDED))
    query = f"""SELECT DISTINCT sweep FROM runs WHERE sweep IS NOT NULL AND sweep NOT IN (SELECT name FROM sweeps)
                AND state NOT IN ({marks}) ORDER BY sweep"""  # noqa: S608  # question marks only
    return [row["sweep"] for row in database.connection.execute(query, sorted(ENDED))]


def has_waiting(database: Database, host: str) -> bool:
    """Whether cells wait for their start on a host."""
    query = "SELECT 1 FROM runs WHERE host = ? AND sweep IS NOT NULL AND state = 'submitted' LIMIT 1"
    return database.connection.execute(query, (host,)).fetchone() is not None


def _settings(stored: str, name: str) -> dict[str, Any]:
    return decode(dict, stored, f"the column settings of {name}")


def _record(row: sqlite3.Row | Mapping[str, Any]) -> SweepRecord:
    values = dict(row)
    values["settings"] = _settings(values["settings"], row["name"])
    return SweepRecord(**values)
