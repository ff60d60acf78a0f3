"""An outbox of notifications. Each is written once when its event is seen; the daemon delivers it and retries until accepted."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from armada.store.database import Database


@dataclass(frozen=True, slots=True)
class Notification:
    """One message for one destination; `key` names the event and the destination and is unique."""

    id: int
    key: str
    kind: str
    title: str
    body: str
    created_at: float
    delivered_at: float | None
    tries: int
    next_try_at: float | None
    error: str | None

    @property
    def destination(self) -> str:
        return self.key.rpartition("@")[2]


def post(
    database: Database, *, key: str, kind: str, title: str, body: str, delivered: bool = False, now: float | None = None
) -> bool:
    """Put a message into the outbox, unless one with this key was ever there.

    Args:
        database: The store.
        key: The event and the destination.
        kind: Such as `run_failed`.
        title: One line.
        body: A few lines.
        delivered: Record the message as already delivered: the user knows, and nothing is sent.
        now: Unix time; the clock's by default.

    Returns:
        Whether the message was new.
    """
    if database.connection.execute("SELECT 1 FROM notifications WHERE key = ?", (key,)).fetchone() is not None:
        return False  # old events are found again every few seconds; this needs no lock
    moment = time.time() if now is None else now
    with database.transaction() as connection:
        written = connection.execute(
            """INSERT INTO notifications (key, kind, title, body, created_at, delivered_at) VALUES (?, ?, ?, ?, ?, ?)
               ON CONFLICT (key) DO NOTHING""",
            (key, kind, title, body, moment, moment if delivered else None),
        )
        return written.rowcount == 1


def waiting(database: Database) -> list[Notification]:
    """Return the messages neither delivered nor given up, oldest first."""
    rows = database.connection.execute("SELECT * FROM notifications WHERE delivered_at IS NULL ORDER BY id")
    return [Notification(**dict(row)) for row in rows]


def last_delivery(database: Database, kind: str, destination: str) -> float | None:
    """Return when a message of this kind last reached a destination (the part of the key after the last `@`)."""
    row = database.connection.execute(
        "SELECT max(delivered_at) FROM notifications WHERE kind = ? AND key LIKE ? AND tries > 0",
        (kind, f"%@{destination}"),
    ).fetchone()
    return float(row[0]) if row[0] is not None else None


def mark_try(database: Database, ids: Iterable[int], next_try_at: float) -> None:
    """Record an attempt before it is made, so that a daemon killed during delivery does not send the message again at once."""
    with database.transaction() as connection:
        connection.executemany(
            "UPDATE notifications SET tries = tries + 1, next_try_at = ? WHERE id = ?", [(next_try_at, i) for i in ids]
        )


def retry_at(database: Database, ids: Iterable[int], moment: float) -> None:
    """Put the next attempt at a moment, in unix time."""
    with database.transaction() as connection:
        connection.executemany("UPDATE notifications SET next_try_at = ? WHERE id = ?", [(moment, i) for i in ids])


def mark_delivered(database: Database, ids: Iterable[int], moment: float) -> None:
    with database.transaction() as connection:
        connection.executemany(
            "UPDATE notifications SET delivered_at = ?, error = NULL WHERE id = ?", [(moment, i) for i in ids]
        )


def mark_failed(database: Database, ids: Iterable[int], error: str) -> None:
    with database.transaction() as connection:
        connection.executemany("UPDATE notifications SET error = ? WHERE id = ?", [(error, i) for i in ids])


def newest(database: Database, limit: int = 50) -> list[Notification]:
    rows = database.connection.execute("SELECT * FROM notifications ORDER BY id DESC LIMIT ?", (limit,))
    return [Notification(**dict(row)) for row in rows]


def events(database: Database, limit: int = 50) -> list[Notification]:
    """Return the newest messages, newest first: of an event with several destinations one, which was sent if any was."""
    found: dict[str, Notification] = {}
    for message in newest(database, limit * 4):
        event = message.key.rpartition("@")[0] or message.key
        known = found.get(event)
        shown = message if known is None or known.delivered_at is None else known
        found[event] = replace(shown, id=message.id)  # the lowest id, which does not change when another one is sent
    return sorted(found.values(), key=lambda message: -message.id)[:limit]


def told_to(database: Database, event: str) -> dict[str, bool]:
    """Return the destinations for which an event (the part of a key before the last `@`) has messages, and whether each took its own."""
    query = "SELECT key, delivered_at FROM notifications WHERE substr(key, 1, length(?1) + 1) = ?1 || '@'"
    rows = database.connection.execute(query, (event,))
    return {row["key"][len(event) + 1 :]: row["delivered_at"] is not None for row in rows}


def any_ever(database: Database, kind: str, destination: str) -> bool:
    """Whether there ever was a message of this kind for a destination (the part of the key after the last `@`)."""
    query = "SELECT 1 FROM notifications WHERE kind = ? AND key LIKE ? LIMIT 1"
    return database.connection.execute(query, (kind, f"%@{destination}")).fetchone() is not None
