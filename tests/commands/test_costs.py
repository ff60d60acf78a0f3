"""What things cost, on the command line: `armada costs`, `ps`, `show`, `hosts ls`."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path

import pytest

from armada.paths import HomePaths
from armada.records.launch_record import LaunchRecord, write_record
from armada.store import hosts, runs
from armada.store.database import Database
from armada.verdicts.idle import Stopping
from armada.verdicts.states import Verdict
from tests.conftest import Armada

HOUR = 3600.0


@pytest.fixture
def now() -> float:
    return time.time()


def add_run(
    home: HomePaths,
    run_id: str,
    host: str,
    began: float,
    ended: float | None,
    gpus: tuple[int, ...] = (),
    **more: object,
) -> None:
    with Database(home.store) as database:
        runs.insert(database, run_id=run_id, name="q", host=host, task="sft", experiment=None, spec=dict(more))
        verdict = Verdict("running" if ended is None else "succeeded", None, None, 1, 3)
        runs.record(
            database, run_id, verdict, observed_at=began, started_at=began, ended_at=ended, gpus=json.dumps(gpus)
        )


@pytest.fixture
def home(armada: Armada, now: float) -> HomePaths:
    base = Path(armada.env["ARMADA_HOME"])
    paths = HomePaths(base / "config", base / "state")
    paths.config.mkdir(parents=True, exist_ok=True)
    paths.hosts_file.write_text(
        "hosts:\n  box: {ssh: 'me@127.0.0.1:1', price: 8 EUR}\n  per: {ssh: 'me@127.0.0.1:1', price: 2 USD per gpu}\n"
        "  free: {ssh: 'me@127.0.0.1:1'}\n"
    )
    paths.make()
    gpus = [{"index": number, "name": "A100"} for number in range(4)]
    with Database(paths.store) as database:
        hosts.record_facts(database, "box", {"gpus": gpus})
        with database.transaction() as connection:
            connection.execute("UPDATE hosts SET first_seen_at = ?", (now - 10 * HOUR,))
    add_run(paths, "a-aaaaaa", "box", now - 8 * HOUR, now - 6 * HOUR, (0, 1))
    add_run(paths, "b-bbbbbb", "per", now - 3 * HOUR, now - 2 * HOUR, (0, 1, 2))
    add_run(paths, "c-cccccc", "free", now - 3 * HOUR, now - 2 * HOUR)
    return paths


def test_a_host_that_was_stopped_is_assumed_to_cost_nothing_and_that_is_said(
    armada: Armada, home: HomePaths, now: float
) -> None:
    with Database(home.store) as database:
        hosts.record_stopping(database, "box", Stopping("gone", asked_at=now - 4 * HOUR).as_json())
    told = armada.json("costs")
    assert told["hosts"][0]["costs"] == {"EUR": pytest.approx(48, rel=1e-2)}
    assert "box has not answered since its stop command: it is assumed to cost nothing since then" in told["notes"]


def test_a_host_whose_price_is_gone_counts_only_its_runs_and_that_is_said(armada: Armada, home: HomePaths) -> None:
    home.hosts_file.write_text("hosts: {local: {local: true, price: 9 EUR}}\n")
    assert armada.run("launch", "--host", "local", armada.command("true"), "--follow").returncode == 0
    assert not any("nobody used" in note for note in armada.json("costs", "--host", "local")["notes"])
    home.hosts_file.write_text("hosts: {}\n")
    (note,) = armada.json("costs", "--host", "local")["notes"]
    assert note.startswith("local has no price in your files any more: only its runs are counted")
    assert "nobody used" in armada.run("costs").stdout
    assert "nobody used" not in armada.run("costs", "--sweep").stdout, "no sweep is on it"


@pytest.mark.usefixtures("home")
def test_a_host_costs_from_when_it_was_first_seen_and_its_idle_time_is_named(armada: Armada) -> None:
    told = armada.json("costs")
    box, free, per = told["hosts"]
    assert box["costs"] == {"EUR": pytest.approx(80, rel=1e-2)}
    assert box["runs"] == {"EUR": pytest.approx(8)}
    assert box["unused"] == {"EUR": pytest.approx(8)}
    assert box["idle"] == {"EUR": pytest.approx(64, rel=1e-2)}
    assert (free["costs"], free["unknown_s"]) == (None, pytest.approx(HOUR))
    assert per["runs"] == {"USD": pytest.approx(6)}
    assert told["total"] == {
        "EUR": pytest.approx(80, rel=1e-2)
    }  # of a box whose GPUs nobody saw, the whole is not known
    assert [each["run_id"] for each in told["runs"]] == ["c-cccccc", "b-bbbbbb", "a-aaaaaa"]
    assert any("no price is known of free: armada hosts set free --price" in note for note in told["notes"])
    shown = armada.run("costs").stdout
    assert "IDLE" in shown
    assert "64." in shown


@pytest.mark.usefixtures("home")
def test_rows_are_by_week_run_or_sweep_and_csv_has_a_currency_in_each(armada: Armada) -> None:
    rows = list(csv.DictReader(io.StringIO(armada.run("costs", "--run", "--csv").stdout)))
    assert {row["run"]: (row["currency"], row["cost"]) for row in rows} == {
        "a-aaaaaa": ("EUR", "8.0000"),
        "b-bbbbbb": ("USD", "6.0000"),
        "c-cccccc": ("", ""),
    }
    weeks = armada.json("costs")["weeks"]
    assert sum(each["runs"].get("EUR", 0) for each in weeks) == pytest.approx(8)
    assert "SWEEP" in armada.run("costs", "--sweep").stdout or "Nothing" in armada.run("costs", "--sweep").stdout
    only = armada.json("costs", "--host", "per", "--run", "b-b")
    assert [each["host"] for each in only["hosts"]] == ["per"]
    assert armada.run("costs", "--host", "nowhere").returncode == 7


def test_ps_show_and_hosts_ls_say_the_cost_and_ps_reads_no_hosts_file_for_it(armada: Armada, home: HomePaths) -> None:
    listed = {each["run_id"]: each["costs"] for each in armada.json("ps", "--cached", "--all")}
    assert listed == {"a-aaaaaa": {"EUR": 8.0}, "b-bbbbbb": {"USD": 6.0}, "c-cccccc": None}
    table = armada.run("ps", "--cached").stdout
    assert "COST" in table
    assert "8.00 EUR" in table
    home.hosts_file.write_text(home.hosts_file.read_text().replace("8 EUR", "16 CHF"))
    assert armada.json("ps", "--cached")[-1]["costs"] == {"CHF": 16.0}
    assert "16.00 CHF" in armada.run("show", "a-a").stdout
    assert armada.json("show", "a-a")["per_hour"] == {"CHF": 8.0}
    hosts_told = {each["name"]: each for each in armada.json("hosts", "ls")}
    assert hosts_told["per"]["prices"] == [{"amount": 2.0, "currency": "USD", "per": "gpu", "valid_from": None}]
    assert "2.00/GPU/h" in armada.run("hosts", "ls").stdout


def test_ps_says_of_a_sweep_what_costs_says_an_hour_of_a_box_once(armada: Armada, home: HomePaths, now: float) -> None:
    for cell in (1, 2):
        told: dict[str, object] = {"id": "grid-1", "cell": cell, "label": "", "values": {}}
        add_run(home, f"grid-1-00{cell}", "box", now - 3 * HOUR, now - 2 * HOUR, sweep=told)
    listed = armada.run("ps", "--cached", "--all").stdout
    (row,) = [line for line in listed.splitlines() if line.startswith("grid-1 (2 cells)")]
    (sweep,) = armada.json("costs")["sweeps"]
    assert sweep["costs"] == {"EUR": pytest.approx(8.0)}
    assert row.endswith(" 8.00 EUR")


def test_a_run_of_a_removed_host_costs_the_same_everywhere(armada: Armada, home: HomePaths, now: float) -> None:
    told: dict[str, object] = {"id": "grid-2", "cell": 1, "label": "", "values": {}}
    add_run(home, "d-dddddd", "gone", now - 3 * HOUR, now - 2 * HOUR)
    add_run(home, "grid-2-001", "gone", now - 3 * HOUR, now - 2 * HOUR, sweep=told)
    for run_id in ("d-dddddd", "grid-2-001"):
        write_record(home, run_id, LaunchRecord("1.0", prices=("12.40 USD",)))
    listed = {each["run_id"]: each["costs"] for each in armada.json("ps", "--cached", "--all")}
    assert listed["d-dddddd"] == armada.json("show", "d-d")["costs"] == {"USD": pytest.approx(12.4)}
    rows = armada.run("ps", "--cached", "--all").stdout.splitlines()
    assert [line.split("  ")[-1].strip() for line in rows if " gone " in line] == ["$12.40", "$12.40"]
    assert "$12.40" in armada.run("ps", "--cached", "--columns", "id,cost", "d-d").stdout
    assert "d-dddddd" in armada.run("ps", "--cached", "cost>12 host:gone").stdout
    home.hosts_file.write_text("hosts: {}\n")  # no host has a price any more
    assert "$12.40" in armada.run("ps", "--cached", "--all").stdout


def test_of_a_configured_host_without_a_price_no_launch_is_read(armada: Armada, home: HomePaths) -> None:
    write_record(home, "c-cccccc", LaunchRecord("1.0", prices=("12.40 USD",)))  # its price was taken away since
    assert {each["host"]: each["costs"] for each in armada.json("ps", "--cached", "--all")}["free"] is None
    assert armada.json("show", "c-c")["costs"] is None
    assert "c-cccccc" not in armada.run("ps", "--cached", "cost>1").stdout
    home.price_cache.write_text(json.dumps({**json.loads(home.price_cache.read_text()), "names": 3}))
    assert {each["host"]: each["costs"] for each in armada.json("ps", "--cached", "--all")}["free"] is None


def test_hosts_rm_names_the_only_run_that_stays_and_says_how_it_is_counted(armada: Armada, home: HomePaths) -> None:
    said = armada.run("hosts", "rm", "box").stdout.splitlines()
    assert said[1:] == [
        "  1 run of it: armada ps --all still lists it, armada rm a-aaaaaa --without-host forgets it",
        "  from now on `armada costs` counts only its runs, and not what nobody used of it",
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"stamps": 1}', '{"stamps": [null, null], "hosts": 3}', "\0"])
def test_a_damaged_cache_of_prices_is_made_anew(armada: Armada, home: HomePaths, text: str) -> None:
    home.price_cache.write_text(text)
    assert armada.json("ps", "--cached", "--all")[-1]["costs"] == {"EUR": 8.0}
    assert json.loads(home.price_cache.read_text())["hosts"]["box"]["is_box"] is True


@pytest.mark.usefixtures("home")
def test_a_price_is_set_replaced_and_followed_by_another(armada: Armada) -> None:
    done = armada.run("hosts", "set", "box", "--price", "2.50 EUR per gpu")
    assert done.returncode == 0
    assert "  price: 8 EUR → 2.50 EUR per gpu\n" in done.stdout
    assert armada.json("costs", "--host", "box")["hosts"][0]["runs"] == {"EUR": pytest.approx(10)}
    done = armada.run("hosts", "set", "box", "--price", "30 USD", "--price-since", "now")
    assert "  price: 2.50 EUR per gpu → price 2.50 EUR per gpu, price 30 USD since 20" in done.stdout
    box = {each["name"]: each for each in armada.json("hosts", "ls")}["box"]
    assert [(each["amount"], each["currency"]) for each in box["prices"]] == [(2.5, "EUR"), (30.0, "USD")]
    assert armada.json("costs", "--host", "box")["hosts"][0]["runs"]["EUR"] == pytest.approx(10)
    assert armada.run("hosts", "set", "box", "--price", "4").returncode == 0
    box = {each["name"]: each for each in armada.json("hosts", "ls")}["box"]
    assert (box["price_per_hour"], box["price"]) == (4.0, None)
    assert armada.run("hosts", "set", "box", "--unset", "price").returncode == 0
    box = {each["name"]: each for each in armada.json("hosts", "ls")}["box"]
    assert box["prices"] == []


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--price", "2,50 EUR"], "is not a price such as"),
        (["--price", "-1"], "--price -1: an hour costs from 0 to"),
        (["--price", "1e400"], "--price 1e400: an hour costs from 0 to"),
        (["--price-since", "now"], "needs it"),
        (["--price", "3", "--price-since", "soon"], "is not a date"),
    ],
)
def test_what_is_no_price_is_refused(armada: Armada, words: list[str], said: str) -> None:
    done = armada.run("hosts", "set", "box", *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_host_with_a_wrong_file_costs_nothing_known_in_ps(armada: Armada, home: HomePaths) -> None:
    home.hosts_file.write_text("hosts: {box: {ssh: x, price: [}}\n")
    assert armada.json("ps", "--cached", "--all")[-1]["costs"] is None


def test_a_cluster_shows_the_hours_and_the_share_of_what_was_granted(
    armada: Armada, home: HomePaths, now: float
) -> None:
    home.hosts_file.write_text(
        "hosts:\n  big: {ssh: 'me@127.0.0.1:1', scheduler: slurm, allowance: 100 gpu-hours}\n"
        "  old: {ssh: 'me@127.0.0.1:1', scheduler: slurm, price: 2 EUR per gpu, allowance: 10 node-hours since 2001-01-01}\n"
    )
    add_run(home, "d-dddddd", "big", now - 8 * HOUR, now - 3 * HOUR, (0, 1, 2, 3))
    add_run(home, "e-eeeeee", "old", now - 8 * HOUR, now - 3 * HOUR, (0, 1))
    told = armada.json("costs", "--host", "big", "--host", "old")
    assert [(each["host"], each["unit"], each["used"], each["share"]) for each in told["allowances"]] == [
        ("big", "gpu-hours", pytest.approx(20), pytest.approx(0.2)),
        ("old", "node-hours", pytest.approx(5), pytest.approx(0.5)),
    ]
    assert told["hosts"][1]["costs"] == {"EUR": pytest.approx(20)}
    assert told["hosts"][1]["idle"] is None
    assert "big: 20.0 of 100 gpu-hours (20.0 %)" in armada.run("costs").stdout


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("scheduler: slurm, allowance: many", "is not an allowance"),
        ("scheduler: slurm, allowance: 0 gpu-hours", "is not an allowance"),
        ("scheduler: slurm, allowance: 5 gpu-hours since soon", "is not a date"),
        ("allowance: 5 gpu-hours", "scheduler: slurm"),
        ("scheduler: slurm, quota: 5000 gpu-hours", "allowance: 5000 gpu-hours"),
    ],
)
def test_what_is_no_allowance_is_refused(armada: Armada, home: HomePaths, entry: str, said: str) -> None:
    home.hosts_file.write_text(f"hosts: {{big: {{ssh: 'me@127.0.0.1:1', {entry}}}}}\n")
    done = armada.run("hosts", "ls")
    assert done.returncode == 2
    assert said in done.stderr


def test_earlier_attempts_count_and_the_time_after_a_release_does_not(
    armada: Armada, home: HomePaths, now: float
) -> None:
    run_id = "f-ffffff"
    with Database(home.store) as database:
        runs.insert(database, run_id=run_id, name="q", host="box", task="sft", experiment=None, spec={})
        for attempt, state, at in ((1, "running", 3), (1, "unknown", 4), (2, "running", 1)):
            runs.record(database, run_id, Verdict(state, None, None, attempt, at), observed_at=now)
        with database.transaction() as connection:
            moments = [now - hours * HOUR for hours in (6, 5, 4, 2)]
            rows = connection.execute(
                "SELECT rowid FROM transitions WHERE run_id = ? ORDER BY rowid", (run_id,)
            ).fetchall()
            for row, moment in zip(rows, moments, strict=True):
                connection.execute("UPDATE transitions SET time = ? WHERE rowid = ?", (moment, row["rowid"]))
            connection.execute(
                "UPDATE runs SET state = 'succeeded', gpus = '[0, 1]', started_at = ?, ended_at = ? WHERE run_id = ?",
                (now - 2 * HOUR, now - HOUR, run_id),
            )
        hosts.mark_released(database, "box", now - 0.5 * HOUR)
    listed = {each["run_id"]: each["costs"] for each in armada.json("ps", "--cached", "--all")}
    assert listed[run_id] == {"EUR": pytest.approx(8)}
    assert "8.00 EUR" in armada.run("ps", run_id, "--cached", "--columns", "id,cost").stdout
    assert armada.json("costs", "--host", "box")["hosts"][0]["costs"]["EUR"] == pytest.approx(76, rel=1e-2)
    with Database(home.store) as database:
        hosts.mark_released(database, "box", None)
    assert armada.json("costs", "--host", "box")["hosts"][0]["costs"]["EUR"] == pytest.approx(76, rel=1e-2)


SAVES = "trap 'echo $ARMADA_ATTEMPT >> kept; exit 0' TERM; while :; do sleep 0.05; done"


def test_a_run_is_stopped_at_its_budget_and_a_resume_grants_it_once_more(armada: Armada) -> None:
    experiment = armada.command("sh", "-c", SAVES, budget={"hours": 0.0003}, stop_grace_s=30)
    looked = armada.run("launch", "--host", "local", experiment, "--dry-run")
    assert "ARM024" in looked.stdout
    assert "stopping alone may take `stop_grace_s`" in looked.stdout
    assert "stopped after 1 s: 0.0003 h" in looked.stdout
    done = armada.run("launch", "--host", "local", experiment, "--follow")
    assert done.returncode == 6, done.stderr
    (run,) = armada.json("ps")
    assert (run["state"], run["reason"]) == ("failed", "budget")
    assert run["message"].startswith("its budget of 0.0003 h is spent: it ran for ")
    assert f"`armada resume {run['run_id']}` grants the same once more" in run["message"]
    assert armada.run("resume", run["run_id"], "--follow").returncode == 6
    (run,) = armada.json("ps")
    assert (run["reason"], run["submission"]) == ("budget", 2)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"cost": "20 EUR"}, "no price of local is known"),
        ({"cost": "20 euros"}, "is not an amount of money"),
        ({}, "needs `cost` or `hours`"),
        ({"money": 5}, "did you mean `budget.cost`?"),
        ("20 EUR", "budget"),
    ],
)
def test_a_budget_that_cannot_be_kept_starts_nothing(armada: Armada, budget: object, said: str) -> None:
    done = armada.run("launch", "--host", "local", armada.command("true", budget=budget))
    assert done.returncode in (2, 3)
    assert said in done.stderr
    assert armada.json("ps") == []
