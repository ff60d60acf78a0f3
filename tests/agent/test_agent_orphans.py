"""Announced checkpoints whose supervisor was killed: hashed without it, once, and given up in the end where they cannot be."""

from __future__ import annotations

import fcntl
import os
import signal
from typing import TYPE_CHECKING, Any

from tests.agent.conversation import Host
from tests.agent.test_agent_outbox import announce, checkpoints_of, let_go, start_waiting
from tests.supervisors import kill_both
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path


def start_orphan(host: Host, run_id: str) -> Path:
    """Start a job whose supervisor is killed under it; the run's folder."""
    start_waiting(host, run_id)
    kill_both(host.look(run_id)["evidence"]["submission"]["job"])
    eventually(lambda: host.look(run_id)["evidence"]["supervisor"] == "dead")
    return host.folder(run_id)


def sync_look(host: Host, run_id: str) -> dict[str, Any]:
    (found,) = host.call("sync.look", runs=[{"run_id": run_id}])["runs"]
    assert isinstance(found, dict)
    return found


def steps(host: Host, run_id: str) -> list[int]:
    return sorted(entry["step"] for entry in checkpoints_of(host, run_id))


def test_what_an_orphaned_job_announces_is_hashed_while_it_goes_on(some_host: Host) -> None:
    folder = start_orphan(some_host, "orphan-1")
    announce(folder, 10)
    assert sync_look(some_host, "orphan-1")["finishing"] == 1
    eventually(lambda: steps(some_host, "orphan-1") == [10])
    announce(folder, 20)
    announce(folder, 30)
    assert sync_look(some_host, "orphan-1")["finishing"] == 2
    eventually(lambda: sync_look(some_host, "orphan-1")["finishing"] == 0)
    assert steps(some_host, "orphan-1") == [10, 20, 30]
    assert some_host.look("orphan-1")["evidence"]["processes"]
    assert some_host.state("orphan-1")["state"] == "running"
    # The events are the supervisor's: one that resumes the run counts them on.
    assert [event["kind"] for event in some_host.events("orphan-1")].count("checkpoint") == 0


def test_a_living_supervisor_is_left_alone(this_host: Host) -> None:
    start_waiting(this_host, "orphan-2")
    os.kill(this_host.look("orphan-2")["evidence"]["submission"]["job"]["supervisor"]["pid"], signal.SIGSTOP)
    try:
        announce(this_host.folder("orphan-2"), 10)
        found = sync_look(this_host, "orphan-2")
        assert (found["announced"], found["finishing"]) == (1, 0)
    finally:
        os.kill(this_host.look("orphan-2")["evidence"]["submission"]["job"]["supervisor"]["pid"], signal.SIGCONT)
    let_go(this_host, "orphan-2")
    assert steps(this_host, "orphan-2") == [10]
    assert (this_host.folder("orphan-2") / "supervisor.log").read_text() == ""


def test_what_cannot_be_hashed_is_given_up_and_still_counted(this_host: Host) -> None:
    folder = start_orphan(this_host, "orphan-3")
    announce(folder, 10, time="yesterday")
    announce(folder, 20, size_bytes=12)
    announce(folder, 30, size_bytes=sum(map(len, (b"\0weights" * 5000, b'{"\xc3\xa9": 1}', b"30"))))
    assert sync_look(this_host, "orphan-3")["finishing"] == 3
    found = eventually(lambda: (look := sync_look(this_host, "orphan-3"))["finishing"] == 0 and look)
    assert found["announced"] == 2
    assert steps(this_host, "orphan-3") == [30]
    said = (folder / "supervisor.log").read_text()
    assert "checkpoint 10 could not be finished: it was announced with an invalid kind or time" in said
    assert "checkpoint 20 could not be finished: it had 12 bytes when it was announced and has 40011 now" in said
    announce(folder, 40)
    assert sync_look(this_host, "orphan-3")["finishing"] == 1
    eventually(lambda: steps(this_host, "orphan-3") == [30, 40])


def test_two_are_never_at_the_same_outbox(this_host: Host) -> None:
    folder = start_orphan(this_host, "orphan-4")
    announce(folder, 10)
    with (folder / ".outbox.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert sync_look(this_host, "orphan-4")["finishing"] == 1
        assert sync_look(this_host, "orphan-4")["finishing"] == 1
        assert (folder / "supervisor.log").read_text() == ""
    eventually(lambda: sync_look(this_host, "orphan-4")["finishing"] == 0)
    assert steps(this_host, "orphan-4") == [10]


def test_a_stop_still_ends_the_job_and_a_resume_goes_on(this_host: Host) -> None:
    folder = start_orphan(this_host, "orphan-5")
    announce(folder, 10)
    sync_look(this_host, "orphan-5")
    this_host.call("run.stop", run_id="orphan-5", grace_s=0)
    assert this_host.await_end("orphan-5")["state"] == "cancelled"
    assert steps(this_host, "orphan-5") == [10]
    announce(folder, 20)
    assert sync_look(this_host, "orphan-5")["finishing"] == 1
    eventually(lambda: steps(this_host, "orphan-5") == [10, 20])
