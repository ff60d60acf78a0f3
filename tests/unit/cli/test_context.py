"""What a command does whose store another program has locked."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from armada.cli import context
from armada.errors import Conflict
from armada.store.database import PATIENCE_S, Database


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "armada.db"
    Database(path).close()
    return path


def thief_of(store: Path) -> sqlite3.Connection:
    """Lock a store altogether, for readers, too."""
    thief = sqlite3.connect(store, isolation_level=None)
    thief.execute("PRAGMA locking_mode = EXCLUSIVE")
    thief.execute("UPDATE runs SET step = 1")
    return thief


def test_who_waits_for_a_locked_store_is_told_and_goes_on_when_it_is_free(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thief, said = thief_of(store), []

    def say(words: str) -> None:
        said.append(words)
        thief.close()

    monkeypatch.setattr(context, "say", say)
    with context.open_store(store) as database:
        assert database.connection.execute("SELECT count(*) FROM runs").fetchone()[0] == 0
    assert said == [f"another program has locked the store, {store}; waiting for up to 30 s"]


def test_a_store_that_stays_locked_is_refused_after_that(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thief = thief_of(store)
    monkeypatch.setattr(context, "say", lambda _: None)
    monkeypatch.setattr(context, "PATIENCE_S", 0.1)
    with pytest.raises(Conflict, match="another program has locked the store"):
        context.open_store(store)
    thief.close()


def test_of_a_free_store_nothing_is_said_and_it_waits_for_later_locks(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "say", pytest.fail)
    with context.open_store(store) as database:
        assert database.connection.execute("PRAGMA busy_timeout").fetchone()[0] == 1000 * PATIENCE_S
