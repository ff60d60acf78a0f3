"""`retries`: what was lost with its host or its supervisor goes on without anybody; nothing else does."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from armada_agent.foundation import process_identity

from armada.config.hosts import Host
from armada.launch.retry import AGAIN_S, LOST, RECENT_S, Retries
from armada.monitor.observe import observe
from armada.notifications.events import find_events
from armada.paths import HomePaths
from armada.rpc.session import HostSession
from armada.store import operations, runs
from armada.store.database import Database
from tests.conftest import Armada, eventually
from tests.supervisors import kill_both

WAITS = 'echo "attempt $ARMADA_ATTEMPT ${TOKEN:-none}"; while [ ! -e go ]; do sleep 0.05; done; exit 3'


@pytest.fixture
def session(home: HomePaths) -> Iterator[HostSession]:
    with HostSession(Host(name="local", local=True), home) as opened:
        yield opened


@pytest.fixture
def lose(armada: Armada, session: HostSession) -> Callable[[str], None]:
    """A function that kills all of a run, as the end of its host's power does, and lets its records be of an earlier boot."""

    def kill(run_id: str) -> None:
        def evidence() -> dict[str, Any]:
            question = {"run_id": run_id, "metrics_offset": 0, "events_offset": 0}
            found: dict[str, Any] = session.call("run.observe", {"runs": [question]})["runs"][0]["evidence"]
            return found

        def running() -> dict[str, Any] | None:
            seen = evidence()
            state, submission = (seen or {}).get("state") or {}, (seen or {}).get("submission") or {}
            same = state.get("submission") == submission.get("number")
            return seen if same and state.get("state") == "running" else None

        seen = eventually(running)
        assert seen is not None
        # At no moment may who looks see a supervisor that died on this boot: a stopped one still holds its lock.
        job = seen["submission"]["job"]
        os.kill(job["supervisor"]["pid"], signal.SIGSTOP)
        record = armada.local_runs / run_id / "submissions" / str(seen["submission"]["number"]) / "job.json"
        earlier = record.with_suffix(".earlier")
        earlier.write_text(record.read_text().replace(process_identity.current_host()["boot_id"], "an-earlier-boot"))
        os.kill(job["guardian"]["pid"], signal.SIGKILL)
        earlier.replace(record)
        os.killpg(seen["attempt"]["run"]["process"]["pid"], signal.SIGKILL)
        eventually(lambda: evidence()["processes"] == 0)
        os.kill(job["supervisor"]["pid"], signal.SIGKILL)
        eventually(lambda: evidence()["supervisor"] == "dead")  # its last thread lets go of its lock

    return kill


def launch(armada: Armada, **settings: Any) -> str:
    run: dict[str, Any] = armada.json("launch", "--host", "local", armada.command("sh", "-c", WAITS, **settings))
    return str(run["run_id"])


@pytest.mark.fault(
    "supervisor and job killed under a run with `retries`",
    "the daemon resumes it with its secrets, as often as is allowed, and tells; then it stays failed",
)
def test_the_daemon_resumes_what_was_lost_as_often_as_it_may(
    armada: Armada, home: HomePaths, database: Database, session: HostSession, lose: Callable[[str], None]
) -> None:
    armada.env["TOKEN"] = "canary-77"
    run_id = launch(armada, retries=1, secrets=["TOKEN"])
    del armada.env["TOKEN"]
    assert armada.run("daemon", "start").returncode == 0
    lose(run_id)
    eventually(lambda: runs.find(database, run_id).submission == 2)
    eventually(lambda: armada.run("logs", run_id).stdout == "attempt 1 canary-77\nattempt 2 canary-77\n")
    (done,) = operations.of_run(database, run_id, kind="retry")
    assert (done.state, done.message) == ("done", "host_rebooted: retry 1 of 1")
    (event,) = [each for each in find_events(database, time.time(), sync_failing_s=7200) if each.kind == "run_resumed"]
    assert "was lost and resumed from its beginning (host_rebooted: retry 1 of 1)" in event.body
    lose(run_id)
    eventually(lambda: armada.json("ps", "--cached")[0]["state"] == "failed")
    assert Retries(session).look(database) == []
    (run,) = armada.json("ps", "--cached")
    assert (run["state"], run["reason"], run["submission"]) == ("failed", "host_rebooted", 2)
    assert "canary" not in (home.daemon / "daemon.log").read_text()


