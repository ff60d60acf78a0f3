"""A supervisor that is killed alone: its guardian takes the job over and sees it to its end."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from armada_agent.supervisor import guardian

from tests.agent.test_agent_outbox import announce, checkpoints_of, let_go, start_waiting
from tests.supervisors import kill_both
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.agent.conversation import Host

WAITS = 'echo up; trap "echo saving; exit 5" TERM; while [ ! -e go ]; do sleep 0.02; done; echo done; exit %d'


def kill_supervisor(host: Host, run_id: str) -> None:
    """Kill the supervisor alone, and wait until its guardian has the job."""
    eventually(lambda: "up" in host.output(run_id))
    host.await_state(run_id, "running")
    os.kill(host.look(run_id)["evidence"]["submission"]["job"]["supervisor"]["pid"], signal.SIGKILL)
    eventually((host.folder(run_id) / "submissions/1/successor.json").exists)


def go(host: Host, run_id: str) -> None:
    (host.folder(run_id) / "work/go").touch()


@pytest.mark.parametrize(("code", "state", "reason"), [(0, "succeeded", None), (3, "failed", "exit_3")])
def test_a_job_whose_supervisor_was_killed_ends_with_its_own_exit_code(
    some_host: Host, code: int, state: str, reason: str | None
) -> None:
    some_host.launch("heir-1", "sh", "-c", WAITS % code, secrets={"TOKEN": "x"})
    kill_supervisor(some_host, "heir-1")
    evidence = some_host.look("heir-1")["evidence"]
    assert (evidence["supervisor"], evidence["state"]["state"]) == ("alive", "running")
    go(some_host, "heir-1")
    ended = some_host.await_end("heir-1")
    assert (ended["state"], ended["reason"], ended["exit_code"]) == (state, reason, code)
    assert not (some_host.folder("heir-1") / "secrets.env").exists()
    seqs = [event["seq"] for event in some_host.events("heir-1")]
    assert seqs == sorted(set(seqs))
    assert "its guardian took over the job" in str(some_host.events("heir-1"))


def test_a_job_that_was_killed_after_its_supervisor_says_by_what(this_host: Host) -> None:
    this_host.launch("heir-2", "sh", "-c", WAITS % 0)
    kill_supervisor(this_host, "heir-2")
    os.killpg(this_host.look("heir-2")["evidence"]["attempt"]["run"]["process"]["pid"], signal.SIGKILL)
    assert this_host.await_end("heir-2")["reason"] == "signal_SIGKILL"


def test_a_job_that_was_taken_over_is_stopped_with_its_grace(this_host: Host) -> None:
    this_host.launch("heir-3", "sh", "-c", WAITS % 0)
    kill_supervisor(this_host, "heir-3")
    assert this_host.call("run.stop", run_id="heir-3", grace_s=60)["outcome"] == "stopping"
    ended = this_host.await_end("heir-3")
    assert (ended["state"], ended["reason"], ended["exit_code"]) == ("cancelled", "killed_by_user", 5)
    assert "saving" in this_host.output("heir-3")


def test_checkpoints_are_finished_after_a_job_was_taken_over(this_host: Host) -> None:
    start_waiting(this_host, "heir-4")
    this_host.await_state("heir-4", "running")
    os.kill(this_host.look("heir-4")["evidence"]["submission"]["job"]["supervisor"]["pid"], signal.SIGKILL)
    announce(this_host.folder("heir-4"), 10)
    eventually(lambda: [entry["step"] for entry in checkpoints_of(this_host, "heir-4")] == [10])
    let_go(this_host, "heir-4")


def test_the_last_checkpoint_of_a_script_that_ended_well_is_taken_though_its_supervisor_was_killed(
    this_host: Host,
) -> None:
    script = (WAITS % 0).replace("echo done", "mkdir -p out/step-7; echo w > out/step-7/w")
    watched = {"checkpoints": {"pattern": "out/step-*", "quiet_s": 600.0}, "resume": []}
    this_host.launch("heir-5", "sh", "-c", script, watch=watched)
    kill_supervisor(this_host, "heir-5")
    go(this_host, "heir-5")
    assert this_host.await_end("heir-5")["state"] == "succeeded"
    assert [entry["step"] for entry in this_host.look("heir-5")["outbox"]] == [7]


def test_what_a_job_sets_free_does_not_pass_for_the_job(this_host: Host) -> None:
    """Orphans of a job become the guardian's children, before its supervisor dies and after."""
    orphan = "(setsid sh -c 'sleep 0.1' &) ; "
    this_host.launch("heir-6", "sh", "-c", orphan + (WAITS % 4).replace("echo done", orphan.rstrip("; ")))
    kill_supervisor(this_host, "heir-6")
    go(this_host, "heir-6")
    assert this_host.await_end("heir-6")["exit_code"] == 4


