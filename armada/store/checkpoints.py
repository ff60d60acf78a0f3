"""Records of checkpoints: those in a host's outbox and those verified at home."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.store import places

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from armada.protocol.records import Checkpoint as Listed
    from armada.store.database import Database


NEVER_CAME = "gone from the host before it came home"
WAS_HOME = "was home, is no longer here, and is gone from the host"
"""The two values of `trouble` for a checkpoint that exists neither at home nor on its host."""
UNREAD = "only its names and sizes were compared, its bytes were not read"
"""The value of `trouble` for a folder at home that `armada recover --sizes-only` recognised: nothing relies on it yet."""

_ON_HOST = "SELECT digest FROM checkpoints WHERE run_id = ? AND on_host"
_TO_COME = _ON_HOST + " AND home_path IS NULL AND trouble IS NULL"
_IS_THERE = "on_host = 1, trouble = CASE WHEN trouble IN (?, ?) THEN NULL ELSE trouble END"
_WITHDRAW_END = "UPDATE run_sync SET final_done = 0, next_due_at = NULL WHERE run_id = ? AND final_done"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint, identified by the digest of its manifest.

    `home_path` is set once every byte of it was verified at home, or with `UNREAD` in `trouble`. `pinned` means that a
    user asked for it by name: it stays at home, complete, whatever the settings say. `attempt` is the run's attempt that
    wrote it first; None where an older agent did not say it.
    """

    run_id: str
    digest: str
    step: int
    size_bytes: int
    file_count: int
    created_at: float | None
    on_host: bool
    home_path: Path | None
    verified_at: float | None
    acknowledged_at: float | None
    trouble: str | None
    pinned: bool = False
    attempt: int | None = None

    @property
    def is_good_home(self) -> bool:
        """Whether the copy at home was verified and no damage was found since."""
        return self.home_path is not None and self.trouble is None

    @property
    def is_unread(self) -> bool:
        """Whether the copy at home has the right names and sizes, and nobody read it."""
        return self.home_path is not None and self.trouble == UNREAD

    @property
    def nowhere(self) -> str | None:
        """Why the checkpoint exists neither at home nor on its host; None while either has it."""
        if self.on_host or self.home_path is not None:
            return None
        return (
            self.trouble if self.trouble in (NEVER_CAME, WAS_HOME) else WAS_HOME if self.acknowledged_at else NEVER_CAME
        )


def of_run(database: Database, run_id: str) -> list[Checkpoint]:
    """Return all known checkpoints of a run, ordered by step."""
    rows = database.connection.execute(
        "SELECT * FROM checkpoints WHERE run_id = ? ORDER BY step, created_at", (run_id,)
    )
    found = []
    for row in rows:
        values: dict[str, Any] = dict(row)
        values["on_host"], values["pinned"] = bool(values["on_host"]), bool(values["pinned"])
        values["home_path"] = places.read(database, values["home_path"]) if values["home_path"] else None
        found.append(Checkpoint(**values))
    return found


def newest_step(database: Database, run_id: str, *, since: float) -> int:
    """Return the highest step of the checkpoints saved since a time, wherever they are now; -1 if there are none."""
    query = "SELECT coalesce(max(step), -1) FROM checkpoints WHERE run_id = ? AND created_at >= ?"
    return int(database.connection.execute(query, (run_id, since)).fetchone()[0])


def record_outbox(
    database: Database, run_id: str, entries: Iterable[Listed], *, unreadable: Iterable[str] = ()
) -> None:
    """Record what the host's outbox contains now. Checkpoints that are in neither list are marked as not on the host.

    One that was not there before, and is to come home, withdraws the end of the run's syncs.

    Args:
        database: The store.
        run_id: The run.
        entries: The finished checkpoints there.
        unreadable: Digests of those whose manifest cannot be read there: they are there all the same.
    """
    with database.transaction() as connection:
        if connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone() is None:
            return
        before = {digest for (digest,) in connection.execute(_ON_HOST, (run_id,))}
        connection.execute("UPDATE checkpoints SET on_host = 0 WHERE run_id = ?", (run_id,))
        connection.executemany(
            f"""INSERT INTO checkpoints (run_id, digest, step, size_bytes, file_count, created_at, attempt)
                VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, digest) DO UPDATE SET
                attempt = coalesce(excluded.attempt, checkpoints.attempt), {_IS_THERE}""",  # noqa: S608  # ours
            [
                (
                    run_id,
                    e.digest,
                    e.step,
                    e.size_bytes,
                    e.file_count,
                    e.created_at,
                    e.attempt,
                    NEVER_CAME,
                    WAS_HOME,
                )
                for e in entries
            ],
        )
        connection.executemany(
            f"UPDATE checkpoints SET {_IS_THERE} WHERE run_id = ? AND digest = ?",  # noqa: S608  # ours
            [(NEVER_CAME, WAS_HOME, run_id, digest) for digest in unreadable],
        )
        connection.execute(
            """UPDATE checkpoints SET trouble = CASE WHEN acknowledged_at IS NULL THEN ? ELSE ? END
               WHERE run_id = ? AND NOT on_host AND home_path IS NULL AND trouble IS NULL""",
            (NEVER_CAME, WAS_HOME, run_id),
        )
        if not {digest for (digest,) in connection.execute(_TO_COME, (run_id,))} <= before:
            connection.execute(_WITHDRAW_END, (run_id,))