def test_who_follows_it_resumes_it_too(armada: Armada, database: Database, lose: Callable[[str], None]) -> None:
    following = armada.start("launch", "--host", "local", armada.command("sh", "-c", WAITS, retries=1), "--follow")
    (run_id,) = eventually(lambda: [path.name for path in armada.local_runs.glob("test-*")])
    lose(run_id)
    eventually(lambda: runs.find(database, run_id).attempt == 2)
    (armada.local_runs / run_id / "work" / "go").touch()
    out, err = following.communicate()
    assert following.returncode == 6, err
    assert "resumed    it was lost (host_rebooted) and resumed from its beginning" in out
    assert "ended      failed (exit_3)" in out


def test_who_follows_it_reads_why_it_does_not_go_on(armada: Armada, lose: Callable[[str], None]) -> None:
    armada.env["TOKEN"] = "canary-80"
    experiment = armada.command("sh", "-c", WAITS, retries=1, secrets=["TOKEN"])
    following = armada.start("launch", "--host", "local", experiment, "--follow")
    (secrets,) = eventually(lambda: list(armada.local_runs.glob("test-*/secrets.env")))
    (marks,) = eventually(lambda: list(armada.local_runs.glob("test-*/attempts/1/run.json")))
    assert marks.parts[-4] == secrets.parent.name
    secrets.unlink()
    lose(secrets.parent.name)
    _, err = following.communicate()
    assert following.returncode == 6, err
    assert "not resumed automatically: secrets of run" in err


def see(database: Database, session: HostSession, run_id: str) -> runs.Run:
    observe(database, session, [runs.find(database, run_id)])
    return runs.find(database, run_id)


def test_without_retries_it_waits_for_a_person(
    armada: Armada, database: Database, session: HostSession, lose: Callable[[str], None]
) -> None:
    run_id = launch(armada)
    lose(run_id)
    assert see(database, session, run_id).reason == "host_rebooted"
    assert Retries(session).look(database) == []


def test_what_fails_by_itself_is_not_tried_again(armada: Armada, database: Database, session: HostSession) -> None:
    run_id = launch(armada, retries=5)
    (armada.local_runs / run_id / "work" / "go").touch()
    eventually(lambda: see(database, session, run_id).reason == "exit_3")
    assert Retries(session).look(database) == []


def test_what_may_have_succeeded_is_not_run_again_by_itself(
    armada: Armada, database: Database, session: HostSession
) -> None:
    run_id = launch(armada, retries=3)
    folder = armada.local_runs / run_id
    eventually((folder / "attempts" / "1" / "run.json").exists)
    kill_both(json.loads((folder / "submissions" / "1" / "job.json").read_text()))
    (folder / "work" / "go").touch()
    eventually(lambda: see(database, session, run_id).reason == "supervisor_lost")
    retries = Retries(session)
    assert [retries.look(database), retries.look(database)] == [[], []]
    run = runs.find(database, run_id)
    assert (run.state, run.reason, run.submission) == ("failed", "supervisor_lost", 1)
    assert "it may have succeeded, because its exit code was not recorded" in (run.message or "")
    assert f"`armada resume {run_id}` runs it again" in (run.message or "")
    assert armada.json("resume", run_id, "--follow", rc=6)["submission"] == 2


def test_what_was_lost_a_day_ago_is_left_alone(
    armada: Armada, database: Database, session: HostSession, lose: Callable[[str], None]
) -> None:
    run_id = launch(armada, retries=1)
    lose(run_id)
    assert see(database, session, run_id).reason in LOST
    assert Retries(session).look(database, time.time() + RECENT_S + 60) == []
    assert Retries(session).look(database) == [run_id]
    assert armada.run("stop", run_id, "--grace", "0").returncode == 0


