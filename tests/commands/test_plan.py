"""`armada plan` and `launch --host auto`, with this machine as several hosts and addresses where nothing answers."""

from __future__ import annotations

import json
import time

import jsonschema
import pytest

from armada.cli.shapes import SHAPES, schema_of
from armada.store import hosts, runs
from armada.store.database import Database
from tests.conftest import Armada, eventually
from tests.together import codes, said, together


@pytest.fixture
def fleet(armada: Armada) -> Armada:
    """This machine three times, and an address that refuses connections."""
    (armada.folder / "home" / "config").mkdir(parents=True)
    here = {"local": True}
    hosts = {
        "cheap": {**here, "root": str(armada.folder / "cheap"), "price_per_hour": 1.0},
        "dear": {**here, "root": str(armada.folder / "dear"), "price_per_hour": 10.0},
        "gone": {"ssh": "me@127.0.0.1:1"},
    }
    (armada.folder / "home" / "config" / "hosts.yaml").write_text(json.dumps({"hosts": hosts}))
    return armada


def ran(armada: Armada, host: str, seconds: float) -> None:
    """Record a run of the experiment on a host, yesterday, that took so long."""
    spec = armada.json("launch", "--host", host, armada.command("true"), "--dry-run")["spec"]
    run_id = spec["run_id"]
    with Database(armada.folder / "home" / "state" / "armada.db") as database, database.transaction() as connection:
        runs.insert(database, run_id=run_id, name="test", host=host, task="command", experiment=None, spec=spec)
        connection.execute(
            """UPDATE runs SET state = 'succeeded', started_at = 1000.0, ended_at = ?, created_at = created_at - 90000
            WHERE run_id = ?""",
            (1000.0 + seconds, run_id),
        )


def known(armada: Armada) -> set[str]:
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        return {run.run_id for run in runs.every(database)}


def test_hosts_stand_side_by_side_and_nothing_is_started(fleet: Armada) -> None:
    experiment = fleet.command("echo", "hi")
    done = fleet.run("plan", experiment)
    assert done.returncode == 0, done.stderr
    heads = [line.split() for line in done.stdout.splitlines() if line.startswith(("host ", "launch "))]
    assert heads == [
        ["host", "local", "cheap", "dear", "gone"], ["launch", "possible", "possible", "possible", "unreachable"],
    ]  # fmt: skip
    assert "nothing listens" in done.stdout
    assert "echo hi" in done.stdout
    assert known(fleet) == set()
    told = fleet.json("plan", experiment, "--all-hosts")
    jsonschema.validate(told, schema_of(SHAPES["plan"]))
    assert [each["outcome"] for each in told["hosts"]] == ["possible"] * 3 + ["unreachable"]
    assert known(fleet) == set()
    assert not (fleet.folder / "cheap" / "runs").exists() or not list((fleet.folder / "cheap" / "runs").iterdir())


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--host", "gone"], 4, ""),
        (["--host", "gone", "--host", "cheap"], 0, ""),
        (["--host", "nowhere"], 7, "no host is called 'nowhere'"),
        (["--host", "cheap", "--all-hosts"], 2, "not allowed with argument"),
        (["--host", "cheap", "--set", "resources.gpuz=1"], 2, "gpuz"),
        (["--host", "cheap", "--profile", "none"], 7, "there is no profile 'none'"),
        (["--host", "cheap", "--gpus", "64", "--profile", "a100-80gb-8x"], 3, ""),
    ],
)
def test_exit_codes_are_those_of_the_table(fleet: Armada, words: list[str], code: int, message: str) -> None:
    done = fleet.run("plan", fleet.command("true"), *words, "--json")
    assert done.returncode == code, done.stderr + done.stdout
    told = json.loads(done.stdout)
    assert message in told.get("error", {}).get("message", "")
    if not message:
        assert {each["name"] for each in told["hosts"]} == {word for word in words if word in ("cheap", "gone")}


def test_plans_of_changed_code_leave_nothing_on_the_host(fleet: Armada) -> None:
    (fleet.folder / "project").mkdir()
    experiment = fleet.write("e.yaml", "name: c\ntask: command\ncommand: [python3, t.py]\ncode: project\n")
    for number in range(2):
        (fleet.folder / "project" / "t.py").write_text(f"print({number})\n")
        told = fleet.json("plan", experiment, "--host", "cheap")
        assert told["hosts"][0]["outcome"] == "possible"
    assert list((fleet.folder / "cheap").glob("code/.new-*")) == []
    assert fleet.json("launch", experiment, "--host", "cheap", "--follow")["state"] == "succeeded"


