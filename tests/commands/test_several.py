"""`stop`, `rm` and `pull` of several runs: all words are right before anything is done, and one failure stops no other."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from armada.cli.shapes import SHAPES, schema_of
from armada.paths import HomePaths
from armada.store import runs
from armada.store.database import Database
from tests.commands.saved_run import save_and_end
from tests.conftest import Armada
from tests.waiting import eventually


def check(printed: object, shape: str) -> None:
    jsonschema.validate(printed, schema_of(SHAPES[shape]))


def launch(armada: Armada, name: str, *argv: str) -> str:
    found: str = armada.json("launch", "--host", "local", armada.command(*argv, name=name))["run_id"]
    return found


def states(armada: Armada) -> dict[str, str]:
    return {run["name"]: run["state"] for run in armada.json("ps")}


def test_several_runs_are_stopped_and_each_has_a_line(armada: Armada) -> None:
    ended = launch(armada, "ended", "true")
    armada.await_end(ended)
    first, second = (launch(armada, name, "sleep", "600") for name in ("first", "second"))
    done = armada.run("stop", first, ended, second, "--grace", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == [
        f"{first}: – cancelled: killed_by_user",
        f"{ended}: ✓ succeeded (it had already ended)",
        f"{second}: – cancelled: killed_by_user",
    ]
    told = armada.json("stop", first, second)
    check(told, "stop RUN RUN")
    assert [(run["run_id"], run["state"]) for run in told] == [(first, "cancelled"), (second, "cancelled")]
    check(armada.json("stop", first), "stop")


def test_all_runs_are_told_to_stop_before_the_end_of_one_is_awaited(armada: Armada) -> None:
    """The first run ends only after the second was told: its trap waits for what the second writes."""
    place = armada.folder
    waits = f"trap 'until [ -e {place}/b ]; do sleep 0.1; done; touch {place}/a; exit 0' TERM; touch {place}/up-a"
    writes = f"trap 'touch {place}/b; exit 0' TERM; touch {place}/up-b"
    runs = [
        launch(armada, name, "sh", "-c", f"{script}; while :; do sleep 0.1; done")
        for name, script in (("waits", waits), ("writes", writes))
    ]
    eventually(lambda: (place / "up-a").exists() and (place / "up-b").exists(), "both traps")
    assert armada.run("stop", *runs, "--grace", "20").returncode == 0
    assert (place / "a").exists()


@pytest.mark.parametrize("verb", ["stop", "rm", "pull"])
def test_one_wrong_word_keeps_everything_from_being_done(armada: Armada, verb: str) -> None:
    one, other = (launch(armada, name, "true") for name in ("twin-1", "twin-2"))
    for run_id in (one, other):
        armada.await_end(run_id)
    done = armada.run(verb, one, "nothing", "twin", other, other[:-1], one, "--json")
    assert done.returncode == 7
    told = json.loads(done.stdout)["error"]
    assert told["kind"] == "NotFound"
    assert told["message"].splitlines() == [
        "no run's id begins with 'nothing'",
        f"'twin' matches several run ids: {', '.join(sorted((one, other)))}",
        f"{other!r} and {other[:-1]!r} are both {other}",
        f"{one} is named twice",
        "Nothing was done.",
    ]
    assert done.stderr.startswith(f"armada: {told['message']}\n  → armada ps lists them; ")
    assert set(states(armada)) == {"twin-1", "twin-2"}


def test_a_run_that_cannot_be_removed_keeps_no_other_from_being_removed(armada: Armada) -> None:
    first, second, third = (launch(armada, name, "true") for name in ("first", "second", "third"))
    busy = launch(armada, "busy", "sleep", "600")
    for run_id in (first, second, third):
        armada.await_end(run_id)
    assert armada.run("sync", "now").returncode == 0
    previewed = armada.run("rm", first, second, "--dry-run")
    assert previewed.returncode == 0, previewed.stderr
    assert [line.split()[0] for line in previewed.stdout.splitlines()] == [first, second]
    done = armada.run("rm", first, busy, second)
    assert done.returncode == 8
    assert done.stdout.splitlines() == [f"{first} forgotten", f"{second} forgotten"]
    assert done.stderr.splitlines() == [
        f"armada: {busy} is running",
        f"  → armada stop {busy}",
        "armada: not completed for 1 of 3 runs",
    ]
    told = armada.json("rm", busy, third, rc=8)
    check(told, "rm RUN RUN")
    assert [(each["run_id"], "error" in each) for each in told] == [(busy, True), (third, False)]
    assert told[0]["error"]["kind"] == "Conflict"
    assert list(states(armada)) == ["busy"]


def test_each_of_several_pulled_checkpoints_has_its_own_folder(armada: Armada) -> None:
    first, second = save_and_end_twice(armada)
    target = armada.folder / "copies"
    done = armada.run("pull", first, second, "--checkpoint", "best", "--to", str(target))
    assert done.returncode == 0, done.stderr
    assert sorted(place.name for place in target.iterdir()) == sorted((first, second))
    assert (target / first / "model.bin").read_bytes() == b"20" * 1000
    assert done.stdout.splitlines()[-2:] == [
        f"{run_id}: 1 checkpoint brought home and verified, 1 at home" for run_id in (first, second)
    ]
    again = armada.json("pull", first, second, "--to", str(target), rc=8)
    check(again, "pull RUN RUN")
    assert [each["error"]["kind"] for each in again] == ["Conflict", "Conflict"]
    whole = armada.json("pull", first, second)
    check(whole, "pull RUN RUN")
    assert all(len(each["home"]) > 1 for each in whole)
    single = armada.json("pull", first, "--to", str(armada.folder / "alone"))
    assert Path(single["copied"]) == armada.folder / "alone"


def save_and_end_twice(armada: Armada) -> tuple[str, str]:
    first = save_and_end(armada)
    second: str = armada.json("launch", "--host", "local", "exp.yaml", "--set", "name=other")["run_id"]
    armada.await_end(second)
    return first, second


def test_a_dead_host_keeps_no_run_of_another_from_being_removed(armada: Armada) -> None:
    alive = launch(armada, "alive", "true")
    armada.await_end(alive)
    armada.json("sync", "now")
    home = HomePaths(armada.folder / "home" / "config", armada.folder / "home" / "state")
    home.make()
    home.hosts_file.write_text("hosts:\n  box: {ssh: me@127.0.0.1:1}\n")
    with Database(home.store) as database:
        for run_id in ("box-aaaaaa", "box-bbbbbb"):
            runs.insert(database, run_id=run_id, name="b", host="box", task="command", experiment=None, spec={})
            runs.set_state(database, run_id, "succeeded")
    told = armada.json("rm", "box-a", alive, "box-b", rc=4)
    check(told, "rm RUN RUN")
    assert [(each["run_id"], each.get("error", {}).get("exit_code")) for each in told] == [
        ("box-aaaaaa", 4),
        (alive, None),
        ("box-bbbbbb", 4),
    ]
