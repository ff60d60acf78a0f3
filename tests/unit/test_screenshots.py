"""The story behind the pictures in the documentation can still be told to the store."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from armada.paths import HomePaths
from armada.store import checkpoints, hosts, runs
from armada.store.database import Database

SCRIPT = Path(__file__).parents[2] / "docs" / "screenshots.py"


def test_its_runs_checkpoints_and_hosts_are_recorded(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("screenshots", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    screenshots = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(screenshots)
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.make()
    with Database(home.store) as database:
        screenshots.Story(home, database).tell()
        told = runs.every(database)
        assert len(told) >= 7
        assert any(checkpoints.of_run(database, run.run_id) for run in told)
        assert {run.host for run in told} <= set(screenshots.HOSTS) | {"local"}
        record = hosts.find(database, "a100-1")
        assert record is not None
        assert record.facts
