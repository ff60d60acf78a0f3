"""The budget of a host: the daemon stops its runs, which save before, and nothing begins there."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from armada.config.hosts import Host, load_hosts
from armada.daemon.host_budget import EVERY_S, HostBudget
from armada.daemon.host_status import HostStatusRegistry
from armada.daemon.watcher import Watcher
from armada.errors import Conflict
from armada.home import own
from armada.monitor.observe import observe
from armada.notifications.events import Continuing, Event, find_events
from armada.notifications.subject import Subject, subject_of
from armada.paths import HomePaths
from armada.protocol.homes import EnrolledHome
from armada.provision.admission import refuse_over_budget
from armada.rpc.client import Call
from armada.rpc.session import HostSession
from armada.store import hosts, runs
from armada.store.database import Database
from armada.store.queries.host_costs import why_over_budget
from armada.store.queries.tariffs import gpu_counts
from tests.conftest import Armada, eventually

HOUR = 3600.0
ENTRY = "hosts:\n  local: {{local: true, price: 10 EUR, budget: {} EUR}}\n"
BOX = "hosts: {box: {ssh: 'me@127.0.0.1:1', price: 10 EUR, budget: 100 EUR}}\n"
SLEEPS = "trap 'echo saved > kept; exit 0' TERM; while :; do sleep 0.05; done"


def rent(database: Database, hours: float) -> None:
    with database.transaction() as connection:
        connection.execute(
            "INSERT INTO hosts (name, first_seen_at) VALUES ('local', ?) ON CONFLICT (name) DO UPDATE SET first_seen_at = ?",
            (time.time() - hours * HOUR,) * 2,
        )


def test_runs_of_a_host_whose_budget_is_spent_are_stopped_and_none_begins(
    armada: Armada, home: HomePaths, database: Database
) -> None:
    home.hosts_file.write_text(ENTRY.format(100))
    run = armada.json("launch", "--host", "local", armada.command("sh", "-c", SLEEPS, stop_grace_s=30))
    host = Host(name="local", local=True, price=[{"price": "10 EUR"}], budget="100 EUR")  # type: ignore[arg-type]  # as a file has it
    with HostSession(host, home) as session:
        eventually(
            lambda: (
                observe(database, session, runs.every(database)) is not None
                and bool(runs.every(database)[0].started_at)
            )
        )
        budget = HostBudget(session)
        rent(database, 9)
        budget.look(database, time.time())
        assert why_over_budget(database, host, time.time()) is None
        rent(database, 11)
        budget.look(database, time.time())  # too soon: nothing is looked at
        assert not (home.local_root / "runs" / run["run_id"] / "stop.json").exists()
        budget.look(database, time.time() + EVERY_S + 1)
        armada.await_end(run["run_id"])
    ended = armada.json("show", run["run_id"])
    assert (ended["state"], ended["reason"]) == ("failed", "budget")
    assert ended["message"].startswith("local has cost 110.")
    assert (home.local_root / "runs" / run["run_id"] / "work/kept").read_text() == "saved\n"
    refused = armada.run("launch", "--host", "local", armada.command("true"))
    assert refused.returncode == 8
    assert "and its budget is 100.00 EUR; nothing was started" in refused.stderr
    home.hosts_file.write_text(ENTRY.format(1000))
    assert armada.run("launch", "--host", "local", armada.command("true"), "--follow").returncode == 0


def test_a_run_of_another_home_continues_and_is_named_once(
    home: HomePaths, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    rent(database, 11)
    other = {"home": {"id": "0" * 32, "label": "bob@desk", "path": "/home/bob"}}
    for run_id, spec in (("mine-1", {}), ("theirs-1", other)):
        runs.insert(database, run_id=run_id, name="n", host="local", task="command", experiment=None, spec=spec)
    with database.transaction() as connection:
        connection.execute("UPDATE runs SET state = 'running', attempt = 1, started_at = ?", (time.time() - HOUR,))
    host = Host(name="local", local=True, price=[{"price": "10 EUR"}], budget="100 EUR")  # type: ignore[arg-type]  # as a file has it
    asked: list[Call[Any]] = []
    session = SimpleNamespace(host=host, home=home, call_all=asked.extend)
    board = HostStatusRegistry()
    budget = HostBudget(session, partial(board.continue_there, "local"))  # type: ignore[arg-type]  # a stand-in that writes down what it is asked
    budget.look(database, time.time())
    budget.look(database, time.time() + EVERY_S + 1)
    assert [each.params["run_id"] for each in asked] == ["mine-1", "mine-1"]
    assert caplog.text.count("other homes launched theirs-1 of bob@desk") == 1

    def told() -> list[Event]:
        return find_events(database, time.time(), sync_failing_s=1e9, continuing=board.continuing())

    (event,) = told()
    assert (event.kind, event.goes_on) == ("budget_reached", True)
    said = (
        "local: its budget of 100.00 EUR is spent; 1 run of bob@desk continues, as another home launched it: theirs-1"
    )
    assert event.body == f"{said}\narmada stop theirs-1 --other-home"
    assert subject_of(event.kind, event.body, {"theirs-1"}, {"local"}) == Subject("host", "local", is_known=True)
    rent(database, 1)
    budget.look(database, time.time() + 2 * (EVERY_S + 1))
    assert told() == []


def become_copy(home: HomePaths) -> tuple[str, str]:
    """Make a copy of a home, as `chmod -R` does; return its former id and its id."""
    former = own(home).id
    home.home_mark.chmod(0o600)
    return former, own(home).id


def running_of(database: Database, home_id: str) -> None:
    """Record a run that another home launched and that runs."""
    original = {"home": {"id": home_id, "label": "me@laptop", "path": "/"}}
    runs.insert(database, run_id="r-1", name="n", host="local", task="command", experiment=None, spec=original)
    with database.transaction() as connection:
        connection.execute("UPDATE runs SET state = 'running', attempt = 1, started_at = ?", (time.time() - HOUR,))


def test_after_chmod_of_its_home_a_hosts_budget_still_stops_the_runs_it_launched_before(
    armada: Armada, home: HomePaths, database: Database, tmp_path: Path
) -> None:
    home.hosts_file.write_text(ENTRY.format(100).replace("true,", f"true, root: {tmp_path / 'root'},"))
    run = armada.json("launch", "--host", "local", armada.command("sh", "-c", SLEEPS, stop_grace_s=30))
    host = load_hosts(home)["local"]
    former, _ = become_copy(home)
    become_copy(home)
    rent(database, 11)
    found: list[Continuing] = []

    def tell(told: Sequence[Continuing]) -> None:
        found[:] = told

    with HostSession(host, home) as session:
        eventually(
            lambda: (
                observe(database, session, runs.every(database)) is not None
                and bool(runs.every(database)[0].started_at)
            )
        )
        budget = HostBudget(session, tell)
        budget.look(database, time.time())  # its original may still be there
        assert [(each.run_ids, each.is_former) for each in found] == [((run["run_id"],), True)]
        forgotten = armada.run("hosts", "forget-home", "local", former[:8])
        assert forgotten.returncode == 0, forgotten.stderr
        budget.look(database, time.time() + EVERY_S + 1)
        assert found, "this home is not registered there yet"
        assert armada.run("sync", "now", run["run_id"]).returncode == 0
        budget.look(database, time.time() + 2 * (EVERY_S + 1))
        assert not found
        ended = tmp_path / "root/runs" / run["run_id"] / "state.json"
        eventually(lambda: json.loads(ended.read_text())["state"] == "failed", "the end of the run")
    assert armada.json("show", run["run_id"])["reason"] == "budget"


@pytest.mark.parametrize(
    ("homes", "is_stopped"),
    [
        (("former",), False),
        (("former", "here"), False),  # its silence says nothing
        ((), False),  # an absence alone says nothing, either
        (("here",), True),  # `armada hosts forget-home`
    ],
)
def test_a_copy_stops_its_originals_runs_only_once_a_person_said_that_it_is_gone(
    home: HomePaths, database: Database, homes: Sequence[str], *, is_stopped: bool
) -> None:
    home.make()
    former, here = become_copy(home)
    rent(database, 11)
    running_of(database, former)
    stopped: list[str] = []
    registered = tuple(EnrolledHome(id={"former": former, "here": here}[each]) for each in homes)

    def answer(asked: Sequence[Call[Any]]) -> list[Any]:
        if asked[0].method == "run.stop":
            stopped.extend(str(each.params["run_id"]) for each in asked)
            return [None for _ in asked]
        return [SimpleNamespace(runs=[SimpleNamespace(run_id="r-1", homes=registered)])]

    host = Host(name="local", local=True, root="/x", price=[{"price": "10 EUR"}], budget="100 EUR")  # type: ignore[arg-type]  # as a file has it
    session: Any = SimpleNamespace(host=host, home=home, call_all=answer)
    told: list[Continuing] = []
    HostBudget(session, told.extend).look(database, time.time())
    assert (stopped, [each.run_ids for each in told]) == ((["r-1"], []) if is_stopped else ([], [("r-1",)]))


def test_a_copy_leaves_the_runs_of_its_original_within_its_own_folder_alone(
    home: HomePaths, database: Database
) -> None:
    home.make()
    former, _ = become_copy(home)
    rent(database, 11)
    running_of(database, former)
    host = Host(name="local", local=True, price=[{"price": "10 EUR"}], budget="100 EUR")  # type: ignore[arg-type]  # as a file has it
    asked: list[Call[Any]] = []
    session: Any = SimpleNamespace(host=host, home=home, call_all=asked.extend)
    HostBudget(session).look(database, time.time() + EVERY_S + 1)
    assert not asked


def test_a_gpu_that_breaks_makes_no_hour_cheaper_and_gives_no_budget_back(database: Database) -> None:
    price = [{"price": "2.5 EUR per gpu"}]
    host = Host(name="local", local=True, price=price, budget="100 EUR")  # type: ignore[arg-type]  # as a file has it
    rent(database, 100)
    now = time.time()
    facts: list[dict[str, object]] = [{"gpus": [{}] * 8}, {"gpus": [], "gpu_trouble": "it hangs"}, {"gpus": [{}] * 4}]
    for told in facts:
        hosts.record_facts(database, "local", told)
        assert gpu_counts(database) == {"local": 8}
        assert why_over_budget(database, host, now) == "local has cost 2,000 EUR, and its budget is 100.00 EUR"


def test_nothing_begins_under_a_budget_where_nobody_can_tell_what_the_host_costs(database: Database) -> None:
    price = [{"price": "2.5 EUR per gpu"}]
    host = Host(name="local", local=True, price=price, budget="100 EUR")  # type: ignore[arg-type]  # as a file has it
    refuse_over_budget(database, host)  # it was never asked
    hosts.record_facts(database, "local", {"gpus": [], "gpu_trouble": "it hangs"})
    with pytest.raises(Conflict, match="its budget cannot be kept"):
        refuse_over_budget(database, host)
    hosts.record_facts(database, "local", {"gpus": [{}]})
    refuse_over_budget(database, host)


def test_a_watcher_stops_them(armada: Armada, home: HomePaths, database: Database) -> None:
    home.hosts_file.write_text(ENTRY.format(100))
    run = armada.json("launch", "--host", "local", armada.command("sh", "-c", SLEEPS, stop_grace_s=30))
    rent(database, 11)
    watcher = Watcher(load_hosts(home)["local"], home, HostStatusRegistry())
    watcher.look(database)
    watcher.close()
    armada.await_end(run["run_id"])
    assert armada.json("show", run["run_id"])["reason"] == "budget"


def test_a_sweep_says_why_its_cells_do_not_begin_and_what_to_do(
    armada: Armada, home: HomePaths, database: Database
) -> None:
    home.hosts_file.write_text(ENTRY.format(100))
    experiment = armada.command("sh", "-c", SLEEPS, stop_grace_s=30)
    sweep = armada.json("sweep", experiment, "--host", "local", "--grid", "env.X=1,2", "--parallel", "1")["sweep"]
    rent(database, 11)
    shown = armada.run("sweep", "show", sweep, "--cached").stdout
    assert "⚠ local has cost 110" in shown
    assert f"armada hosts set local --budget MONEY raises it; then armada sweep retry {sweep} --reason budget" in shown
    (spent,) = armada.json("sweep", "show", sweep, "--cached")["spent_budgets"]
    assert (spent["host"], spent["why"][:18]) == ("local", "local has cost 110")
    with HostSession(load_hosts(home)["local"], home) as session:
        HostBudget(session).look(database, time.time())
    for run_id in (f"{sweep}-001", f"{sweep}-002"):
        armada.await_end(run_id)
        assert armada.json("show", run_id)["reason"] == "budget"
    home.hosts_file.write_text(ENTRY.format(1000))
    assert "has cost" not in armada.run("sweep", "show", sweep, "--cached").stdout
    assert armada.json("sweep", "show", sweep, "--cached")["spent_budgets"] == []
    assert armada.json("sweep", "retry", sweep, "--reason", "budget")["left"] == {}
    assert armada.run("sweep", "stop", sweep, "--grace", "0").returncode == 0


def test_another_box_of_the_same_name_has_its_whole_budget(armada: Armada, home: HomePaths, database: Database) -> None:
    home.hosts_file.write_text(BOX)
    host = load_hosts(home)["box"]
    month_ago = time.time() - 30 * 24 * HOUR
    hosts.record_facts(database, "box", {"gpus": [{}]})
    hosts.was_seen_before(database, "box", month_ago)
    runs.insert(database, run_id="old-1", name="old", host="box", task="command", experiment=None, spec={})
    with database.transaction() as connection:
        connection.execute(
            "UPDATE runs SET state = 'succeeded', attempt = 1, created_at = ?, started_at = ?, ended_at = ?",
            (month_ago, month_ago, month_ago + 20 * HOUR),
        )
    hosts.mark_released(database, "box", month_ago + 20 * HOUR)
    assert why_over_budget(database, host, time.time()) is not None
    assert "counts only its runs" in armada.run("hosts", "rm", "box").stdout

    home.hosts_file.write_text(BOX)
    assert why_over_budget(database, host, time.time()) is None  # nobody asked it yet
    refuse_over_budget(database, host)
    hosts.record_facts(database, "box", {"gpus": [{}]})
    assert why_over_budget(database, host, time.time() + 9 * HOUR) is None
    assert why_over_budget(database, host, time.time() + 11 * HOUR) is not None
    told = armada.json("costs")
    (box,) = told["hosts"]
    assert box["costs"] == {"EUR": pytest.approx(200, abs=1)}
    assert box["idle_s"] == pytest.approx(0, abs=60)
    assert any(note.startswith("box is counted since 2") for note in told["notes"])


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("budget: 100 EUR", "needs a `price` in the same currency"),
        ("price: 3 USD, budget: 100 EUR", "needs a `price` in the same currency; the newest is in USD"),
        (
            "price: [{price: 3 EUR}, {price: 4 USD, since: 2026-01-01}], budget: 100 EUR",
            "needs a `price` in the same currency; the newest is in USD",
        ),
        ("price: 3 EUR, budget: much", "is not an amount of money"),
        ("price: 3 EUR, budget: 0 EUR", "must be more than 0"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(armada: Armada, home: HomePaths, entry: str, said: str) -> None:
    home.hosts_file.write_text(f"hosts: {{box: {{ssh: 'me@127.0.0.1:1', {entry}}}}}\n")
    done = armada.run("hosts", "ls")
    assert done.returncode == 2
    assert said in done.stderr
