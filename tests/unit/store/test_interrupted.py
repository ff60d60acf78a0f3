"""Ctrl-C while a transaction begins or ends leaves no lock behind, and no half of one."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from armada.store import runs
from armada.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Sequence


class Interrupted:
    """A connection whose statement is interrupted as Python sees it: once the statement was carried out."""

    def __init__(self, connection: sqlite3.Connection, statement: str) -> None:
        self._connection = connection
        self._statement = statement

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def close(self) -> None:
        self._connection.close()

    def execute(self, statement: str, *values: Sequence[str | float | None]) -> sqlite3.Cursor:
        cursor = self._connection.execute(statement, *values)
        if statement == self._statement:
            self._statement = ""
            raise KeyboardInterrupt
        return cursor


@pytest.mark.parametrize(("statement", "is_written"), [("BEGIN IMMEDIATE", False), ("COMMIT", True)])
def test_ctrl_c_at_a_transactions_edge_leaves_no_lock(tmp_path: Path, statement: str, *, is_written: bool) -> None:
    with Database(tmp_path / "armada.db") as database, Database(tmp_path / "armada.db", patience_s=0.0) as another:
        connection = database.connection
        database.connection = cast("sqlite3.Connection", Interrupted(connection, statement))
        with pytest.raises(KeyboardInterrupt):
            runs.insert(database, run_id="r-1", name="r", host="h", task="command", experiment=None, spec={})
        assert not connection.in_transaction
        assert runs.is_known(another, "r-1") is is_written
        runs.insert(another, run_id="r-2", name="r", host="h", task="command", experiment=None, spec={})


def test_a_commit_that_fails_leaves_no_lock(tmp_path: Path) -> None:
    class Full(Interrupted):
        def execute(self, statement: str, *values: Sequence[str | float | None]) -> sqlite3.Cursor:
            if statement == "COMMIT":
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(statement, *values)

    with Database(tmp_path / "armada.db") as database:
        connection = database.connection
        database.connection = cast("sqlite3.Connection", Full(connection, ""))
        with pytest.raises(sqlite3.OperationalError), database.transaction():
            pass
        assert not connection.in_transaction
