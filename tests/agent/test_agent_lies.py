"""Batch systems that lie about a job, or say nothing: what is believed while the job writes, and after it has stopped."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from armada_agent import engines, htcondor, signs, slurm
from armada_agent.engines import Handed
from armada_agent.paths import RunPaths

from tests.agent.conversation import spec_of
from tests.agent.test_agent_htcondor import EVICTED, EXECUTING, HELD, REMOVED, SUBMITTED, TERMINATED

# Writes as a supervisor and its job do, each time it is told to, and says when that is done.
JOB = """
import sys
telemetry, output = sys.argv[1:]
for line in sys.stdin:
    for path in (telemetry, output):
        with open(path, "a") as stream:
            stream.write("{}\\n")
    print("written", flush=True)
"""
PROGRAM = """#!/bin/sh
cat {folder}/{name}.err >&2
cat {folder}/{name}.out
exit $(cat {folder}/{name}.code)
"""
# As scontrol of Slurm 24.05 prints it, shortened.
SHOWN = (
    "JobId=11 JobName={name} UserId=researcher(1000) GroupId=researcher(1000) MCS_label=N/A Priority=1 Nice=0 "
    "JobState={state} Reason=None Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 "
    "RunTime=00:12:01 TimeLimit=01:00:00 NodeList=n1 BatchHost=n1 Comment=armada.a-1.1\n"
)
INVALID = "slurm_load_jobs error: Invalid job id specified\n"
SILENT = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
MINE = "11|{}|None|n1|armada.a-1.1\n"
OTHERS = "7|RUNNING|None|n2|armada.b-1.1\n8|PENDING|Priority||my notebook\n"


class Clock:
    """A machine's, counted from its boot."""

    def __init__(self, boot: str = "one") -> None:
        self.boot = boot
        self.seconds = 1000.0

    def __call__(self) -> dict[str, Any]:
        return {"boot": self.boot, "seconds": self.seconds}


class Cluster:
    """A run that its batch system has begun, programs that say what a test makes them say, and a job that writes."""

    def __init__(self, folder: Path, engine: str) -> None:
        self.folder = folder / "bin"
        self.folder.mkdir()
        for name in ("squeue", "sacct", "scontrol", "scancel", "condor_q", "condor_history", "condor_rm"):
            (self.folder / name).write_text(PROGRAM.format(folder=self.folder, name=name))
            (self.folder / name).chmod(0o755)
            self.say(name, "", code=0 if name == "squeue" else 1)
        self.engine = engine
        self.paths = RunPaths(str(folder / "root"), "a-1")
        self.clock = Clock()
        job = {"submission": 1, "scheduler": engine, "job_id": "11" if engine == "slurm" else "3.0", "time": 1.0}
        self._write("spec.json", spec_of("a-1", "true", scheduler={"kind": engine, "poll_s": 0.0}))
        self._write("submissions/1/job.json", job)
        self.handed = Handed(self.paths, 1, job)
        self._write("state.json", {"state": "running", "submission": 1, "attempt": 1, "seq": 4})
        self._write("attempts/1/run.json", {"attempt": 1, "submission": 1})
        self._job = subprocess.Popen(
            [sys.executable, "-S", "-c", JOB, self.paths.telemetry, self.paths.output],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def _write(self, name: str, value: object) -> None:
        path = Path(self.paths.folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))

    def leave(self) -> None:
        """Have the supervisor write that it gave the attempt back."""
        self._write("attempts/1/exit.json", {"state": "requeued", "reason": "preempted"})
        self._write("state.json", {"state": "queued", "reason": "preempted", "submission": 1, "attempt": 1, "seq": 6})

    def say_state(self, **state: object) -> None:
        self._write("state.json", state)

    def say_attempt(self, exit_state: str | None, submission: int) -> None:
        self._write("attempts/1/run.json", {"attempt": 1, "submission": submission})
        if exit_state is not None:
            self._write("attempts/1/exit.json", {"state": exit_state})

    def never_begin(self) -> None:
        (Path(self.paths.folder) / "attempts/1/run.json").unlink()
        (Path(self.paths.folder) / "attempts/1").rmdir()
        (Path(self.paths.folder) / "state.json").unlink()

    def say(self, name: str, text: str, code: int = 0, beside: str = "") -> None:
        for end, content in (("out", text), ("code", str(code)), ("err", beside)):
            (self.folder / f"{name}.{end}").write_text(content)

    def log(self, text: str) -> None:
        Path(self.handed.file("job.log")).write_text(text)

    def beat(self) -> None:
        assert self._job.stdin is not None
        assert self._job.stdout is not None
        self._job.stdin.write("write\n")
        self._job.stdin.flush()
        assert self._job.stdout.readline() == "written\n"

    def look(self, clock: Clock | None = None) -> dict[str, Any]:
        engine = slurm if self.engine == "slurm" else htcondor
        seen: dict[str, Any] = engine.look(self.handed, 0.0, clock or self.clock)
        return seen

    def live(self, seconds: int, every_s: int = 20) -> list[str]:
        """Look every while at a job that writes; what was believed each time."""
        return self._watch(seconds, every_s, beats=True)

    def be_silent(self, seconds: int, every_s: int = 20) -> list[str]:
        return self._watch(seconds, every_s, beats=False)

    def _watch(self, seconds: int, every_s: int, *, beats: bool) -> list[str]:
        seen = []
        for _ in range(0, seconds, every_s):
            self.clock.seconds += every_s
            if beats:
                self.beat()
            seen.append(self.look()["state"])
        return seen

    def end(self) -> None:
        self._job.kill()
        self._job.communicate()