def test_a_guardian_killed_before_the_supervisor_changes_nothing(this_host: Host) -> None:
    this_host.launch("heir-7", "sh", "-c", WAITS % 0)
    this_host.await_state("heir-7", "running")
    os.kill(this_host.look("heir-7")["evidence"]["submission"]["job"]["guardian"]["pid"], signal.SIGKILL)
    go(this_host, "heir-7")
    assert this_host.await_end("heir-7")["state"] == "succeeded"


def test_a_guardian_and_its_supervisor_end_with_the_run(this_host: Host) -> None:
    this_host.launch("heir-8", "true")
    this_host.await_end("heir-8")
    job = this_host.look("heir-8")["evidence"]["submission"]["job"]
    assert eventually(
        lambda: not any(Path(f"/proc/{job[name]['pid']}").exists() for name in ("guardian", "supervisor"))
    )


def test_without_ctypes_a_supervisor_works_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    assert guardian.can_guard() is False


def test_what_an_earlier_attempt_left_is_settled_before_a_script_clears_it_away(this_host: Host) -> None:
    """The supervisor dies before it has looked once; five checkpoints are old, the sixth was just written."""
    script = (
        'if [ -n "$1" ]; then echo from $1; exit 0; fi; rm -rf out; '
        "for i in 1 2 3 4 5; do mkdir -p out/step-$i; echo w$i > out/step-$i/w; touch -d '1 hour ago' out/step-$i/w;"
        " ln out/step-$i/w $i; done; "
        "mkdir out/step-6; echo w6 > out/step-6/w; echo up; exec sleep 1000"
    )
    watched = {
        "checkpoints": {"pattern": "out/step-*", "quiet_s": 600.0},
        "resume": ["{checkpoint}"],
    }
    this_host.launch("left-1", "sh", "-c", script, "sh", watch=watched)
    eventually(lambda: "up" in this_host.output("left-1"))
    eventually((this_host.folder("left-1") / "attempts" / "1" / "run.json").exists)
    evidence = this_host.look("left-1")["evidence"]
    kill_both(evidence["submission"]["job"])
    os.killpg(evidence["attempt"]["run"]["process"]["pid"], signal.SIGKILL)
    eventually(lambda: this_host.look("left-1")["evidence"]["processes"] == 0)
    eventually(lambda: this_host.look("left-1")["evidence"]["supervisor"] == "dead")
    this_host.call("run.submit", run_id="left-1", submission=2)
    ended = eventually(lambda: (state := this_host.state("left-1"))["submission"] == 2 and state["ended_at"] and state)
    assert ended["state"] == "succeeded"
    assert "/out/step-5\n" in this_host.output("left-1")
    assert [entry["step"] for entry in this_host.look("left-1")["outbox"]] == [1, 2, 3, 4, 5]
    assert (this_host.folder("left-1") / "left/before-attempt-2/out/step-6/w").read_text() == "w6\n"
    (said,) = [event["message"] for event in this_host.events("left-1") if "step-6" in str(event.get("message"))]
    assert "kept in left/before-attempt-2/out/step-6" in said