def test_a_cell_of_a_stopped_sweep_is_left_to_a_person(
    armada: Armada, database: Database, session: HostSession, lose: Callable[[str], None]
) -> None:
    experiment = armada.command("sh", "-c", WAITS, retries=2)
    sweep = armada.json("sweep", experiment, "--host", "local", "--grid", "env.X=1")["sweep"]
    run_id = f"{sweep}-001"
    lose(run_id)
    assert see(database, session, run_id).reason == "host_rebooted"
    assert armada.run("sweep", "stop", sweep).returncode == 0
    assert Retries(session).look(database) == []
    assert armada.json("resume", run_id)["submission"] == 2
    lose(run_id)  # whoever resumed it wants it to continue
    assert see(database, session, run_id).reason == "host_rebooted"
    assert Retries(session).look(database) == [run_id]
    assert armada.run("stop", run_id, "--grace", "0").returncode == 0


def test_nothing_is_resumed_by_itself_on_a_host_whose_budget_is_spent(
    armada: Armada, database: Database, session: HostSession, home: HomePaths, lose: Callable[[str], None]
) -> None:
    run_id = launch(armada, retries=1)
    lose(run_id)
    assert see(database, session, run_id).reason == "host_rebooted"
    with database.transaction() as connection:
        connection.execute("UPDATE hosts SET first_seen_at = ?", (time.time() - 11 * 3600,))
    told = {"name": "local", "local": True, "price": "10 EUR", "budget": "100 EUR"}
    with HostSession(Host.model_validate(told), home) as priced:
        assert Retries(priced).look(database) == []
    message = runs.find(database, run_id).message or ""
    assert "not resumed automatically: local has cost 110" in message
    assert Retries(session).look(database) == [run_id]
    assert armada.run("stop", run_id, "--grace", "0").returncode == 0


def test_a_run_lost_at_the_end_of_its_budget_is_left_to_a_person(
    armada: Armada, database: Database, session: HostSession, lose: Callable[[str], None]
) -> None:
    run_id = launch(armada, retries=3, budget={"hours": 1})
    lose(run_id)
    assert see(database, session, run_id).reason == "host_rebooted"
    (armada.local_runs / run_id / "spent.json").write_text('{"spent_s": 3599, "submission": 1, "allowed_s": 3600}')
    assert Retries(session).look(database) == []
    message = runs.find(database, run_id).message or ""
    assert f"the budget of {run_id} is spent; `armada resume {run_id}` grants the same once more" in message
    assert armada.json("resume", run_id)["submission"] == 2
    assert armada.run("stop", run_id, "--grace", "0").returncode == 0


def test_without_its_secrets_it_is_refused_once_and_says_why(
    armada: Armada, database: Database, session: HostSession, lose: Callable[[str], None]
) -> None:
    armada.env["TOKEN"] = "canary-78"
    run_id = launch(armada, retries=3, secrets=["TOKEN"])
    lose(run_id)
    assert see(database, session, run_id).reason == "host_rebooted"
    (armada.local_runs / run_id / "secrets.env").unlink()
    retries = Retries(session)
    assert [retries.look(database), retries.look(database)] == [[], []]
    (refused,) = operations.of_run(database, run_id, kind="retry")
    assert refused.state == "failed"
    run = runs.find(database, run_id)
    assert (run.state, run.reason, run.submission) == ("failed", "host_rebooted", 1)
    assert run.message is not None
    assert "not resumed automatically: secrets of run" in run.message
    assert armada.json("resume", run_id)["submission"] == 2
    assert armada.run("stop", run_id, "--grace", "0").returncode == 0


def test_what_may_pass_is_tried_again_after_a_while(
    armada: Armada, database: Database, session: HostSession, lose: Callable[[str], None]
) -> None:
    run_id = launch(armada, retries=1)
    lose(run_id)
    assert see(database, session, run_id).reason == "host_rebooted"
    in_the_way = armada.local_runs / run_id / ".submit.lock"
    in_the_way.unlink()
    in_the_way.mkdir()
    retries, now = Retries(session), time.time()
    assert retries.look(database, now) == []
    run = runs.find(database, run_id)
    assert (run.state, run.reason, run.submission) == ("failed", "host_rebooted", 1)
    assert "not resumed automatically" in (run.message or "")
    in_the_way.rmdir()
    assert retries.look(database, now + AGAIN_S - 1) == []
    assert retries.look(database, now + AGAIN_S) == [run_id]
    assert armada.run("stop", run_id, "--grace", "0").returncode == 0