def test_a_limit_of_money_approves_no_code_that_never_ran(fleet: Armada) -> None:
    (fleet.folder / "project").mkdir()
    (fleet.folder / "project" / "t.py").write_text("print(1)\n")
    (fleet.folder / "rows.csv").write_text("1\n")
    text = "name: c\ntask: command\ncommand: [python3, t.py]\ncode: project\nfiles: {rows.csv: rows.csv}\n"
    experiment = fleet.write("e.yaml", text)
    run = fleet.json("launch", experiment, "--host", "cheap", "--follow")
    automatic = ("launch", "--host", "auto", experiment, "--max-cost", "5")
    same = fleet.run(*automatic, "--dry-run")
    assert (same.returncode, "chosen     cheap, " in same.stdout) == (0, True), same.stdout
    for changed in (fleet.folder / "project" / "t.py", fleet.folder / "rows.csv"):
        before = changed.read_text()
        changed.write_text("import time; time.sleep(100_000)\n")
        refused = fleet.run(*automatic)
        assert refused.returncode == 3
        assert f"run {run['run_id']} of this experiment had other code or data" in refused.stderr
        changed.write_text(before)
    assert known(fleet) == {run["run_id"]}


def test_the_host_that_was_fastest_before_is_taken_and_the_others_are_told_why(fleet: Armada) -> None:
    ran(fleet, "cheap", 7200)
    ran(fleet, "dear", 3600)
    before = known(fleet)
    dry = fleet.run("launch", "--host", "auto", fleet.command("true"), "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "chosen     dear, the fastest: it ends in about 1 h 00 m and costs about $10.00" in dry.stdout
    assert "cheap: it ends in 2 h 00 m, not 1 h 00 m" in dry.stdout
    assert "local: its hours are not known: no such run was recorded" in dry.stdout
    assert "gone: " in dry.stdout
    assert "about 1 h 00 m (48 m to 1 h 15 m) · $10.00 ($8.00 to $12.50)" in dry.stdout
    assert known(fleet) == before
    for words, winner in ((["--cheapest"], "cheap"), (["--max-cost", "3"], "cheap"), (["--max-cost", "12.50"], "dear")):
        said = fleet.run("launch", "--host", "auto", fleet.command("true"), *words, "--dry-run").stdout
        assert f"chosen     {winner}, " in said, words
    launched = fleet.json("launch", "--host", "auto", fleet.command("true"), "--fastest", "--follow")
    assert (launched["host"], launched["state"]) == ("dear", "succeeded")


def test_a_host_whose_budget_is_spent_is_compared_and_not_chosen(fleet: Armada) -> None:
    ran(fleet, "cheap", 3600)
    ran(fleet, "dear", 7200)
    assert fleet.run("hosts", "check", "cheap").returncode == 0
    with Database(fleet.folder / "home" / "state" / "armada.db") as database:
        hosts.was_seen_before(database, "cheap", time.time() - 7200)  # it is rented for so long
    assert fleet.run("hosts", "set", "cheap", "--budget", "1 USD").returncode == 0
    told = fleet.json("plan", fleet.command("true"), "--host", "cheap", "--host", "dear")
    jsonschema.validate(told, schema_of(SHAPES["plan"]))
    assert [each["outcome"] for each in told["hosts"]] == ["refused", "possible"]
    assert told["hosts"][0]["estimate"]["seconds"] is not None
    assert (told["cheapest"], told["fastest"]) == ("dear", "dear")
    dry = fleet.run("launch", "--host", "auto", fleet.command("true"), "--cheapest", "--dry-run")
    assert "chosen     dear, " in dry.stdout, dry.stdout + dry.stderr
    assert "cheap: cheap has cost $" in dry.stdout
    assert "and its budget is $1.00" in dry.stdout
    assert "launch   refused  " in fleet.run("plan", fleet.command("true"), "--host", "cheap", "--host", "dear").stdout


def test_a_price_per_gpu_says_nothing_of_a_run_without(fleet: Armada) -> None:
    ran(fleet, "cheap", 3600)
    assert fleet.run("hosts", "set", "cheap", "--price", "2 USD per gpu").returncode == 0
    refused = fleet.run("launch", "--host", "auto", fleet.command("true"), "--max-cost", "50", "--dry-run")
    assert "cheap: its price is per GPU, and the run holds none" in refused.stdout, refused.stdout
    assert "cost     a price per GPU" in fleet.run("plan", fleet.command("true"), "--host", "cheap").stdout


def test_where_all_lose_nothing_is_started(fleet: Armada) -> None:
    ran(fleet, "cheap", 7200)
    before = known(fleet)
    refused = fleet.run("launch", "--host", "auto", fleet.command("true"), "--max-cost", "1", "--json")
    assert refused.returncode == 3
    message = json.loads(refused.stdout)["error"]["message"]
    assert "cheap: it may cost $2.50, more than $1.00" in message
    assert "local: it has no `price`" in message
    wrong = fleet.run("launch", "--host", "auto", fleet.command("true"), "--profile", "none")
    assert (wrong.returncode, "there is no profile 'none'" in wrong.stderr) == (7, True)
    two = fleet.run("launch", "--host", "auto", fleet.command("false"))
    assert (two.returncode, "no host can be chosen, and nothing was started" in two.stderr) == (3, True)
    assert known(fleet) == before


@pytest.mark.parametrize(
    ("words", "said_"),
    [
        (["--host", "cheap", "--fastest"], "--fastest chooses a host, and goes with --host auto"),
        (["--on", "me@127.0.0.1:1", "--by", "08:00"], "--by chooses a host"),
        (["--host", "auto", "--by", "soon"], "--by takes a time of day such as 08:00"),
        (["--host", "auto", "--max-cost=-1"], "--max-cost takes an amount"),
        (["--host", "auto", "--cheapest", "--fastest"], "not allowed with argument"),
    ],
)
def test_wrong_usage_is_2_in_a_sentence(fleet: Armada, words: list[str], said_: str) -> None:
    done = fleet.run("launch", fleet.command("true"), *words, "--json")
    assert done.returncode == 2
    assert said_ in json.loads(done.stdout)["error"]["message"]


def test_a_host_that_is_called_auto_stays_that_host(fleet: Armada) -> None:
    file = fleet.folder / "home" / "config" / "hosts.yaml"
    file.write_text(json.dumps({"hosts": {"auto": {"local": True, "root": str(fleet.folder / "auto")}}}))
    launched = fleet.run("launch", "--host", "auto", fleet.command("true"), "--follow", "--json")
    assert json.loads(launched.stdout)["host"] == "auto"
    assert "auto is a host of yours; no host is chosen" in launched.stderr
    done = fleet.run("launch", "--host", "auto", fleet.command("true"), "--cheapest")
    assert (done.returncode, "a host of yours is called auto" in done.stderr) == (2, True)
    prepare = fleet.run("prepare", "--host", "auto", fleet.command("true"))
    assert (prepare.returncode, "there is no data to prepare" in prepare.stderr) == (3, True)


def test_no_new_host_can_be_called_auto(fleet: Armada) -> None:
    file = fleet.folder / "home" / "config" / "hosts.yaml"
    before = file.read_text()
    refused = fleet.run("hosts", "add", "auto", "me@127.0.0.1:1", "--yes", "--json")
    assert refused.returncode == 2
    assert json.loads(refused.stdout)["error"]["message"].startswith("no host can be called auto: ")
    on = ("launch", "--on", "me@127.0.0.1:2", fleet.command("true"), "--dry-run")
    assert "no host can be called auto" in fleet.run(*on, "--name-of-host", "auto").stderr
    assert file.read_text() == before


@pytest.fixture
def two_hosts(fleet: Armada) -> Armada:
    """Hosts of which either may be chosen; a job on them goes on until it is stopped."""
    ran(fleet, "cheap", 3600)
    ran(fleet, "dear", 3600)
    return fleet


def test_the_same_choice_twice_at_once_starts_one_run(two_hosts: Armada) -> None:
    before = known(two_hosts)
    words = ["launch", "--host", "auto", two_hosts.command("true")]
    both = together(two_hosts, words, words)
    assert codes(both) in ([0, 0], [0, 8]), [said(each) for each in both]
    # Two runs only if the second command began after the first was done.
    assert len(known(two_hosts) - before) == codes(both).count(0)


def test_a_choice_that_was_interrupted_is_continued_on_its_host(two_hosts: Armada) -> None:
    """The launch on `dear` was cut off; a figure that changed since must not start a second run on `cheap`."""
    launched = two_hosts.json("launch", "--host", "dear", two_hosts.command("true"))
    eventually(lambda: two_hosts.json("ps", "--all")[0]["state"] == "succeeded", "the end")
    with Database(two_hosts.folder / "home" / "state" / "armada.db") as database, database.transaction() as connection:
        connection.execute(
            "UPDATE operations SET state = 'failed', exit_code = 9 WHERE run_id = ?", (launched["run_id"],)
        )
    again = two_hosts.run("launch", "--host", "auto", two_hosts.command("true"), "--cheapest")
    assert again.returncode == 0, again.stderr
    assert "dear, where the same launch was interrupted" in again.stdout
    assert launched["run_id"] in again.stdout
