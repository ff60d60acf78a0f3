"""What the hosts of a project cost counts in the daemon as it does in the project's folder."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from armada.daemon import service
from armada.daemon.service import Daemon
from armada.notifications.messenger import Messenger
from armada.paths import HomePaths
from armada.store import hosts, runs, sweeps
from armada.store.database import Database
from armada.sweeps.tending import Tending
from armada.verdicts.states import Verdict

HOUR_S = 3600.0


class Given:
    """Stands for what the daemon makes, and keeps what it gave it."""

    has_ended = False

    def __init__(self, made: list[Any], host: Any, *_: Any, **given: Any) -> None:
        self.host = host
        self.given = given
        made.append(self)

    def start(self) -> None: ...
    def wake(self) -> None: ...
    def stop(self) -> None: ...
    def join(self, timeout_s: float) -> None: ...


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    paths = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    paths.make()
    paths.daemon.mkdir()
    paths.notifications_file.write_text('urls: ["json://box"]\non: [budget_reached]\n')
    os.utime(paths.notifications_file, (0.0, 0.0))
    return paths


def running_since(database: Database, began: float, settings: dict[str, Any]) -> None:
    """A sweep with a cell on the project's host."""
    sweeps.insert(database, name="grid", title="grid", experiment=None, launch_key="k", settings=settings)
    sweeps.set_state(database, "grid", "started")
    spec = {"sweep": {"id": "grid", "cell": 1}, "experiment": {"budget": 5.0}}
    runs.insert(database, run_id="grid-001", name="g", host="box", task="command", experiment=None, spec=spec)
    database.connection.execute("UPDATE runs SET created_at = ?", (began,))
    runs.record(database, "grid-001", Verdict("running", attempt=1, seq=1), observed_at=began, started_at=began)


@pytest.mark.parametrize("afterwards", ["hosts: {}", "hosts: [broken"])
def test_a_projects_price_stops_its_sweep_and_tells_of_its_budget(
    home: HomePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, afterwards: str
) -> None:
    project = tmp_path / "armada.yaml"
    project.write_text("hosts: {box: {ssh: me@box, price: 12.40 EUR}}")
    watchers: list[Given] = []
    messengers: list[Given] = []
    monkeypatch.setattr(service, "Watcher", lambda *given, **named: Given(watchers, *given, **named))
    monkeypatch.setattr(service, "Messenger", lambda *given, **named: Given(messengers, *given, **named))
    told: list[str] = []
    with Database(home.store) as database:
        hosts.record_facts(database, "box", {}, origin=str(project))
        running_since(database, time.time() - 10 * HOUR_S, {"sweep": {"stop": {"cost": "20 EUR"}}})
        daemon = Daemon(home)
        daemon.tick(database)
        (home.hosts_file if afterwards == "hosts: {}" else project).write_text(afterwards)
        daemon.tick(database)
        asked = next(each.given["hosts"] for each in watchers if each.host.name == "box")
        session: Any = SimpleNamespace(host=SimpleNamespace(name="box"), call_all=lambda calls: [None for _ in calls])
        Tending(session, asked).look(database)
        Messenger(home, hosts=messengers[0].given["hosts"], deliver=lambda _, title, __: told.append(title)).work_once(
            database
        )
        found = sweeps.find(database, "grid")
    assert found.state == "stopped"
    assert (found.why or "").startswith("it has cost 124.")
    assert told == ["g: budget reached"]
