"""What `armada doctor` says of home."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from armada.doctor.home import examine_home
from armada.doctor.wiped import wiped_hosts
from armada.paths import HomePaths
from armada.store import hosts, runs
from armada.store.database import Database

if TYPE_CHECKING:
    from armada.doctor.findings import Finding


def said(home: HomePaths) -> list[tuple[str, str]]:
    report, _ = examine_home(home, home.config)
    return [(each.outcome, each.message) for each in report.findings if "notifications" in each.message]


def test_services_that_cannot_be_told_without_their_package_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.make()
    home.notifications_file.write_text('urls: ["ntfy://topic"]\n')
    home.notifications_file.chmod(0o600)
    assert said(home) == [("ok", "notifications can be sent")]
    find = importlib.util.find_spec

    def without_apprise(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "apprise" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_apprise)
    ((outcome, message),) = said(home)
    assert outcome == "warn"
    assert message.endswith("names services, but apprise is not installed: they get no notifications")


def store_of(home: HomePaths) -> Finding:
    report, _ = examine_home(home, home.config)
    return next(each for each in report.findings if each.subject == "store")


def made(tmp_path: Path) -> HomePaths:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.make()
    return home


def test_a_damaged_store_is_left_where_recover_needs_it(tmp_path: Path) -> None:
    home = made(tmp_path)
    with Database(home.store) as database:
        for number in range(200):
            values: dict[str, Any] = {
                "name": "r",
                "host": "box",
                "task": "command",
                "experiment": None,
                "spec": {"x": "y" * 500},
            }
            runs.insert(database, run_id=f"r-{number}", **values)
        size = database.connection.execute("PRAGMA page_size").fetchone()[0]
        table = database.connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").fetchone()[0]
        database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with home.store.open("r+b") as file:
        file.seek((table - 1) * size)
        file.write(b"\xff" * 200)
    found = store_of(home)
    assert (found.outcome, found.remedy) == ("fail", "armada recover")


def test_a_store_that_is_away_while_runs_are_at_home_is_rebuilt_and_none_is_normal_at_first(tmp_path: Path) -> None:
    home = made(tmp_path)
    assert store_of(home).outcome == "ok"
    home.run("r-1").mkdir(parents=True)
    found = store_of(home)
    assert (found.outcome, found.remedy) == ("fail", "armada recover")
    assert "1 folder of a run is at home" in found.message
    with Database(home.store):
        pass  # the next command makes an empty one
    found = store_of(home)
    assert (found.outcome, found.remedy) == ("warn", "armada recover")


def test_only_hosts_that_this_home_wiped_are_left_alone(tmp_path: Path) -> None:
    home = made(tmp_path)
    assert wiped_hosts(home) == {}
    assert not home.store.exists()
    with Database(home.store) as database:
        hosts.mark_released(database, "gone", 1e9)
        hosts.mark_released(database, "back", 1e9)
        hosts.mark_released(database, "back", None)
    assert list(wiped_hosts(home)) == ["gone"]
    assert wiped_hosts(home)["gone"].startswith("this home deleted everything there on 2001-09-")
    home.store.write_bytes(b"no store" * 1000)
    assert wiped_hosts(home) == {}


def test_of_two_entries_for_one_name_doctor_says_which_counts(tmp_path: Path) -> None:
    home = made(tmp_path)
    home.hosts_file.write_text("hosts:\n  box: {ssh: mine}\n  c1: {ssh: c1}\n")
    (tmp_path / "armada.yaml").write_text("hosts:\n  box: {ssh: rented}\n  c1: {ssh: c1, setup: [module load cuda]}\n")
    report, _ = examine_home(home, tmp_path)
    found = [each for each in report.findings if "armada.yaml:" in each.message]
    assert [(each.outcome, each.message.split()[0]) for each in found] == [("warn", "box:"), ("ok", "c1:")]
    assert "armada.yaml:3 counts here" in found[1].message