def mark_home(database: Database, run_id: str, digest: str, home_path: Path) -> None:
    """Record that a checkpoint is at home. Called last, when every byte is verified and has its final name."""
    with database.transaction() as connection:
        connection.execute(
            "UPDATE checkpoints SET home_path = ?, verified_at = ?, trouble = NULL WHERE run_id = ? AND digest = ?",
            (places.write(database, home_path), time.time(), run_id, digest),
        )


def adopt(
    database: Database,
    run_id: str,
    digest: str,
    *,
    step: int,
    size_bytes: int,
    file_count: int,
    created_at: float | None,
    home_path: Path,
    attempt: int | None = None,
    is_read: bool = True,
) -> None:
    """Record a checkpoint found at home, whatever was recorded of it before: verified, or `UNREAD`."""
    with database.transaction() as connection:
        connection.execute(
            """INSERT INTO checkpoints
               (run_id, digest, step, size_bytes, file_count, created_at, attempt, on_host, home_path, verified_at, trouble)
               VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?) ON CONFLICT (run_id, digest) DO UPDATE SET
               home_path = excluded.home_path, verified_at = excluded.verified_at, trouble = excluded.trouble""",
            (
                run_id,
                digest,
                step,
                size_bytes,
                file_count,
                created_at,
                attempt,
                places.write(database, home_path),
                time.time() if is_read else None,
                None if is_read else UNREAD,
            ),
        )


def pin(database: Database, run_id: str, digest: str) -> None:
    with database.transaction() as connection:
        connection.execute("UPDATE checkpoints SET pinned = 1 WHERE run_id = ? AND digest = ?", (run_id, digest))


def is_pinned(database: Database, run_id: str, digest: str) -> bool:
    query = "SELECT pinned FROM checkpoints WHERE run_id = ? AND digest = ?"
    row = database.connection.execute(query, (run_id, digest)).fetchone()
    return row is not None and bool(row["pinned"])


def mark_acknowledged(database: Database, run_id: str, digest: str) -> None:
    with database.transaction() as connection:
        connection.execute(
            "UPDATE checkpoints SET acknowledged_at = ? WHERE run_id = ? AND digest = ?", (time.time(), run_id, digest)
        )


def mark_trouble(database: Database, run_id: str, digest: str, trouble: str | None) -> None:
    """Record what is wrong with a checkpoint; None: nothing any more."""
    with database.transaction() as connection:
        connection.execute(
            "UPDATE checkpoints SET trouble = ? WHERE run_id = ? AND digest = ?", (trouble, run_id, digest)
        )


def mark_not_home(database: Database, run_id: str, digest: str, trouble: str | None) -> None:
    """Record that the folder at home is gone, deleted by retention or by a person. This also unpins the checkpoint.

    If it is to come again from its host, that withdraws the end of the run's syncs.
    """
    with database.transaction() as connection:
        connection.execute(
            """UPDATE checkpoints SET home_path = NULL, verified_at = NULL, trouble = ?, pinned = 0
               WHERE run_id = ? AND digest = ?""",
            (trouble, run_id, digest),
        )
        if connection.execute(_TO_COME + " AND digest = ?", (run_id, digest)).fetchone() is not None:
            connection.execute(_WITHDRAW_END, (run_id,))


def mark_off_host(database: Database, run_id: str, digest: str) -> None:
    with database.transaction() as connection:
        connection.execute("UPDATE checkpoints SET on_host = 0 WHERE run_id = ? AND digest = ?", (run_id, digest))
