"""A launch keeps a record of what it sends; a disk that refuses it does not stop the launch."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from armada.launch import keep
from armada.paths import HomePaths
from armada.records.launch_record import KeptEnvironment, LaunchRecord, keep_content, read_record, write_record
from armada.store.database import Database

if TYPE_CHECKING:
    from armada.foundation.progress import Progress
    from armada.launch.plans.plan import Plan


class Said:
    """Collects what a launch says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def stage(self, name: str, words: str) -> None:
        self.lines.append(f"{name} {words}")


def test_a_disk_that_refuses_the_record_is_only_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.make()
    home.run("run-1").write_text("a file in the way")
    record = LaunchRecord("1", contents=(keep_content("code", "0" * 64, tmp_path, []),))
    monkeypatch.setattr(keep, "record_of", lambda _: record)
    said = Said()
    with Database(home.store) as database:
        keep.keep_launch(database, home, cast("Plan", SimpleNamespace(run_id="run-1")), cast("Progress", said))
    assert len(said.lines) == 1
    assert "could not be kept" in said.lines[0]


def test_what_the_host_installed_is_added_to_the_record(tmp_path: Path) -> None:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    keep.keep_packages(home, "run-1", "torch==2")
    assert read_record(home, "run-1") is None
    write_record(home, "run-1", LaunchRecord("1", environment=KeptEnvironment("abc")))
    keep.keep_packages(home, "run-1", None)
    keep.keep_packages(home, "run-1", "torch==2")
    record = read_record(home, "run-1")
    assert record is not None
    assert record.environment == KeptEnvironment("abc", installed="torch==2")
