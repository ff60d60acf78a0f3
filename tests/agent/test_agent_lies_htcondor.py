"""HTCondor, whose event log says what is not so, or is not there: what is believed, and when the queue is asked."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from armada_agent.engines import engine, htcondor
from armada_agent.engines.engine import Handed
from armada_agent.paths import RunPaths

from tests.agent.doubted_job import DoubtedJob
from tests.agent.test_agent_htcondor import EVICTED, EXECUTING, HELD, REMOVED, SUBMITTED, TERMINATED

pytestmark = pytest.mark.parametrize("cluster", ["htcondor"], indirect=True)


@pytest.mark.parametrize(
    ("said", "after"),
    [(EVICTED, "pending"), (HELD, "held"), (REMOVED, "ended"), (TERMINATED, "ended")],
)
def test_no_event_ends_a_job_that_writes(cluster: DoubtedJob, said: str, after: str) -> None:
    cluster.log(SUBMITTED + EXECUTING)
    assert set(cluster.live(60)) == {"running"}
    cluster.log(SUBMITTED + EXECUTING + said)
    if after in ("pending", "held"):
        assert "its supervisor wrote “running”: armada knows in 60 s whether" in cluster.look()["message"]
    believed = cluster.live(600)
    assert set(believed[2:]) == {"running"}, believed
    assert "but its job wrote" in cluster.look()["message"]
    assert after not in cluster.be_silent({"ended": 160}.get(after, 40))
    assert cluster.be_silent(20) == [after]
    cluster.leave()
    cluster.log(SUBMITTED + EXECUTING + EVICTED + said)
    assert cluster.be_silent(20) == [after]


def test_the_queue_says_whether_a_job_went_back_that_its_log_calls_removed_as_it_ran(cluster: DoubtedJob) -> None:
    cluster.leave()
    cluster.log(SUBMITTED + EXECUTING + REMOVED)
    assert set(cluster.be_silent(60)) == {"unknown"}
    assert "its supervisor wrote that it returns to the queue" in cluster.look()["message"]
    cluster.say("condor_q", "1\n")
    assert cluster.be_silent(60)[-1] == "pending"
    words = "its event log says that it was removed while it ran, and its supervisor wrote that it returns to the queue"
    assert cluster.look()["message"] == f"idle by condor_q; {words}"
    cluster.say("condor_q", "")
    cluster.say("condor_history", "3\n")
    assert cluster.be_silent(120)[-1] == "ended"
    cluster.log(SUBMITTED + EXECUTING + REMOVED + EVICTED)  # it was late, and the schedd forgot what it had said
    assert cluster.be_silent(20) == ["pending"]


def say_quiet_for(cluster: DoubtedJob, seconds: float) -> None:
    kept = Path(cluster.handed.file("watch.json"))
    told = json.loads(kept.read_text())
    kept.write_text(json.dumps({**told, "seen": {**told["seen"], "at": time.time() - seconds}}))


@pytest.mark.parametrize(("log", "state"), [(SUBMITTED + EXECUTING + EVICTED, "pending"), (SUBMITTED + HELD, "held")])
def test_a_job_that_waits_for_an_hour_is_looked_for_in_the_queue(cluster: DoubtedJob, log: str, state: str) -> None:
    cluster.leave()
    cluster.log(log)
    cluster.say("condor_q", "armada.b-1.1\n")
    assert set(cluster.be_silent(300)) == {state}
    say_quiet_for(cluster, 3500)
    assert set(cluster.be_silent(300)) == {state}
    cluster.say("condor_q", "", code=1)
    say_quiet_for(cluster, 3700)
    assert set(cluster.be_silent(300)) == {state}  # the queue does not answer
    cluster.clock.seconds += 900
    cluster.say("condor_q", "armada.b-1.1\narmada.a-1.1\n")
    assert set(cluster.be_silent(300)) == {state}
    cluster.say("condor_q", "")
    assert set(cluster.be_silent(300)) == {state}  # it was listed just now
    cluster.clock.seconds += 900
    cluster.say("condor_history", "3\n")
    seen = cluster.be_silent(400)
    assert seen[0] == state
    assert seen[-1] == "ended"
    assert cluster.look()["reason"] == "removed"
    cluster.log(log + EXECUTING)
    assert cluster.be_silent(20) == ["running"]


def test_a_log_that_was_read_by_a_clock_that_was_set_back_is_quiet_from_now_on(cluster: DoubtedJob) -> None:
    cluster.leave()
    cluster.log(SUBMITTED)
    cluster.say("condor_q", "1\n")
    cluster.look()
    say_quiet_for(cluster, -90_000)
    cluster.look()
    seen = json.loads(Path(cluster.handed.file("watch.json")).read_text())["seen"]
    assert seen["at"] <= time.time()


@pytest.mark.parametrize(("wrote", "until_then"), [("running", "unknown"), ("queued", "pending")])
def test_a_log_that_says_less_than_the_supervisor_wrote_counts_as_missing(
    cluster: DoubtedJob, wrote: str, until_then: str
) -> None:
    cluster.log(SUBMITTED)
    if wrote == "queued":
        cluster.leave()
    cluster.say("condor_q", "")
    cluster.say("condor_history", "4\n")
    seen = cluster.be_silent(400)
    assert set(seen[:8]) == {until_then}
    assert seen[-1] == "ended"


def test_the_events_of_another_job_count_for_nothing(cluster: DoubtedJob) -> None:
    cluster.log(SUBMITTED + EXECUTING + (SUBMITTED + TERMINATED).replace("(003.", "(030."))
    assert set(cluster.be_silent(600)) == {"running"}


def test_an_event_log_that_is_lost_or_cut_ends_nothing(cluster: DoubtedJob) -> None:
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


@pytest.mark.parametrize(
    ("queued", "recorded", "state", "reason", "words"),
    [
        ("2\n", None, "running", None, "running by condor_q; its event log is not there: "),
        ("1\n", None, "pending", None, "idle by condor_q; its event log is not there: "),
        ("5\n", None, "held", None, "held by condor_q; "),
        ("3\n", None, "ended", "removed", "removed by condor_q; "),
        ("9\n", None, "unknown", None, "an unknown JobStatus, 9 by condor_q; "),
        ("", "4\n", "ended", "ended_silently", "completed by condor_history"),
        ("", "3\n", "ended", "removed", "removed by condor_history"),
        ("", "2\n", "unknown", None, None),
        ("", "", "gone", None, None),
        ("", None, "gone", None, None),
    ],
)
def test_where_its_event_log_is_lost_the_queue_is_asked(
    cluster: DoubtedJob, queued: str, recorded: str | None, state: str, reason: str | None, words: str | None
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


def keep_as_an_older_armada(cluster: DoubtedJob) -> None:
    """Take out of what is kept of the log what only newer ones keep."""
    path = Path(cluster.handed.file("watch.json"))
    kept = json.loads(path.read_text())
    del kept["last"]
    path.write_text(json.dumps(kept))


def test_an_event_log_that_was_overwritten_and_is_longer_now_is_read_from_its_beginning(cluster: DoubtedJob) -> None:
    cluster.never_begin()
    cluster.log(SUBMITTED)
    assert cluster.look()["state"] == "pending"
    cluster.log(EXECUTING + TERMINATED)
    assert Path(cluster.handed.file("job.log")).stat().st_size > len(SUBMITTED)
    assert cluster.look()["state"] == "ended"


def test_what_an_older_armada_read_of_an_event_log_is_not_read_again(cluster: DoubtedJob) -> None:
    cluster.log(SUBMITTED)
    cluster.look()
    keep_as_an_older_armada(cluster)
    path = Path(cluster.handed.file("watch.json"))
    path.write_text(path.read_text().replace('"job_id"', '"noted"'))
    cluster.log(SUBMITTED + EXECUTING)
    assert cluster.look()["detail"] == "executing"
    assert "job_id" not in json.loads(path.read_text())["seen"]  # which only the first event has


@pytest.mark.parametrize("by_older", [False, True])
def test_an_event_log_that_was_deleted_and_begun_anew_is_read_from_its_beginning(
    cluster: DoubtedJob, by_older: bool
) -> None:
    cluster.log(SUBMITTED + EXECUTING)
    assert cluster.be_silent(20) == ["running"]
    if by_older:
        keep_as_an_older_armada(cluster)
    log = Path(cluster.handed.file("job.log"))
    log.rename(log.with_name("old.log"))  # so that the new one has another inode for certain
    cluster.leave()
    cluster.log(EVICTED + SUBMITTED.replace("(003.", "(030.") * 9)
    assert cluster.be_silent(20) == ["pending"]


@pytest.mark.parametrize(
    "kept",
    [
        {"offset": -3, "seen": {}, "last": "x"},
        {"offset": 3, "seen": {}, "last": "x" * 9},
        {"offset": 0, "seen": {}, "last": 7},
        {"offset": -3, "seen": {}},
        {"offset": "x", "seen": {}},
        {"offset": 9, "seen": 7},
        {"offset": len(SUBMITTED + EXECUTING), "seen": {"state": 5}},
        {},
    ],
)
def test_what_was_kept_of_an_event_log_and_is_damaged_counts_for_nothing(
    cluster: DoubtedJob, kept: dict[str, Any]
) -> None:
    cluster.log(SUBMITTED + EXECUTING)
    Path(cluster.handed.file("watch.json")).write_text(json.dumps(kept))
    assert cluster.look()["detail"] == "executing"


def test_half_an_event_is_read_once_it_is_whole(cluster: DoubtedJob) -> None:
    cluster.log(SUBMITTED + EXECUTING[:20])
    for _ in range(2):
        assert cluster.look()["detail"] == "submitted"
    cluster.log(SUBMITTED + EXECUTING)
    assert cluster.look()["detail"] == "executing"


@pytest.mark.parametrize("by_older", [False, True])
def test_an_event_log_that_is_shorter_than_it_was_is_read_from_its_beginning(
    cluster: DoubtedJob, by_older: bool
) -> None:
    cluster.leave()
    cluster.log(SUBMITTED + EXECUTING + EVICTED)
    assert cluster.look()["state"] == "pending"
    if by_older:
        keep_as_an_older_armada(cluster)
    cluster.log(HELD)
    assert cluster.look()["state"] == "held"


def test_an_event_log_that_was_seen_is_missed_even_where_no_job_is_known(cluster: DoubtedJob) -> None:
    cluster.never_begin()
    cluster.handed = Handed(cluster.paths, 1, {"submission": 1, "scheduler": "htcondor", "time": 1.0})
    cluster.log(SUBMITTED)
    assert cluster.look()["state"] == "pending"
    Path(cluster.handed.file("job.log")).unlink()
    assert "its event log is not there" in cluster.look()["error"]


def test_of_many_jobs_without_a_log_one_is_asked_for_at_a_time(cluster: DoubtedJob) -> None:
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


@pytest.mark.parametrize(
    ("said", "is_told"),
    [
        ("Couldn't find/remove all jobs matching constraint", False), ("DCSchedd: permission denied", True),
    ],
)  # fmt: skip
def test_a_job_that_is_gone_or_goes_needs_no_removal(cluster: DoubtedJob, said: str, is_told: bool) -> None:
    cluster.say("condor_rm", "", code=1, beside=said)
    with pytest.raises(engine.EngineError, match="permission denied") if is_told else contextlib.nullcontext():
        htcondor.cancel(cluster.handed, {}, 0.0)


def test_a_job_that_waits_for_days_is_not_asked_for(cluster: DoubtedJob) -> None:
    cluster.never_begin()
    cluster.log(SUBMITTED)
    os.utime(cluster.handed.file("job.log"), (1.0, 1.0))
    cluster.say("condor_q", "5\n")
    assert set(cluster.be_silent(600)) == {"pending"}


def test_what_was_remembered_of_a_doubt_goes_with_it(cluster: DoubtedJob) -> None:
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


def date(cluster: DoubtedJob, seconds_from_now: float) -> None:
    moment = time.time() + seconds_from_now
    for path in (cluster.paths.telemetry, cluster.handed.file("job.log")):
        os.utime(path, (moment, moment))


@pytest.mark.parametrize("ahead_s", [7200.0, 40 * 86_400.0])
def test_a_job_whose_files_are_dated_ahead_is_asked_for_once_it_is_silent(cluster: DoubtedJob, ahead_s: float) -> None:
    cluster.log(SUBMITTED + EXECUTING)
    for _ in range(20):
        cluster.beat()
        date(cluster, ahead_s)
        assert cluster.be_silent(20) == ["running"]
    assert cluster.look()["error"] is None
    cluster.say("condor_q", "", code=1)
    believed = cluster.be_silent(240)
    assert set(believed[:8]) == {"running"}
    assert believed[-1] == "unknown"
    seen = cluster.look()
    assert seen["error"].startswith("its event log says that it runs, but the dates of its files do not show that it")
    assert "the queue cannot be asked" in seen["error"]
    cluster.say("condor_q", "")
    cluster.say("condor_history", "")
    assert cluster.be_silent(100)[-1] == "gone"
    date(cluster, 0.0)
    assert cluster.be_silent(20) == ["running"]
    assert not Path(cluster.handed.file("liveness.json")).exists()


def test_a_clock_that_is_set_back_makes_no_silent_job_fresh(
    cluster: DoubtedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.log(SUBMITTED + EXECUTING)
    cluster.beat()
    date(cluster, -3600.0)
    cluster.say("condor_q", "")
    cluster.say("condor_history", "")
    assert cluster.be_silent(500)[-1] == "gone"
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - 3600.0)
    assert set(cluster.be_silent(200)) == {"gone"}
    cluster.beat()  # by its node's clock, an hour ahead of this one now
    assert cluster.look()["state"] == "running"


@pytest.mark.parametrize("kept", [None, 7, "x", [], {"found": 7}])
def test_what_was_kept_of_dates_and_is_damaged_counts_for_nothing(cluster: DoubtedJob, kept: object) -> None:
    cluster.log(SUBMITTED + EXECUTING)
    cluster.beat()
    reader = {"boot": cluster.clock.boot, "watch": {}, "dates": kept}
    Path(cluster.handed.file("liveness.json")).write_text(json.dumps({"format": 1, "readers": [reader]}))
    assert cluster.be_silent(20) == ["running"]
    assert not Path(cluster.handed.file("liveness.json")).exists()


def test_a_silent_job_is_asked_for_although_its_event_log_says_that_it_runs(cluster: DoubtedJob) -> None:
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
    silence = "its event log says that it runs, but its files have not changed for minutes"
    assert cluster.look()["message"] == f"{by_log}; suspended by condor_q; {silence}"
    assert cluster.look()["detail"] == "suspended"
    cluster.say("condor_q", "")
    cluster.say("condor_history", "")
    assert cluster.be_silent(200)[-1] == "gone"
    cluster.beat()
    assert cluster.look()["state"] == "running"


def test_a_log_that_says_less_than_the_supervisor_wrote_is_not_believed_once_the_job_is_silent(
    cluster: DoubtedJob,
) -> None:
    """A log that was restored from an older copy says for ever that the job waits."""
    cluster.log(SUBMITTED)
    assert "running" in cluster.live(600)
    cluster.say("condor_q", "")
    cluster.say("condor_history", "4\n")
    assert cluster.be_silent(120)[-1] == "unknown"
    assert "has yet to start, but its supervisor wrote “running”" in cluster.look()["error"]
    assert cluster.be_silent(200)[-1] == "ended"
    assert cluster.look()["message"] == "completed by condor_history"
