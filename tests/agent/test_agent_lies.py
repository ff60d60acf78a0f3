"""Batch systems that lie about a job, or say nothing: what is believed while the job writes, and after it has stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from armada_agent.engines import engine, job_activity, slurm, slurm_answers
from armada_agent.engines.engine import Handed
from armada_agent.paths import RunPaths

from tests.agent.doubted_job import INVALID, MINE, OTHERS, SHOWN, SILENT, Clock, DoubtedJob

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
    cluster: DoubtedJob, queue: str, beside: str, by_id: str, after: str
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


def test_what_contradicts_the_scheduler_is_said_with_both_words(cluster: DoubtedJob) -> None:
    cluster.say("squeue", MINE.format("CANCELLED by 0"))
    cluster.live(60)
    cluster.clock.seconds += 4
    seen = cluster.look()
    assert (seen["state"], seen["detail"]) == ("running", "CANCELLED")
    assert seen["message"] == "Slurm says “CANCELLED”, but its job wrote 4 s ago"


def test_a_job_that_is_gone_and_writes_again_runs(cluster: DoubtedJob) -> None:
    cluster.say("scontrol", INVALID, code=1)
    cluster.beat()
    assert cluster.be_silent(300)[-1] == "gone"
    assert cluster.live(20) == ["running"]
    assert cluster.be_silent(100)[-1] == "unknown"  # counted anew


def test_a_job_that_the_queue_leaves_out_is_found_by_its_id(cluster: DoubtedJob) -> None:
    cluster.say("scontrol", SHOWN.format(name="armada.a-1.1", state="RUNNING"))
    cluster.beat()
    seen = cluster.be_silent(3600, every_s=120)
    assert seen[-1] == "running"
    assert set(seen) <= {"unknown", "running"}


def test_a_waiting_job_is_gone_only_when_its_id_is_unknown_too(cluster: DoubtedJob) -> None:
    cluster.never_begin()
    cluster.say("scontrol", SHOWN.format(name="armada.a-1.1", state="PENDING"))
    assert cluster.be_silent(600)[-1] == "pending"
    cluster.say("scontrol", SILENT, code=1)
    assert cluster.be_silent(600)[-1] == "unknown"
    cluster.say("scontrol", INVALID, code=1)
    assert cluster.be_silent(600)[-1] == "gone"


@pytest.mark.parametrize("state", ["RUNNING", "PENDING"])
def test_a_record_that_says_it_runs_is_no_end(cluster: DoubtedJob, state: str) -> None:
    cluster.say("scontrol", INVALID, code=1)
    cluster.say("sacct", f"11|{state}|0:0|2026-11-20T15:00:17|n1|armada.a-1.1\n")
    cluster.beat()
    seen = cluster.be_silent(1200)
    assert set(seen) == {"unknown"}
    assert f"accounting says {state}" in cluster.look()["error"]
    assert cluster.be_silent(3600, every_s=300)[-1] == "gone"


def test_a_requeued_job_whose_supervisor_left_waits_at_once(cluster: DoubtedJob) -> None:
    cluster.say("squeue", MINE.format("RUNNING"))
    cluster.live(60)
    cluster.leave()
    cluster.say("squeue", "11|PENDING|BeginTime||armada.a-1.1\n")
    assert cluster.be_silent(20) == ["pending"]


@pytest.mark.parametrize("shown", [MINE.format("FAILED"), ""], ids=["as failed", "not at all"])
def test_a_job_that_slurm_shows_otherwise_until_its_node_is_cleared_goes_back(cluster: DoubtedJob, shown: str) -> None:
    """Slurm 24 was seen to show a job as FAILED for some seconds while it put it back."""
    cluster.say("squeue", MINE.format("RUNNING"))
    cluster.live(60)
    cluster.leave()
    cluster.say("squeue", shown)
    assert set(cluster.be_silent(60)) == {"unknown"}
    if shown:
        words = "Slurm says “FAILED”; its supervisor wrote that it returns to the queue: armada knows in 20 s whether it does"
        assert cluster.look()["message"] == words
    cluster.say("squeue", "11|PENDING|BeginTime||armada.a-1.1\n")
    assert cluster.be_silent(20) == ["pending"]
    cluster.say("squeue", MINE.format("FAILED"))
    assert cluster.be_silent(120)[-1] == "ended"


def test_a_job_whose_supervisor_left_before_it_began_goes_back(cluster: DoubtedJob) -> None:
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
    cluster: DoubtedJob, exit_state: str | None, submission: int, wrote: str
) -> None:
    cluster.say_attempt(exit_state, submission)
    assert job_activity.last_word(cluster.paths, 1) == wrote


def test_an_end_that_the_next_attempt_wrote_does_not_say_that_this_one_left(cluster: DoubtedJob) -> None:
    cluster.say_attempt("requeued", 1, reason="lost")
    assert job_activity.last_word(cluster.paths, 1) == "begun"
    cluster.say_attempt("requeued", 1, reason="preempted")
    assert job_activity.last_word(cluster.paths, 1) == "goes back"


def test_a_resumed_job_whose_supervisor_left_before_its_first_attempt_goes_back(cluster: DoubtedJob) -> None:
    cluster.say_attempt("cancelled", 0)  # the former submission's
    cluster.say_state(state="queued", submission=1, attempt=0, seq=9)
    assert job_activity.last_word(cluster.paths, 1) == "goes back"
    cluster.say_state(state="cancelled", submission=0, attempt=1, seq=9)
    assert job_activity.last_word(cluster.paths, 1) == "unbegun"


@pytest.mark.parametrize(("exit_of", "wrote"), [(1, "unbegun"), (7, "begun")])
def test_an_exit_that_names_another_submission_is_none(cluster: DoubtedJob, exit_of: int, wrote: str) -> None:
    cluster.say_attempt("failed", 1, exit_of)
    assert job_activity.last_word(cluster.paths, 1) == wrote


def test_a_job_whose_node_died_waits_once_it_is_silent(cluster: DoubtedJob) -> None:
    cluster.say("squeue", MINE.format("RUNNING"))
    cluster.live(60)
    cluster.say("squeue", "11|PENDING|BeginTime||armada.a-1.1\n")
    seen = cluster.be_silent(120)
    assert seen[0] == "unknown"
    assert seen[-1] == "pending"


def test_two_machines_with_other_clocks_each_count_for_themselves(cluster: DoubtedJob) -> None:
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


def test_a_heartbeat_alone_is_a_sign_of_life(cluster: DoubtedJob) -> None:
    cluster.say("scontrol", INVALID, code=1)
    before = job_activity.sign(cluster.paths)
    (Path(cluster.paths.folder) / "heartbeat-3.json").write_text("{}")
    assert job_activity.sign(cluster.paths) != before


def test_of_many_missing_jobs_each_look_asks_for_one_by_its_id(cluster: DoubtedJob) -> None:
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
    with pytest.raises(engine.EngineError, match="Unable to contact"):
        slurm_answers.parse_queue(SILENT)
    assert slurm_answers.parse_queue("").doubt is None
    assert slurm_answers.parse_queue("", SILENT).doubt is not None
    cut = slurm_answers.parse_queue(OTHERS + MINE.format("RUNNING").rstrip("\n")[:-3])
    assert (list(cut.rows), cut.doubt is None) == (["armada.b-1.1", "my notebook"], False)
