"""Why a job failed, from what it left on its host."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from armada_agent.host import kernel
from armada_agent.paths import RunPaths
from armada_agent.supervisor import post_mortem

from tests.agent.conversation import Host, check
from tests.waiting import eventually

# Recorded from Linux 6.18: a cgroup whose limit was 400 MB.
KERNEL_LOG = """4,492,61793774663,-;python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
3,569,61793775038,-;Memory cgroup out of memory: Killed process 1835 (python3) total-vm:118956kB, anon-rss:29056kB, file-rss:6608kB
6,650,62262746194,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,task=python3,pid=13658,uid=0
3,651,62262746212,-;Memory cgroup out of memory: Killed process 13658 (python3) total-vm:1065160kB, anon-rss:389632kB, file-rss:6636kB
 SUBSYSTEM=mem
"""
NO_FILE = "cat: train.jsonl: No such file or directory"


def failures(host: Host, run_id: str) -> list[dict[str, Any]]:
    found = [event for event in host.events(run_id) if event["kind"] == "failure"]
    for event in found:
        check(event, "files", "events.jsonl")
    return found


def test_a_failed_commands_last_words_are_its_cause_and_its_end_is_an_event(this_host: Host) -> None:
    this_host.launch("why-1", "sh", "-c", f"echo begin; echo '{NO_FILE}' >&2; exit 1")
    state = this_host.await_end("why-1")
    assert (state["reason"], state["message"], state["exit_code"]) == (
        "missing_file",
        f"a file is missing: {NO_FILE}",
        1,
    )
    (event,) = failures(this_host, "why-1")
    assert (event["reason"], event["lines"], event["exit_code"], event["signal"]) == (
        "missing_file",
        ["begin", NO_FILE],
        1,
        None,
    )
    exit_ = json.loads((this_host.folder("why-1") / "attempts/1/exit.json").read_text())
    assert exit_["reason"] == "missing_file"


def test_a_job_that_ends_well_or_is_stopped_has_no_failure(this_host: Host) -> None:
    this_host.launch("why-2", "sh", "-c", f"echo '{NO_FILE}'")
    assert this_host.await_end("why-2")["state"] == "succeeded"
    assert failures(this_host, "why-2") == []


def test_what_an_earlier_attempt_printed_is_not_this_ones_cause(tmp_path: Path) -> None:
    paths = prepared(tmp_path, f"{NO_FILE}\n")
    began = post_mortem.before_start(paths)
    check({**RUN_RECORD, **began}, "files", "attempts/<n>/run.json")
    write(paths.attempt(2, "run.json"), began)
    assert post_mortem.examine(paths, 2, 3).reason == "exit_3"
    log = tmp_path / "runs/old-1/output.log"
    log.write_text(log.read_text() + "curl: (6) Could not resolve host: hub\n")
    assert post_mortem.examine(paths, 2, 6).reason == "network"


def test_the_first_rank_decides_and_the_other_ranks_words_are_kept(tmp_path: Path) -> None:
    paths = prepared(tmp_path, "")
    told = {"reason": "nan_loss", "message": "at step 7", "rank": 1, "lines": ["Traceback", "NaN"]}
    lost = {"reason": "exception", "message": "gloo: Connection reset by peer", "rank": 0, "lines": []}
    for name, content in (("failure.json", told), ("failure-1.json", told), ("failure-0.json", lost)):
        check(content, "files", "attempts/<n>/failure.json")
        write(paths.attempt(2, name), content)
    cause = post_mortem.examine(paths, 2, 1)
    assert (cause.reason, cause.message, cause.rank, cause.lines) == ("nan_loss", "at step 7", 1, ["Traceback", "NaN"])
    assert cause.others == [{"rank": 0, "message": "gloo: Connection reset by peer"}]


@pytest.mark.parametrize(
    "content",
    [
        "no json",
        "[]",
        '{"reason": "Not A Reason", "message": "x"}',
        '{"reason": 3}',
        '{"reason": "oom\\n", "message": []}',
        '{"reason": "signal_\\u001b", "rank": "1"}',
    ],
)
def test_a_damaged_failure_json_says_nothing(tmp_path: Path, content: str) -> None:
    paths = prepared(tmp_path, "")
    for name in ("failure.json", "failure-0.json", "run.json"):
        write(paths.attempt(2, name), content)
    assert post_mortem.examine(paths, 2, 9).reason == "exit_9"


def test_checkpoints_that_were_being_saved_when_the_job_failed_are_named(this_host: Host) -> None:
    make = 'cd "$ARMADA_RUN_DIR"; mkdir -p checkpoints/checkpoint-5 checkpoints/checkpoint-10 checkpoints/other'
    this_host.launch("why-3", "sh", "-c", f"{make}; touch checkpoints/.announced-checkpoint-5; exit 3")
    this_host.await_end("why-3")
    said = [event["message"] for event in this_host.events("why-3") if event["kind"] == "finding"]
    assert said == ["checkpoint-10 is not taken: the job ended while it saved it"]


def test_a_stopped_job_and_a_stopped_supervisor_are_seen_to_be_stopped(this_host: Host) -> None:
    this_host.launch("still-1", "sleep", "600")
    this_host.await_state("still-1", "running")
    run = json.loads((this_host.folder("still-1") / "attempts/1/run.json").read_text())
    job, supervisor = run["process"]["pid"], run["supervisor"]["pid"]

    def stopped() -> list[int]:
        asked = [{"run_id": "still-1", "metrics_offset": 0, "events_offset": 0}]
        found: list[int] = this_host.call("run.observe", runs=asked)["runs"][0]["evidence"]["stopped"]
        return found

    assert stopped() == []
    for pid in (job, supervisor):
        os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: set(stopped()) == {job, supervisor}, "both are seen to be stopped")
    finally:
        for pid in (supervisor, job):
            os.kill(pid, signal.SIGCONT)
    eventually(lambda: stopped() == [], "both go on")
    this_host.call("run.stop", run_id="still-1", grace_s=0)


def test_the_kernels_log_names_what_it_ended_for_memory_since_a_moment() -> None:
    assert kernel.parse_log(KERNEL_LOG, 61_800.0) == ["process 13658 (python3) with 0.4 GB, by the limit of its cgroup"]
    assert len(kernel.parse_log(KERNEL_LOG, 0.0)) == 2
    assert kernel.parse_log(KERNEL_LOG, 62_263.0) == []
    host = "3,9,5000000,-;Out of memory: Killed process 77 (python) total-vm:1kB, anon-rss:88000000kB, file-rss:0kB"
    assert kernel.parse_log(host, 0.0) == ["process 77 (python) with 88.0 GB"]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n", 2),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", 1),
        ("pgmajfault 7\noom_kill 0\nnuma_hit 5\n", 0),
        ("oom_kill_disable 0\nunder_oom 0\n", None),
        ("", None),
    ],
)
def test_the_kernels_counters_are_read(text: str, count: int | None) -> None:
    assert kernel.parse_counter(text) == count


@pytest.mark.parametrize(
    ("memberships", "file"),
    [
        ("0::/user.slice/session-3.scope\n", "/sys/fs/cgroup/user.slice/session-3.scope/memory.events"),
        ("0::/\n", "/sys/fs/cgroup/memory.events"),
        ("4:memory:/slurm/job_1\n1:cpu:/\n0::/\n", "/sys/fs/cgroup/memory/slurm/job_1/memory.oom_control"),
        ("9:cpu,memory:/\n", "/sys/fs/cgroup/memory/memory.oom_control"),
        ("broken", None),
    ],
)
def test_the_cgroup_that_counts_is_found(memberships: str, file: str | None) -> None:
    assert kernel.find_cgroup(memberships) == file


def test_only_what_the_kernel_ended_after_the_start_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_read_log", lambda: "")
    monkeypatch.setattr(kernel, "count_oom_kills", lambda: {"cgroup": None, "machine": 3})
    assert kernel.find_oom_kills({"cgroup": None, "machine": 3}, 1.0) == []
    assert kernel.find_oom_kills({"cgroup": None, "machine": 1}, 1.0) == [
        "2 of the processes on this machine while the job ran"
    ]
    assert kernel.find_oom_kills(None, None) == []
    monkeypatch.setattr(kernel, "count_oom_kills", lambda: {"cgroup": 1, "machine": 3})
    assert kernel.find_oom_kills({"cgroup": 0, "machine": 2}, 1.0) == ["1 of the processes in the job's cgroup"]
    monkeypatch.setattr(kernel, "_read_log", lambda: KERNEL_LOG)
    assert kernel.find_oom_kills({"cgroup": 0, "machine": 2}, 62_260.0)[0].startswith("process 13658 (python3)")


RUN_RECORD: dict[str, Any] = {
    "attempt": 2,
    "submission": 1,
    "supervisor": dict.fromkeys(("hostname", "boot_id", "pid_namespace", "init_start", "start_time"), "x") | {"pid": 1},
    "process": dict.fromkeys(("hostname", "boot_id", "pid_namespace", "init_start", "start_time"), "x") | {"pid": 2},
    "started_at": 1.0,
    "gpus": [],
}


def prepared(tmp_path: Path, printed: str) -> RunPaths:
    paths = RunPaths(str(tmp_path), "old-1")
    Path(paths.attempt(2)).mkdir(parents=True)
    (tmp_path / "runs/old-1/output.log").write_text(printed)
    return paths


def write(path: str, content: object) -> None:
    Path(path).write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
