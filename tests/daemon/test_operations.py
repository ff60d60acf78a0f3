"""What takes time is a row with a process; a killed launch is continued by the same command, and starts one job."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from armada.daemon.variables import environment
from armada.errors import OutcomeUnknown
from armada.foundation import process_identity
from armada.paths import HomePaths
from armada.store import operations as records
from armada.store import running_operations, runs
from armada.store.database import Database
from tests import moments
from tests.chance import dice
from tests.conftest import Armada
from tests.waiting import eventually


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "state" / "armada.db")


def test_an_operation_shows_its_step_and_its_end(database: Database) -> None:
    with running_operations.operation(database, kind="pull", host="box", argv=["armada", "pull", "x"]) as progress:
        progress.step("pull", "\x1b[31mcheckpoint-3", done=10, total=100, rate=5.0)
        progress.concerns("x-aaaaaa")
        (row,) = records.running(database)
        assert running_operations.is_alive(row)
        assert (row.step, row.done_bytes, row.total_bytes, row.rate) == ("pull", 10, 100, 5.0)
        assert row.run_id == "x-aaaaaa"
        assert "\x1b" not in (row.message or "")
    (row,) = records.recent(database)
    assert (row.state, row.exit_code, row.argv) == ("done", 0, ("armada", "pull", "x"))
    assert row.ended_at is not None


def test_an_operation_records_who_asked_for_it(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_operations.operation(database, kind="one", argv=[]):
        pass
    monkeypatch.setenv(running_operations.BY, "mcp\x1b[31m" + "x" * 100)
    with running_operations.operation(database, kind="two", argv=[]):
        pass
    with running_operations.called_by("api"), running_operations.operation(database, kind="three", argv=[]):
        pass
    by = {each.kind: each.by for each in records.recent(database)}
    assert (by["one"], by["three"]) == (None, "api")
    assert by["two"] is not None
    assert by["two"].startswith("mcp\ufffd")
    assert len(by["two"]) == 40
    assert running_operations.BY not in environment(os.environ, HomePaths(Path("/h/config"), Path("/h/state")))


def test_progress_is_written_at_most_twice_a_second_but_a_new_step_at_once(database: Database) -> None:
    now = [0.0]
    with running_operations.operation(database, kind="pull", argv=[], monotonic=lambda: now[0]) as progress:
        progress.step("pull", "one")
        now[0] = 0.3
        progress.step("pull", "two")
        assert records.running(database)[0].message == "one"
        progress.step("verify", "three")
        assert records.running(database)[0].message == "three"
        now[0] = 0.9
        progress.step("verify", "four")
        assert records.running(database)[0].message == "four"


def test_an_operation_that_fails_keeps_its_exit_code(database: Database) -> None:
    with (
        pytest.raises(OutcomeUnknown),
        running_operations.operation(database, kind="launch", argv=["armada", "launch"]),
    ):
        raise OutcomeUnknown("who knows")
    with (
        pytest.raises(KeyboardInterrupt),
        running_operations.operation(database, kind="launch", argv=["armada", "other"]),
    ):
        raise KeyboardInterrupt
    found = {row.state: row for row in records.recent(database)}
    assert found["failed"].exit_code == 9
    assert found["interrupted"].exit_code == 130
    assert [row.state for row in running_operations.unfinished(database, found["failed"].started_at)] == ["failed"]


def test_an_operation_whose_process_was_killed_is_broken_off(database: Database) -> None:
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        told = process_identity.Process(sleeper.pid, _start_time(sleeper.pid), process_identity.boot_id())
        records.begin(
            database,
            id="launch-1",
            kind="launch",
            run_id=None,
            host="box",
            argv=("armada", "launch"),
            pid=told.pid,
            start_time=told.start_time,
            boot_id=told.boot_id,
        )
        assert running_operations.broken(database) == []
        sleeper.kill()
        eventually(lambda: running_operations.broken(database))  # not waited for yet: a zombie is gone, too
    (row,) = running_operations.settle(database)
    assert records.find(database, row.id).state == "interrupted"  # type: ignore[union-attr]
    assert [each.id for each in running_operations.unfinished(database, row.started_at)] == ["launch-1"]


def test_a_pid_that_was_given_to_another_process_or_boot_is_not_the_same(database: Database) -> None:
    me = process_identity.current()
    assert process_identity.lives(me)
    assert not process_identity.lives(process_identity.Process(me.pid, "1", me.boot_id))
    assert not process_identity.lives(process_identity.Process(me.pid, me.start_time, "another boot"))


def test_a_killed_launch_is_continued_by_the_same_command_and_starts_one_job(armada: Armada) -> None:
    chance = dice(7)
    started = armada.folder / "started"
    followed = continued = 0
    turns = moments.times(5)
    for turn in range(turns):
        script = f"echo {turn} >> '{started}'"
        text = json.dumps({"name": "once", "task": "command", "command": ["sh", "-c", script]})
        experiment = armada.write(f"{turn}.yaml", text)
        steps = moments.of_a_launch(armada)
        first = armada.start("launch", "--host", "local", experiment, process_group=0)
        with first:
            end = functools.partial(os.killpg, first.pid, signal.SIGKILL)
            moments.end_after(first, steps[turn % len(steps)], end, chance)
            first.communicate()
        with Database(armada.folder / "home" / "state" / "armada.db") as database:
            done = any(row.state == "done" for row in _launches(database, experiment))
            if not done and _launches(database, experiment):
                assert running_operations.unfinished(database, _launches(database, experiment)[0].started_at)
        if not done:
            again = armada.run("launch", "--host", "local", experiment)
            assert again.returncode == 0, again.stderr
            followed += "was already submitted" in again.stdout
            continued += "whose launch was interrupted" in again.stdout
        eventually(functools.partial(_holds, started, str(turn)))
    counts = started.read_text().split()
    assert sorted(map(int, counts)) == list(range(turns))
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        assert len(runs.every(database)) == turns
    print(f"{followed} followed, {continued} continued")


def test_after_a_launch_that_ended_well_the_same_command_starts_another_run(armada: Armada) -> None:
    experiment = armada.command("true")
    ids = {armada.json("launch", "--host", "local", experiment)["run_id"] for _ in range(2)}
    assert len(ids) == 2


@pytest.mark.parametrize("told", ["launched", "preparing", "claimed"])
def test_a_launch_of_unknown_outcome_is_looked_at_before_anything_is_started(armada: Armada, told: str) -> None:
    """The store is put back to what a link lost at that point leaves behind."""
    experiment = armada.command("sh", "-c", f"echo x >> '{armada.folder / 'count'}'; sleep 1000")
    run_id = armada.json("launch", "--host", "local", experiment)["run_id"]
    eventually((armada.folder / "count").exists)
    folder = armada.local_runs / run_id
    if told != "launched":
        armada.run("stop", run_id, "--grace", "0")
        _empty(folder / "attempts")
        if told == "preparing":
            _empty(folder / "submissions")
        else:
            (folder / "submissions" / "1" / "job.json").unlink()
        for name in ("state.json", "stop.json"):
            (folder / name).unlink(missing_ok=True)
        (armada.folder / "count").unlink()
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        database.connection.execute("UPDATE runs SET state = 'unknown', reason = 'link_lost', attempt = 0, seq = 0")
        database.connection.execute("DELETE FROM transitions WHERE state != 'preparing'")  # its answer was lost, too
        database.connection.execute("UPDATE operations SET state = 'failed', exit_code = 9 WHERE kind = 'launch'")
    again = armada.json("launch", "--host", "local", experiment)
    assert again["run_id"] == run_id
    eventually(lambda: (armada.folder / "count").exists() and (armada.folder / "count").read_text() == "x\n")
    assert len(armada.json("ps", "--all")) == 1
    assert "was interrupted" not in armada.run("ps").stdout


def test_ps_shows_what_broke_off_and_how_to_continue(armada: Armada) -> None:
    held = armada.folder / "home" / "state" / "locks"
    held.mkdir(parents=True)
    with Holding(held / "host-local.lock"):
        launch = armada.start("launch", "--host", "local", armada.command("true"), process_group=0)
        database = Database(armada.folder / "home" / "state" / "armada.db")
        with launch, database:
            (row,) = eventually(lambda: [r for r in records.running(database) if r.step == "waiting"])
            assert "(a test" in (row.message or "")
            os.killpg(launch.pid, signal.SIGKILL)
            launch.communicate()
    said = armada.run("ps").stdout
    assert "was interrupted" in said
    assert "launch --host local exp.yaml" in said


def test_a_second_launch_on_a_host_waits_and_says_for_whom(armada: Armada) -> None:
    held = armada.folder / "home" / "state" / "locks"
    held.mkdir(parents=True)
    with Holding(held / "host-local.lock"):
        launch = armada.start("launch", "--host", "local", armada.command("true"))
        assert launch.stdout is not None
        line = next(line for line in launch.stdout if "waiting" in line)
        assert "(a test" in line
        assert launch.poll() is None
    out, err = launch.communicate()
    assert launch.returncode == 0, out + err


def test_ps_why_names_the_evidence(armada: Armada) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("sleep", "1000"))["run_id"]
    eventually(lambda: armada.json("ps")[0]["state"] == "running")
    assert "its supervisor lives and wrote “running”" in armada.run("ps", "--why").stdout
    armada.run("stop", run_id, "--grace", "0")
    eventually(lambda: armada.json("ps")[0]["state"] == "cancelled")
    because = armada.json("ps")[0]["because"]
    # The attempt's exit is there a moment before the state behind it, and whoever sees an end looks no second time.
    assert because in ("its supervisor wrote the end", "the exit of attempt 1 is written")
    assert because in armada.run("ps", "--why").stdout


def test_a_run_whose_folder_vanished_is_seen_by_its_processes_and_again_when_it_is_back(armada: Armada) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("sleep", "1000"))["run_id"]
    eventually(lambda: armada.json("ps")[0]["state"] == "running")
    folder = armada.local_runs / run_id
    folder.rename(armada.folder / "elsewhere")
    (run,) = armada.json("ps")
    assert (run["state"], run["reason"]) == ("running", "folder_removed")
    (armada.folder / "elsewhere").rename(folder)
    (run,) = armada.json("ps")
    assert (run["state"], run["reason"]) == ("running", None)


def _launches(database: Database, experiment: str) -> list[records.Operation]:
    return [row for row in records.recent(database) if row.kind == "launch" and experiment in row.argv]


def _holds(file: Path, word: str) -> bool:
    return file.exists() and word in file.read_text().split()


def _start_time(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def _empty(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder)
    folder.mkdir(mode=0o700)


class Holding:
    """Another process that holds a lock file."""

    def __init__(self, lock: Path) -> None:
        program = (
            "import sys; from pathlib import Path; from armada.provision.exclusive_lock import exclusive_lock\n"
            "with exclusive_lock(Path(sys.argv[1]), 'a test', print):\n    print('held', flush=True); sys.stdin.read()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "held\n"

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
