"""Ending runs: gently, all of them, exactly them, and after their supervisors."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from armada_agent.foundation import process_identity
from armada_agent.host import processes
from armada_agent.paths import RunPaths

from tests.agent.conversation import Conversation, Host, Refused, check
from tests.supervisors import kill_all, kill_both
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

ESCAPEE = (
    "import os, subprocess, sys, time\n"
    "subprocess.Popen([sys.executable, '-c', 'import os, signal, time; os.setsid(); "
    'signal.signal(signal.SIGTERM, signal.SIG_IGN); open("escaped", "w").write(str(os.getpid())); time.sleep(1000)\'])\n'
    "time.sleep(1000)\n"
)


def is_running(pid: int) -> bool:
    stat = process_identity.read_stat(pid)
    return stat is not None and stat.is_alive


def supervisor_of(host: Host, run_id: str) -> int:
    pid: int = host.look(run_id)["evidence"]["submission"]["job"]["supervisor"]["pid"]
    return pid


def kill_supervisor(host: Host, run_id: str) -> None:
    kill_both(host.look(run_id)["evidence"]["submission"]["job"])
    eventually(lambda: host.look(run_id)["evidence"]["supervisor"] == "dead")


def test_a_stopped_run_is_cancelled_and_stopping_twice_is_fine(host: Host) -> None:
    host.launch("stop-1", "sh", "-c", "trap 'echo saving; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    eventually(lambda: "up" in host.output("stop-1"))
    assert host.call("run.stop", run_id="stop-1", grace_s=20)["outcome"] == "stopping"
    assert host.call("run.stop", run_id="stop-1", grace_s=20)["outcome"] in ("stopping", "already_ended")
    state = host.await_end("stop-1")
    assert (state["state"], state["reason"], state["exit_code"]) == ("cancelled", "killed_by_user", 0)
    assert "saving" in host.output("stop-1")
    assert host.call("run.stop", run_id="stop-1", grace_s=20)["outcome"] == "already_ended"
    assert host.state("stop-1") == state


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace(some_host: Host) -> None:
    some_host.launch("stop-2", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    eventually(lambda: "up" in some_host.output("stop-2"))
    some_host.call("run.stop", run_id="stop-2", grace_s=0.3)
    state = some_host.await_end("stop-2")
    assert (state["state"], state["signal"]) == ("cancelled", signal.SIGKILL)


def test_a_second_wish_may_be_in_more_of_a_hurry(this_host: Host) -> None:
    this_host.launch("stop-3", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    eventually(lambda: "up" in this_host.output("stop-3"))
    this_host.call("run.stop", run_id="stop-3", grace_s=10000)
    eventually(lambda: "stopping" in (this_host.state("stop-3")["message"] or ""))
    this_host.call("run.stop", run_id="stop-3", grace_s=0)
    assert this_host.await_end("stop-3")["state"] == "cancelled"


def test_a_process_in_a_session_of_its_own_is_ended_too(host: Host) -> None:
    host.launch("stop-4", sys.executable, "-c", ESCAPEE)
    escaped = host.folder("stop-4") / "work/escaped"
    eventually(lambda: escaped.exists() and escaped.read_text())
    assert host.look("stop-4")["evidence"]["processes"] == 2
    host.call("run.stop", run_id="stop-4", grace_s=5)
    assert host.await_end("stop-4")["state"] == "cancelled"
    assert not is_running(int(escaped.read_text()))
    assert host.look("stop-4")["evidence"]["processes"] == 0


def test_what_a_finished_job_left_running_is_ended_before_the_run_is(this_host: Host) -> None:
    this_host.launch(
        "left-1",
        sys.executable,
        "-c",
        ESCAPEE.replace("\ntime.sleep(1000)", "") + "\nwhile not os.path.exists('escaped'): time.sleep(0.02)",
    )
    state = this_host.await_end("left-1")
    assert (state["state"], state["exit_code"]) == ("succeeded", 0)
    assert not is_running(int((this_host.folder("left-1") / "work/escaped").read_text()))


def test_a_process_that_overwrote_its_marker_is_found_by_its_session(this_host: Host) -> None:
    this_host.launch("title-1", "env", "-i", "/bin/sh", "-c", "sleep 1000 & wait")
    this_host.await_state("title-1", "running")
    eventually(lambda: this_host.look("title-1")["evidence"]["processes"] == 2)
    this_host.call("run.stop", run_id="title-1", grace_s=1)
    this_host.await_end("title-1")
    assert this_host.look("title-1")["evidence"]["processes"] == 0


def test_a_run_stopped_before_its_start_never_starts(host: Host) -> None:
    host.create("early-1", "touch", "started", secrets={"TOKEN": "x"})
    assert host.call("run.stop", run_id="early-1", grace_s=1)["outcome"] == "cancelled_before_start"
    state = host.state("early-1")
    assert (state["state"], state["reason"], state["attempt"]) == ("cancelled", "killed_by_user", 0)
    with pytest.raises(Exception, match="cancelled before it started"):
        host.call("run.submit", run_id="early-1", submission=1)
    assert not (host.folder("early-1") / "work/started").exists()
    assert not (host.folder("early-1") / "secrets.env").exists()


def test_a_supervisor_that_finds_the_wish_starts_nothing(this_host: Host, agent: Path) -> None:
    this_host.create("early-2", "touch", "started")
    folder = this_host.folder("early-2")
    (folder / "submissions/1").mkdir()
    (folder / "submissions/1/claim.json").write_text('{"time": 1, "by": "a submit"}')
    (folder / "stop.json").write_text('{"time": 1, "grace_s": 1, "submission": 1}')
    argv = [
        sys.executable,
        str(agent),
        "supervise",
        "--root",
        str(this_host.root),
        "--run",
        "early-2",
        "--submission",
        "1",
    ]
    subprocess.run(argv, check=True, start_new_session=True)
    assert this_host.await_end("early-2")["state"] == "cancelled"
    assert not (folder / "work/started").exists()
    assert not list((folder / "attempts").iterdir())


def test_a_killed_supervisor_leaves_evidence_and_the_job(host: Host) -> None:
    host.launch("lost-1", "sleep", "1000")
    host.await_state("lost-1", "running")
    kill_supervisor(host, "lost-1")
    evidence = host.look("lost-1")["evidence"]
    assert (evidence["supervisor"], evidence["processes"], evidence["rebooted"]) == ("dead", 1, False)
    assert evidence["state"]["state"] == "running"
    assert evidence["attempt"]["exit"] is None
    with pytest.raises(Exception, match="is still alive"):
        host.call("run.remove", run_id="lost-1")


def test_stop_ends_what_a_killed_supervisor_left_and_writes_the_end(host: Host) -> None:
    host.launch("lost-2", sys.executable, "-c", ESCAPEE, secrets={"TOKEN": "x"})
    escaped = host.folder("lost-2") / "work/escaped"
    eventually(lambda: escaped.exists() and escaped.read_text())
    kill_supervisor(host, "lost-2")
    assert host.call("run.stop", run_id="lost-2", grace_s=1)["outcome"] == "stopping"
    state = host.await_end("lost-2")
    assert (state["state"], state["reason"]) == ("cancelled", "killed_by_user")
    evidence = host.look("lost-2")["evidence"]
    assert (evidence["processes"], evidence["attempt"]["exit"]["state"]) == (0, "cancelled")
    assert not is_running(int(escaped.read_text()))
    assert not (host.folder("lost-2") / "secrets.env").exists()
    seqs = [event["seq"] for event in host.events("lost-2")]
    assert seqs == sorted(set(seqs))
    eventually(lambda: host.call("run.remove", run_id="lost-2") == {})


def test_an_end_written_before_the_supervisor_died_is_kept(this_host: Host) -> None:
    this_host.launch("lost-3", "sleep", "1000")
    this_host.await_state("lost-3", "running")
    kill_supervisor(this_host, "lost-3")
    written = {
        "attempt": 1,
        "exit_code": 3,
        "signal": None,
        "state": "failed",
        "reason": "oom",
        "message": None,
        "ended_at": 5.0,
    }
    (this_host.folder("lost-3") / "attempts/1/exit.json").write_text(json.dumps(written))
    this_host.call("run.stop", run_id="lost-3", grace_s=0)
    state = this_host.await_end("lost-3")
    assert (state["state"], state["reason"], state["exit_code"]) == ("failed", "oom", 3)
    eventually(lambda: this_host.look("lost-3")["evidence"]["processes"] == 0)


@pytest.mark.parametrize("has_start", [True, False])
def test_the_end_of_an_earlier_submission_is_not_that_of_one_whose_supervisor_died_before_its_job(
    this_host: Host, has_start: bool
) -> None:
    this_host.launch("again-1", "sh", "-c", "exit 3")
    this_host.await_end("again-1")
    eventually(lambda: this_host.look("again-1")["evidence"]["supervisor"] == "dead")
    folder = this_host.folder("again-1")
    if not has_start:
        (folder / "attempts/1/run.json").unlink()  # by a power cut
    exit_before = (folder / "attempts/1/exit.json").read_text()
    assert json.loads(exit_before)["submission"] == 1
    (folder / "submissions/2").mkdir()
    for name in ("claim.json", "job.json"):
        told = json.loads((folder / "submissions/1" / name).read_text())
        (folder / "submissions/2" / name).write_text(json.dumps({**told, "submission": 2}))
    this_host.call("run.stop", run_id="again-1", grace_s=0)
    state = this_host.await_state("again-1", "cancelled", "failed", submission=2)
    assert (state["state"], state["reason"]) == ("cancelled", "killed_by_user")
    assert (folder / "attempts/1/exit.json").read_text() == exit_before


def test_a_supervisor_told_to_end_ends_its_job_first(this_host: Host) -> None:
    this_host.launch("term-1", "sleep", "1000", stop_grace_s=1.0)
    this_host.await_state("term-1", "running")
    os.kill(supervisor_of(this_host, "term-1"), signal.SIGTERM)
    state = this_host.await_end("term-1")
    assert (state["state"], state["reason"]) == ("failed", "terminated")
    assert this_host.look("term-1")["evidence"]["processes"] == 0


def test_a_pid_that_passed_to_another_process_is_not_signalled() -> None:
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        stat = process_identity.read_stat(bystander.pid)
        assert stat is not None
        stat.start_time = str(int(stat.start_time) - 1)
        processes.send(processes.Process(stat, {}), signal.SIGKILL)
        assert bystander.poll() is None
        stat.start_time = str(int(stat.start_time) + 1)
        processes.send(processes.Process(stat, {}), signal.SIGKILL)
        assert bystander.wait() == -signal.SIGKILL


def test_a_recorded_leader_with_another_start_claims_no_session(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        bystander = stack.enter_context(subprocess.Popen(["sleep", "1000"], start_new_session=True))
        stack.callback(bystander.kill)
        leader = process_identity.identify(bystander.pid)
        run = RunPaths(str(tmp_path), "no-such-leader")
        assert [process.pid for process in processes.members(run, leader)] == [bystander.pid]
        leader["start_time"] = "1"
        assert processes.members(run, leader) == []


def test_an_attempt_that_was_given_up_claims_no_process_of_the_next() -> None:
    run = RunPaths("/no-such-root", f"no-such-run-{os.getpid()}")  # its own: processes are found by its name
    with contextlib.ExitStack() as stack:
        pids = []
        for attempt in ("1", "2", "2x"):
            marks = {processes.RUN_MARKER: run.run_id, processes.ATTEMPT_MARKER: attempt}
            job = stack.enter_context(subprocess.Popen(["sleep", "1000"], env={**os.environ, **marks}))
            stack.callback(job.kill)
            pids.append(job.pid)
        found = {up_to: [process.pid for process in processes.members(run, up_to=up_to)] for up_to in (0, 1, 2, None)}
    first, _, unreadable = pids
    assert {up_to: sorted(each) for up_to, each in found.items()} == {
        0: [unreadable],  # what names no attempt is everybody's
        1: sorted([first, unreadable]),
        2: sorted(pids),
        None: sorted(pids),
    }


def test_the_session_of_processes_from_outside_a_container_is_nobodys() -> None:
    # Inside a pid namespace every process whose session leader lives outside is shown with session 0.
    leader = process_identity.identify()
    leader["pid"] = 0
    outsider = process_identity.read_stat(os.getpid())
    assert outsider is not None
    outsider.session = 0
    table = [processes.Process(outsider, {})]
    assert processes.members(RunPaths("/no-such-root", "no-such-session"), leader, table) == []


@pytest.mark.parametrize(
    ("change", "verdict", "rebooted"),
    [
        ({}, "alive", False),
        ({"start_time": "1"}, "dead", False),
        ({"pid": 2**30}, "dead", False),
        ({"boot_id": "another"}, "dead", True),
        ({"pid_namespace": "1"}, "dead", True),
        ({"init_start": "99999999"}, "dead", True),
        ({"hostname": "a-former-name"}, "alive", False),
        ({"hostname": "another-node", "boot_id": "another"}, "unknown", False),
        ({"hostname": "another-container", "pid_namespace": "1"}, "unknown", False),
        ({"pid": "7"}, "unknown", False),
    ],
)
def test_a_recorded_process_is_judged_by_all_of_its_identity(
    change: dict[str, Any], verdict: str, rebooted: bool
) -> None:
    recorded = {**process_identity.identify(), **change}
    assert process_identity.judge(recorded) == verdict
    assert process_identity.was_rebooted(recorded) is rebooted


def test_a_reboot_shows_in_the_evidence_and_stop_then_writes_the_end(this_host: Host) -> None:
    this_host.launch("boot-1", "sleep", "1000")
    this_host.await_state("boot-1", "running")
    kill_both(this_host.look("boot-1")["evidence"]["submission"]["job"])
    kill_all(process.pid for process in processes.members(RunPaths(str(this_host.root), "boot-1")))
    for name in ("submissions/1/job.json", "attempts/1/run.json"):
        path = this_host.folder("boot-1") / name
        path.write_text(path.read_text().replace(process_identity.current_host()["boot_id"], "an-earlier-boot"))
    evidence = this_host.look("boot-1")["evidence"]
    assert (evidence["supervisor"], evidence["rebooted"], evidence["processes"]) == ("dead", True, 0)
    this_host.call("run.stop", run_id="boot-1", grace_s=1)
    assert this_host.await_end("boot-1")["state"] == "cancelled"


def test_a_lost_run_whose_plan_is_damaged_is_ended_all_the_same(this_host: Host) -> None:
    this_host.launch("torn-1", "sleep", "1000")
    this_host.await_state("torn-1", "running")
    kill_supervisor(this_host, "torn-1")
    (this_host.folder("torn-1") / "spec.json").write_text('{"run_id": "torn')
    assert this_host.call("run.stop", run_id="torn-1", grace_s=0)["outcome"] == "stopping"
    assert this_host.await_end("torn-1")["state"] == "cancelled"
    assert this_host.look("torn-1")["evidence"]["processes"] == 0


def test_a_run_of_the_same_name_under_another_root_is_left_alone(this_host: Host, agent: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    neighbour = Conversation(sys.executable, agent, tmp_path / "other" / "root")
    try:
        other = Host(neighbour)
        for host in (this_host, other):
            host.launch("same-1", "sleep", "1000")
            host.await_state("same-1", "running")
        assert this_host.look("same-1")["evidence"]["processes"] == 1
        this_host.call("run.stop", run_id="same-1", grace_s=0)
        this_host.await_end("same-1")
        assert other.look("same-1")["evidence"]["processes"] == 1
        other.call("run.stop", run_id="same-1", grace_s=0)
        other.await_end("same-1")
    finally:
        neighbour.hang_up()


def test_a_zombie_supervisor_is_dead() -> None:
    with subprocess.Popen(["true"]) as child:
        eventually(lambda: (stat := process_identity.read_stat(child.pid)) is not None and stat.state == "Z")
        assert process_identity.judge(process_identity.identify(child.pid)) == "dead"


def test_a_lost_run_may_be_submitted_anew(this_host: Host) -> None:
    this_host.launch("again-1", "sleep", "1000")
    this_host.await_state("again-1", "running")
    kill_supervisor(this_host, "again-1")
    with pytest.raises(Exception, match="submission 1 already"):
        this_host.call("run.submit", run_id="again-1", submission=2)
    kill_all(process.pid for process in processes.members(RunPaths(str(this_host.root), "again-1")))
    eventually(lambda: this_host.look("again-1")["evidence"]["processes"] == 0)
    assert this_host.call("run.submit", run_id="again-1", submission=2)["outcome"] == "started"
    state = this_host.await_state("again-1", "running", submission=2)
    assert state["attempt"] == 2


def fill(root: Path) -> None:
    """Write to a file system until it takes no more."""
    with contextlib.suppress(OSError), (root / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 4096)


def test_a_full_disk_delays_the_records_and_never_ends_the_job(
    tmp_path: Path, agent: Path, converse: Callable[..., Conversation], root: Path
) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(root)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs root to mount a small file system")
    try:
        host = Host(converse())
        go = tmp_path / "go"
        host.launch("full-1", "sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done")
        host.await_state("full-1", "running")
        fill(root)
        go.touch()
        log = host.folder("full-1") / "supervisor.log"
        evidence = eventually(lambda: (e := host.look("full-1")["evidence"])["processes"] == 0 and e)
        assert isinstance(evidence, dict)
        assert evidence["supervisor"] == "alive"
        assert evidence["state"]["state"] == "running"
        (root / "filler").unlink()
        assert host.await_end("full-1")["state"] == "succeeded"
        assert [event["kind"] for event in host.events("full-1")].count("state") == 3
        check(
            json.loads((host.folder("full-1") / "attempts/1/exit.json").read_text()), "files", "attempts/<n>/exit.json"
        )
        eventually(lambda: host.look("full-1")["evidence"]["supervisor"] == "dead")
        assert "Traceback" not in (log.read_text() if log.exists() else "")
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)


def test_a_claim_that_finds_no_room_says_so(converse: Callable[..., Conversation], root: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(root)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs root to mount a small file system")
    try:
        host = Host(converse())
        fill(root)
        with pytest.raises(Exception, match="No space left") as refused:
            host.create("full-2", "true")
        assert getattr(refused.value, "kind", None) == "disk_full"
        assert host.call("run.list")["runs"] == []
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)


def test_a_supervisor_writes_nothing_into_a_folder_that_is_no_longer_its_runs(this_host: Host, tmp_path: Path) -> None:
    enough = tmp_path / "enough"
    waits = f"echo up; while [ ! -e {enough} ]; do echo on; sleep 0.05; done"
    this_host.launch("gone-1", "sh", "-c", waits, watch={"checkpoints": None, "resume": []})
    eventually(lambda: "up" in this_host.output("gone-1"))
    supervisor = supervisor_of(this_host, "gone-1")
    folder = this_host.folder("gone-1")
    folder.rename(tmp_path / "elsewhere")
    folder.mkdir(mode=0o700)
    entry = this_host.look("gone-1")
    assert entry["exists"] is False
    assert entry["remains"]["processes"] >= 2
    assert (entry["remains"]["attempt"], entry["remains"]["submission"]) == (1, 1)
    enough.touch()
    eventually(lambda: not is_running(supervisor))
    assert not {"state.json", "events.jsonl", "attempts", "outbox"} & {path.name for path in folder.iterdir()}
    eventually(lambda: this_host.look("gone-1")["remains"]["processes"] == 0)  # its guardian ends after it


@pytest.mark.parametrize(("text", "number"), [("3", 3), ("", 0), ("²", 0), ("-1", 0), ("9" * 40, 0), ("2 ", 0)])
def test_a_process_may_claim_any_attempt(text: str, number: int) -> None:
    stat = process_identity.read_stat(os.getpid())
    assert stat is not None
    assert processes.Process(stat, {"ARMADA_ATTEMPT": text}).attempt == number


def test_processes_without_a_folder_are_ended_only_when_the_root_is_the_one_that_was_meant(this_host: Host) -> None:
    this_host.launch("gone-2", "sh", "-c", "echo up; while :; do sleep 0.05; done")
    eventually(lambda: "up" in this_host.output("gone-2"))
    supervisor = supervisor_of(this_host, "gone-2")
    kept = this_host.folder("gone-2").with_name("kept")
    this_host.folder("gone-2").rename(kept)
    for root in (None, "another"):
        with pytest.raises(Refused, match="no run gone-2"):
            this_host.call("run.stop", run_id="gone-2", grace_s=1, root=root)
    assert is_running(supervisor)
    name = json.loads((this_host.root / "root.json").read_text())["id"]
    assert this_host.call("run.stop", run_id="gone-2", grace_s=1, root=name) == {"outcome": "stopping"}
    eventually(lambda: this_host.look("gone-2")["remains"]["processes"] == 0)
    assert not is_running(supervisor)


def test_what_a_job_leaves_running_is_named_before_it_is_ended(host: Host) -> None:
    host.launch("left-1", "sh", "-c", "setsid sleep 1000 & echo $! > left; exit 0")
    state = host.await_end("left-1")
    pid = int((host.folder("left-1") / "work/left").read_text())
    named = f"left 1 running, which were then ended: sleep ({pid})"
    assert (state["state"], named in state["message"]) == ("succeeded", True)
    assert not is_running(pid)


def test_a_job_whose_children_end_just_after_it_leaves_nothing(this_host: Host) -> None:
    this_host.launch("left-2", "sh", "-c", "sleep 0.3 & exit 0")
    assert this_host.await_end("left-2")["message"] is None


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this Python keeps no guardian")
@pytest.mark.parametrize("ends", ["exit 0", "sleep 1000"], ids=["the job ends", "the run is stopped"])
def test_a_child_that_cleared_its_environment_is_ended_too(this_host: Host, ends: str) -> None:
    run_id = f"bare-{len(ends)}"
    this_host.launch(run_id, "sh", "-c", f"(env -i setsid sleep 1000 & echo $! > bare); {ends}")
    file = this_host.folder(run_id) / "work/bare"
    eventually(lambda: file.exists() and file.read_text().strip())
    pid = int(file.read_text())
    if ends != "exit 0":
        this_host.call("run.stop", run_id=run_id, grace_s=1)
    this_host.await_end(run_id)
    assert not is_running(pid)


def test_a_job_that_was_suspended_is_said_to_be_and_ends_within_its_grace(host: Host) -> None:
    host.launch("suspended-1", "sh", "-c", "trap 'echo saving; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    eventually(lambda: "up" in host.output("suspended-1"))
    host.await_state("suspended-1", "running")
    pid = host.look("suspended-1")["evidence"]["attempt"]["run"]["process"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: host.look("suspended-1")["evidence"]["stopped"] == [pid])
    host.call("run.stop", run_id="suspended-1", grace_s=1000)
    assert host.await_end("suspended-1")["exit_code"] == 0
    assert "saving" in host.output("suspended-1")