@pytest.fixture(params=["slurm"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster(tmp_path, request.param)
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    yield made
    made.end()


on_htcondor = pytest.mark.parametrize("cluster", ["htcondor"], indirect=True)

LIES = {
    "an empty answer": ("", "", INVALID, "gone"),
    "a part of the answer": (OTHERS, "", INVALID, "gone"),
    "another user's answer": ("901|RUNNING|None|n7|train\n902|PENDING|Resources||train\n", "", INVALID, "gone"),
    "an answer of an hour ago": (MINE.format("PENDING"), "", INVALID, "pending"),
    "an error in the place of the answer": (SILENT, "", SILENT, "unknown"),
    "an error beside an empty answer": ("", SILENT, SILENT, "unknown"),
    "an answer cut in the middle of a line": (OTHERS + "11|RUNN", "", INVALID, "unknown"),
    "an answer cut at the end of a line": (OTHERS, "", SILENT, "unknown"),
    "a controller restored from an old state": ("", "", INVALID, "gone"),
    "a controller that gives ids anew": ("", "", SHOWN.format(name="train", state="RUNNING"), "gone"),
    "a cancelled job that goes on": (MINE.format("CANCELLED by 0"), "", INVALID, "ended"),
    "a failed node that works": (MINE.format("NODE_FAIL"), "", INVALID, "ended"),
    "a hold of a job that goes on": ("11|PENDING|JobHeldAdmin||armada.a-1.1\n", "", INVALID, "held"),
    "a word of a Slurm to come": (MINE.format("HIBERNATING"), "", INVALID, "unknown"),
}


@pytest.mark.parametrize(("queue", "beside", "by_id", "after"), LIES.values(), ids=LIES)
def test_no_lie_of_the_queue_ends_a_job_that_writes(
    cluster: Cluster, queue: str, beside: str, by_id: str, after: str
) -> None:
    cluster.say("squeue", MINE.format("RUNNING"))
    assert set(cluster.live(60)) == {"running"}
    cluster.say("squeue", queue, beside=beside)
    cluster.say("scontrol", by_id, code=1 if by_id in (INVALID, SILENT) else 0)
    believed = cluster.live(1200)
    assert set(believed) <= {"running", "unknown", "ending"}, believed
    assert set(believed[2:]) == ({"unknown"} if "HIBERNATING" in queue else {"running"}), believed
    cluster.beat()
    silent = cluster.be_silent(300)
    assert silent[-1] == ("running" if queue == SILENT else after), silent  # an error leaves what was said before it
    if after in ("gone", "ended"):
        assert silent.index(after) >= 60 // 20, silent
    cluster.beat()
    cluster.say("squeue", MINE.format("RUNNING"))
    assert cluster.live(20) == ["running"]


def test_what_contradicts_the_scheduler_is_said_with_both_words(cluster: Cluster) -> None:
    cluster.say("squeue", MINE.format("CANCELLED by 0"))
    cluster.live(60)
    cluster.clock.seconds += 4
    seen = cluster.look()
    assert (seen["state"], seen["detail"]) == ("running", "CANCELLED")
    assert seen["message"] == "Slurm says “CANCELLED”, but its job wrote 4 s ago"


def test_a_job_that_is_gone_and_writes_again_runs(cluster: Cluster) -> None:
    cluster.say("scontrol", INVALID, code=1)
    cluster.beat()
    assert cluster.be_silent(300)[-1] == "gone"
    assert cluster.live(20) == ["running"]
    assert cluster.be_silent(100)[-1] == "unknown"  # counted anew


def test_a_job_that_the_queue_leaves_out_is_found_by_its_id(cluster: Cluster) -> None:
    cluster.say("scontrol", SHOWN.format(name="armada.a-1.1", state="RUNNING"))
    cluster.beat()
    seen = cluster.be_silent(3600, every_s=120)
    assert seen[-1] == "running"
    assert set(seen) <= {"unknown", "running"}


def test_a_waiting_job_is_gone_only_when_its_id_is_unknown_too(cluster: Cluster) -> None:
    cluster.never_begin()
    cluster.say("scontrol", SHOWN.format(name="armada.a-1.1", state="PENDING"))
    assert cluster.be_silent(600)[-1] == "pending"
    cluster.say("scontrol", SILENT, code=1)
    assert cluster.be_silent(600)[-1] == "unknown"
    cluster.say("scontrol", INVALID, code=1)
    assert cluster.be_silent(600)[-1] == "gone"


@pytest.mark.parametrize("state", ["RUNNING", "PENDING"])
def test_a_record_that_says_it_runs_is_no_end(cluster: Cluster, state: str) -> None:
    cluster.say("scontrol", INVALID, code=1)
    cluster.say("sacct", f"11|{state}|0:0|2026-11-20T15:00:17|n1|armada.a-1.1\n")
    cluster.beat()
    seen = cluster.be_silent(1200)
    assert set(seen) == {"unknown"}
    assert f"accounting says {state}" in cluster.look()["error"]
    assert cluster.be_silent(3600, every_s=300)[-1] == "gone"


def test_a_requeued_job_whose_supervisor_left_waits_at_once(cluster: Cluster) -> None:
    cluster.say("squeue", MINE.format("RUNNING"))
    cluster.live(60)
    cluster.leave()
    cluster.say("squeue", "11|PENDING|BeginTime||armada.a-1.1\n")
    assert cluster.be_silent(20) == ["pending"]


@pytest.mark.parametrize("shown", [MINE.format("FAILED"), ""], ids=["as failed", "not at all"])
def test_a_job_that_slurm_shows_otherwise_until_its_node_is_cleared_goes_back(cluster: Cluster, shown: str) -> None:
    """Slurm 24 was seen to show a job as FAILED for some seconds while it put it back."""
    cluster.say("squeue", MINE.format("RUNNING"))
    cluster.live(60)
    cluster.leave()
    cluster.say("squeue", shown)
    assert set(cluster.be_silent(60)) == {"unknown"}
    if shown:
        words = "Slurm says “FAILED”; its supervisor wrote that it goes back: in 20 s it shows whether it does"
        assert cluster.look()["message"] == words
    cluster.say("squeue", "11|PENDING|BeginTime||armada.a-1.1\n")
    assert cluster.be_silent(20) == ["pending"]
    cluster.say("squeue", MINE.format("FAILED"))
    assert cluster.be_silent(120)[-1] == "ended"


def test_a_job_whose_supervisor_left_before_it_began_goes_back(cluster: Cluster) -> None:
    cluster.never_begin()
    cluster.say_state(state="queued", submission=1, attempt=0, seq=2)
    cluster.say("squeue", MINE.format("FAILED"))
    assert set(cluster.be_silent(60)) == {"unknown"}
    cluster.say_state(state="queued", submission=0, attempt=0, seq=2)
    assert cluster.be_silent(40)[-1] == "ended"


@pytest.mark.parametrize(
    ("exit_state", "submission", "wrote"),
    [("requeued", 1, "goes back"), ("failed", 1, "unbegun"), ("requeued", 7, "unbegun"), (None, 1, "begun"), (None, 7, "unbegun")],
)  # fmt: skip
def test_only_the_newest_attempt_of_the_submission_says_that_its_job_goes_back(
    cluster: Cluster, exit_state: str | None, submission: int, wrote: str
) -> None:
    cluster.say_attempt(exit_state, submission)
    assert signs.last_word(cluster.paths, 1) == wrote


def test_a_job_whose_node_died_waits_once_it_is_silent(cluster: Cluster) -> None:
    cluster.say("squeue", MINE.format("RUNNING"))
    cluster.live(60)
    cluster.say("squeue", "11|PENDING|BeginTime||armada.a-1.1\n")
    seen = cluster.be_silent(120)
    assert seen[0] == "unknown"
    assert seen[-1] == "pending"


def test_two_machines_with_other_clocks_each_count_for_themselves(cluster: Cluster) -> None:
    cluster.say("scontrol", INVALID, code=1)
    other = Clock("two")
    other.seconds = 9e6
    for _ in range(20):
        cluster.clock.seconds += 6
        other.seconds += 1
        assert cluster.look()["state"] == "unknown"
        assert cluster.look(other)["state"] == "unknown"
    assert cluster.be_silent(180)[-1] == "gone"
    assert cluster.look(other)["state"] == "unknown"


def test_a_heartbeat_alone_is_a_sign_of_life(cluster: Cluster) -> None:
    cluster.say("scontrol", INVALID, code=1)
    before = signs.sign(cluster.paths)
    (Path(cluster.paths.folder) / "heartbeat-3.json").write_text("{}")
    assert signs.sign(cluster.paths) != before


def test_of_many_missing_jobs_each_look_asks_for_one_by_its_id(cluster: Cluster) -> None:
    """Whoever looks waits for twenty seconds, and a slow controller takes four for each such question."""
    cluster.never_begin()
    cluster.say("scontrol", INVALID, code=1)
    another = Handed(RunPaths(cluster.paths.root, "a-2"), 1, {"job_id": "12", "time": 1.0})
    Path(another.file("")).mkdir(parents=True)
    seen = []
    for _ in range(6):
        cluster.clock.seconds += 15
        seen.append([slurm.look(each, 0.0, cluster.clock)["state"] for each in (another, cluster.handed)])
    assert seen == [["unknown"] * 2] * 2 + [["gone", "unknown"]] + [["gone"] * 2] * 3


def test_a_text_without_any_job_is_no_answer() -> None:
    with pytest.raises(engines.EngineError, match="Unable to contact"):
        slurm.parse_queue(SILENT)
    assert slurm.parse_queue("").doubt is None
    assert slurm.parse_queue("", SILENT).doubt is not None
    cut = slurm.parse_queue(OTHERS + MINE.format("RUNNING").rstrip("\n")[:-3])
    assert (list(cut.rows), cut.doubt is None) == (["armada.b-1.1", "my notebook"], False)


@on_htcondor
@pytest.mark.parametrize(
    ("said", "after"),
    [(EVICTED, "pending"), (HELD, "held"), (REMOVED, "ended"), (TERMINATED, "ended")],
)
def test_no_event_ends_a_job_that_writes(cluster: Cluster, said: str, after: str) -> None:
    cluster.log(SUBMITTED + EXECUTING)
    assert set(cluster.live(60)) == {"running"}
    cluster.log(SUBMITTED + EXECUTING + said)
    if after in ("pending", "held"):
        assert "its supervisor wrote “running”: in 60 s it shows" in cluster.look()["message"]
    believed = cluster.live(600)
    assert set(believed[2:]) == {"running"}, believed
    assert "but its job wrote" in cluster.look()["message"]
    assert cluster.be_silent(120)[-1] == after
    cluster.leave()
    cluster.log(SUBMITTED + EXECUTING + said)
    assert cluster.be_silent(20) == [after]


@on_htcondor
def test_the_events_of_another_job_count_for_nothing(cluster: Cluster) -> None:
    cluster.log(SUBMITTED + EXECUTING + (SUBMITTED + TERMINATED).replace("(003.", "(030."))
    assert set(cluster.be_silent(600)) == {"running"}


@on_htcondor
def test_an_event_log_that_is_lost_or_cut_ends_nothing(cluster: Cluster) -> None:
    cluster.log(SUBMITTED + EXECUTING)
    assert cluster.be_silent(20) == ["running"]
    Path(cluster.handed.file("job.log")).unlink()
    assert "running" in cluster.live(600)
    assert set(cluster.be_silent(600)[3:]) == {"unknown"}
    assert "its event log is not there" in cluster.look()["error"]
    cluster.log("")
    assert set(cluster.be_silent(600)) == {"unknown"}
    assert "the queue cannot be asked" in cluster.look()["error"]
    cluster.log((REMOVED * 9).replace("(003.", "(030."))
    assert set(cluster.be_silent(600)) == {"unknown"}


@on_htcondor
@pytest.mark.parametrize(
    ("queued", "recorded", "state", "reason", "words"),
    [
        ("2\n", None, "running", None, "running by condor_q; its event log is not there: "),
        ("1\n", None, "pending", None, "idle by condor_q; its event log is not there: "),
        ("5\n", None, "held", None, "held by condor_q; "),
        ("3\n", None, "ended", "removed", "removed by condor_q; "),
        ("9\n", None, "unknown", None, "a JobStatus that is not known here, 9 by condor_q; "),
        ("", "4\n", "ended", "ended_silently", "completed by condor_history"),
        ("", "3\n", "ended", "removed", "removed by condor_history"),
        ("", "2\n", "unknown", None, None),
        ("", "", "gone", None, None),
        ("", None, "gone", None, None),
    ],
)
def test_where_its_event_log_is_lost_the_queue_is_asked(
    cluster: Cluster, queued: str, recorded: str | None, state: str, reason: str | None, words: str | None
) -> None:
    cluster.say("condor_q", queued)
    cluster.say("condor_history", recorded or "", code=1 if recorded is None else 0)
    assert set(cluster.be_silent(160)) == {"unknown"}
    assert cluster.be_silent(60)[-1] == state
    seen = cluster.look()
    assert seen["reason"] == reason
    assert (seen["error"] is not None) == (state == "unknown")
    assert (seen["message"] or "").startswith(words or "")
    assert words or not seen["message"]
    cluster.beat()
    assert cluster.look()["state"] == "running"
    cluster.log(SUBMITTED + EXECUTING)
    assert cluster.be_silent(20) == ["running"]


@on_htcondor
def test_an_event_log_that_was_deleted_and_begun_anew_is_read_from_its_beginning(cluster: Cluster) -> None:
    cluster.log(SUBMITTED + EXECUTING)
    assert cluster.be_silent(20) == ["running"]
    log = Path(cluster.handed.file("job.log"))
    log.rename(log.with_name("old.log"))  # so that the new one has another inode for certain
    cluster.leave()
    cluster.log(EVICTED + SUBMITTED.replace("(003.", "(030.") * 9)
    assert cluster.be_silent(20) == ["pending"]


@on_htcondor
@pytest.mark.parametrize(
    "kept",
    [{"offset": -3, "seen": {}}, {"offset": "x", "seen": {}}, {"offset": 9, "seen": 7}, {"offset": 9, "seen": {"state": 5}}, {}],
)  # fmt: skip
def test_what_was_kept_of_an_event_log_and_is_damaged_counts_for_nothing(
    cluster: Cluster, kept: dict[str, Any]
) -> None:
    cluster.log(SUBMITTED + EXECUTING)
    Path(cluster.handed.file("watch.json")).write_text(json.dumps(kept))
    assert cluster.look()["detail"] == "executing"


@on_htcondor
def test_half_an_event_is_read_once_it_is_whole(cluster: Cluster) -> None:
    cluster.log(SUBMITTED + EXECUTING[:20])
    assert cluster.look()["detail"] == "submitted"
    cluster.log(SUBMITTED + EXECUTING)
    assert cluster.look()["detail"] == "executing"


@on_htcondor
def test_an_event_log_that_is_shorter_than_it_was_is_read_from_its_beginning(cluster: Cluster) -> None:
    cluster.leave()
    cluster.log(SUBMITTED + EXECUTING + EVICTED)
    assert cluster.look()["state"] == "pending"
    cluster.log(HELD)
    assert cluster.look()["state"] == "held"


@on_htcondor
def test_an_event_log_that_was_seen_is_missed_even_where_no_job_is_known(cluster: Cluster) -> None:
    cluster.never_begin()
    cluster.handed = Handed(cluster.paths, 1, {"submission": 1, "scheduler": "htcondor", "time": 1.0})
    cluster.log(SUBMITTED)
    assert cluster.look()["state"] == "pending"
    Path(cluster.handed.file("job.log")).unlink()
    assert "its event log is not there" in cluster.look()["error"]


@on_htcondor
def test_of_many_jobs_without_a_log_one_is_asked_for_at_a_time(cluster: Cluster) -> None:
    cluster.never_begin()
    another = Handed(RunPaths(cluster.paths.root, "a-2"), 1, {"job_id": "4.0", "time": 1.0})
    Path(another.file("")).mkdir(parents=True)
    cluster.say("condor_q", "1\n")
    seen: list[dict[str, Any]] = []
    while not seen or seen[0]["state"] == "unknown":
        cluster.clock.seconds += 15
        seen = [htcondor.look(each, 0.0, cluster.clock) for each in (another, cluster.handed)]
    assert [each["state"] for each in seen] == ["pending", "unknown"]
    assert seen[1]["error"] == f"its event log is not there: {cluster.handed.file('job.log')}"


@on_htcondor
@pytest.mark.parametrize(
    ("said", "is_told"),
    [("Job 3.0 not found", False), ("Couldn't find/remove all jobs matching", False), ("DCSchedd: permission denied", True)],
)  # fmt: skip
def test_a_job_that_is_gone_needs_no_removal(cluster: Cluster, said: str, is_told: bool) -> None:
    cluster.say("condor_rm", "", code=1, beside=said)
    with pytest.raises(engines.EngineError, match="permission denied") if is_told else contextlib.nullcontext():
        htcondor.cancel(cluster.handed, {}, 0.0)


@on_htcondor
def test_a_job_that_waits_for_days_is_not_asked_for(cluster: Cluster) -> None:
    cluster.never_begin()
    cluster.log(SUBMITTED)
    os.utime(cluster.handed.file("job.log"), (1.0, 1.0))
    cluster.say("condor_q", "5\n")
    assert set(cluster.be_silent(600)) == {"pending"}


@on_htcondor
def test_what_was_remembered_of_a_doubt_goes_with_it(cluster: Cluster) -> None:
    log = Path(cluster.handed.file("job.log"))
    cluster.log(SUBMITTED + EXECUTING)
    seen_at = cluster.look()["seen_at"]
    log.rename(log.with_name("old.log"))
    away = cluster.look()
    assert away["seen_at"] <= seen_at  # when the log was last read
    assert Path(cluster.handed.file("liveness.json")).exists()
    cluster.beat()
    alive = cluster.look()
    assert (alive["state"], alive["message"]) == ("running", None)
    assert alive["error"].startswith("its event log is not there: ")
    log.with_name("old.log").rename(log)
    assert cluster.look()["state"] == "running"
    assert not Path(cluster.handed.file("liveness.json")).exists()


@on_htcondor
def test_a_silent_job_is_asked_for_although_its_event_log_says_that_it_runs(cluster: Cluster) -> None:
    cluster.log(SUBMITTED + EXECUTING)
    cluster.beat()
    for path in (cluster.paths.telemetry, cluster.handed.file("job.log")):
        os.utime(path, (1.0, 1.0))
    cluster.say("condor_q", "", code=1)
    assert cluster.be_silent(300)[-1] == "unknown"
    assert "the queue cannot be asked" in cluster.look()["error"]
    suspended = (
        "010 (003.000.000) 2026-11-18 14:00:40 Job was suspended.\n\tNumber of processes actually suspended: 3\n"
    )
    cluster.log(SUBMITTED + EXECUTING + suspended + "...\n")
    cluster.beat()
    for path in (cluster.paths.telemetry, cluster.handed.file("job.log")):
        os.utime(path, (1.0, 1.0))
    cluster.say("condor_q", "7\n")
    assert cluster.be_silent(200)[-1] == "running"
    by_log = "Number of processes actually suspended: 3"
    silence = "its event log says that it runs, and nothing of it was written for minutes"
    assert cluster.look()["message"] == f"{by_log}; suspended by condor_q; {silence}"
    assert cluster.look()["detail"] == "suspended"
    cluster.say("condor_q", "")
    cluster.say("condor_history", "")
    assert cluster.be_silent(200)[-1] == "gone"
    cluster.beat()
    assert cluster.look()["state"] == "running"
