"""A store with one run, of which hosts say something."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.store import runs
from armada.store.database import Database


@pytest.fixture
def database(tmp_path: Path) -> Database:
    database = Database(tmp_path / "store.db")
    runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="sft", experiment=None, spec={})
    return database
