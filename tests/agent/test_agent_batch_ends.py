"""What a supervisor on a worker makes of an end: who asked for it, whose run it is by then, and whether it goes back."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from armada_agent.paths import RunPaths
from armada_agent.records.ending import Ending
from armada_agent.records.journal import Journal

from armada.verdicts.state import decide
from tests.agent.batch_worker import NO_RESUME, RESUME, SAVING, Worker, told
from tests.answers import observation
from tests.waiting import WITHIN_S, eventually

MakeWorker = Callable[[str], Worker]
WAITING = "touch up-$ARMADA_ATTEMPT; until [ -e end-$ARMADA_ATTEMPT ]; do sleep 0.05; done; test -s end-$ARMADA_ATTEMPT || exit 3"
STOP = '{"time": 1, "grace_s": 5.0, "submission": 1}'


def up(there: Worker, run_id: str, attempt: int = 1) -> None:
    eventually((there.host.folder(run_id) / f"work/up-{attempt}").exists)
    eventually((there.host.folder(run_id) / f"attempts/{attempt}/run.json").exists)  # written once the job is started


def let_end(there: Worker, run_id: str, attempt: int, words: str = "") -> None:
    """Let a waiting job end: well if there are words. It must not see the file before them."""
    work = there.host.folder(run_id) / "work"
    (work / ".end").write_text(words)
    (work / ".end").rename(work / f"end-{attempt}")


def test_a_run_that_was_never_handed_over_is_not_begun(worker: MakeWorker, capfd: pytest.CaptureFixture[str]) -> None:
    there = worker("slurm")
    there.claim("e-0", 1)  # without a plan
    assert there.begin("e-0").wait(WITHIN_S) == 1
    assert "submission 1 of e-0 was never claimed" in capfd.readouterr().err
    there.hand_over("e-1", "true", watch=NO_RESUME)
    assert there.begin("e-1", submission=2).wait(WITHIN_S) == 1
    assert "submission 2 of e-1 was never claimed" in capfd.readouterr().err
    assert list((there.host.folder("e-1") / "attempts").iterdir()) == []


def test_of_two_jobs_of_one_submission_the_first_runs_and_comes_back(worker: MakeWorker) -> None:
    there = worker("htcondor")
    there.hand_over("e-2", "exit 3", watch=NO_RESUME, scheduler={"max_retries": 1})
    assert there.begin("e-2", job=7).wait(WITHIN_S) == 85
    assert there.begin("e-2", job=8).wait(WITHIN_S) == 0
    assert told(there, "e-2") == ("queued", "exit_3")
    assert there.begin("e-2", job=7).wait(WITHIN_S) == 1
    assert there.read("e-2", "state.json")["attempt"] == 2


def test_a_later_submission_counts_from_its_claim(worker: MakeWorker) -> None:
    """The batch system refused it, or it is being handed over; before that there is none."""
    there = worker("slurm")
    there.hand_over("e-3", "exit 0", watch=NO_RESUME)
    (there.host.folder("e-3") / "submissions/2").mkdir()
    assert there.begin("e-3").wait(WITHIN_S) == 0
    assert told(there, "e-3") == ("succeeded", None)


@pytest.mark.parametrize("end", ["by itself", "well", "asked by a person"])
def test_whatever_ends_a_former_attempt_says_nothing_of_the_run(worker: MakeWorker, end: str) -> None:
    there = worker("slurm")
    there.fence_s = 0.0 if end == "asked by a person" else 3600.0
    there.hand_over("e-4", WAITING, watch=NO_RESUME, scheduler={"max_retries": 1})
    former = there.begin("e-4")
    up(there, "e-4")
    eventually(lambda: told(there, "e-4")[0] == "running")  # else it would be frozen in the middle of saying so
    former.send_signal(signal.SIGSTOP)
    there.begin("e-4")
    up(there, "e-4", 2)
    eventually(lambda: told(there, "e-4")[0] == "running")
    before = there.read("e-4", "state.json")
    if end == "asked by a person":
        (there.host.folder("e-4") / "stop.json").write_text(STOP)
    else:
        let_end(there, "e-4", 1, "well" if end == "well" else "")
    former.send_signal(signal.SIGCONT)
    assert former.wait(WITHIN_S) == 1
    if end != "asked by a person":
        assert there.read("e-4", "state.json") == before
        assert there.calls == []


def test_a_run_that_a_person_stops_says_that_it_had_begun(worker: MakeWorker) -> None:
    there = worker("slurm")
    there.hand_over("e-5", SAVING, watch=RESUME, scheduler={"max_retries": 1})
    supervisor = there.begin("e-5")
    up(there, "e-5")
    (there.host.folder("e-5") / "stop.json").write_text(STOP)
    assert supervisor.wait(WITHIN_S) == 0
    state = there.read("e-5", "state.json")
    assert (state["state"], state["reason"], state["message"]) == ("cancelled", "killed_by_user", None)


def test_a_run_that_fails_while_a_person_stops_it_is_not_tried_again(worker: MakeWorker) -> None:
    there = worker("slurm")
    there.hand_over("e-6", f"echo '{STOP}' > ../stop.json; exit 3", watch=NO_RESUME, scheduler={"max_retries": 1})
    there.begin("e-6").wait(WITHIN_S)
    assert told(there, "e-6")[0] in ("failed", "cancelled")
    assert there.calls == []


def test_what_armadas_trainer_refuses_is_not_tried_again(worker: MakeWorker) -> None:
    there = worker("slurm")
    refuses = (
        'f=../attempts/$ARMADA_ATTEMPT/failure.json; echo \'{"reason": "bad_spec", "message": "no"}\' > $f; exit 2'
    )
    for run_id, task, state in (("e-6a", "sft", "failed"), ("e-6b", "script", "queued")):
        there.hand_over(run_id, refuses, task=task, watch=NO_RESUME, scheduler={"max_retries": 1})
        there.begin(run_id).wait(WITHIN_S)
        assert told(there, run_id) == (state, "bad_spec")


def test_a_run_that_succeeds_is_done_however_often_it_may_fail(worker: MakeWorker) -> None:
    there = worker("slurm")
    there.hand_over("e-7", "true", watch=NO_RESUME, scheduler={"max_retries": 1})
    assert there.begin("e-7").wait(WITHIN_S) == 0
    assert told(there, "e-7") == ("succeeded", None)
    assert there.calls == []


def test_what_a_killed_supervisor_left_on_its_node_is_ended_before_the_next_attempt(worker: MakeWorker) -> None:
    there = worker("slurm")
    there.hand_over("e-11", SAVING, watch=RESUME)
    former = there.begin("e-11")
    up(there, "e-11")
    left = there.read("e-11", "attempts/1/run.json")["process"]["pid"]
    former.kill()
    former.wait(WITHIN_S)
    assert not _is_gone(left)
    supervisor = there.begin("e-11")
    up(there, "e-11", 2)
    assert _is_gone(left)
    assert "of attempt 1 or before still ran on this node" in (there.host.folder("e-11") / "events.jsonl").read_text()
    (there.host.folder("e-11") / "stop.json").write_text(STOP)
    assert supervisor.wait(WITHIN_S) == 0


def test_a_stop_reaches_a_job_whose_disk_was_put_back_to_before_its_submission(worker: MakeWorker) -> None:
    """The host shows the submission before, and a person stops that; the stop that it had once is an old word."""
    there = worker("slurm")
    there.hand_over("e-12", SAVING, watch=RESUME)
    folder = there.host.folder("e-12")
    there.claim("e-12", 2)
    supervisor = there.begin("e-12", submission=2)
    up(there, "e-12")
    (folder / "stop.json").write_text(STOP)
    shutil.rmtree(folder / "submissions/2")
    state = there.read("e-12", "state.json")
    for _ in range(2):  # it looks now and then, and each time restores the record of its state, too
        (folder / "state.json").write_text(json.dumps({**state, "submission": 1, "attempt": 0, "seq": 1}))
        eventually(lambda: there.read("e-12", "state.json") == state)
    assert supervisor.poll() is None
    (folder / "stop.json").write_text(json.dumps({**json.loads(STOP), "time": 7.0}))
    assert supervisor.wait(WITHIN_S) == 0


@pytest.mark.parametrize("code", [0, 3])
def test_a_job_that_comes_back_after_its_end_was_half_written_does_not_run_again(worker: MakeWorker, code: int) -> None:
    """Its node was believed dead, and its supervisor was killed after it wrote the exit, before the state."""
    there = worker("htcondor")
    there.hand_over("e-9", f"exit {code}", watch=NO_RESUME)
    there.begin("e-9").wait(WITHIN_S)
    ended = there.read("e-9", "state.json")
    folder = there.host.folder("e-9")
    (folder / "state.json").write_text(json.dumps({**ended, "state": "running", "reason": None, "exit_code": None}))
    secrets = Path(RunPaths(str(there.host.root), "e-9").secrets)
    secrets.write_text("")
    assert there.begin("e-9").wait(WITHIN_S) == 0
    again = there.read("e-9", "state.json")
    assert {**again, "seq": 0} == {**ended, "seq": 0}
    assert again["seq"] > ended["seq"]
    assert [each.name for each in (folder / "attempts").iterdir()] == ["1"]
    assert not secrets.exists()


def test_an_exit_that_names_no_submission_ends_no_other(worker: MakeWorker) -> None:
    """The first release did not write which submission an attempt belonged to."""
    there = worker("slurm")
    there.hand_over("e-10", "exit 0", watch=NO_RESUME)
    there.begin("e-10").wait(WITHIN_S)
    exit_ = there.host.folder("e-10") / "attempts/1/exit.json"
    exit_.write_text(
        json.dumps({name: value for name, value in there.exit_of("e-10", 1).items() if name != "submission"})
    )
    there.claim("e-10", 2)
    assert there.begin("e-10", submission=2).wait(WITHIN_S) == 0
    assert there.read("e-10", "state.json")["attempt"] == 2


def test_a_job_that_got_the_signal_before_its_supervisor_was_preempted(worker: MakeWorker) -> None:
    there = worker("slurm")
    there.hand_over("e-8", "touch up-1; kill -TERM $$; sleep 1000", watch=RESUME)
    supervisor = there.begin("e-8")
    up(there, "e-8")
    leader = there.read("e-8", "attempts/1/run.json")["process"]["pid"]
    eventually(lambda: _is_gone(leader))
    supervisor.terminate()
    supervisor.wait(WITHIN_S)
    assert told(there, "e-8") == ("queued", "preempted")


def test_a_job_that_says_it_was_preempted_was_although_no_signal_came_here(worker: MakeWorker) -> None:
    there = worker("slurm")
    said = json.dumps({"reason": "preempted", "message": "told to end", "rank": 0, "lines": []})
    there.hand_over("e-9", f"echo '{said}' > ../attempts/1/failure.json; exit 85", watch=RESUME)
    there.begin("e-9").wait(WITHIN_S)
    assert told(there, "e-9") == ("queued", "preempted")


def test_a_time_that_is_up_before_the_job_begins_is_too_short(worker: MakeWorker) -> None:
    there = worker("slurm")
    there.hand_over("e-10", SAVING, watch=RESUME)
    assert there.begin("e-10", in_time=False).wait(WITHIN_S) == 1
    assert told(there, "e-10") == ("failed", "time_limit")
    assert "before its job was started: raise `resources.time_limit`" in there.read("e-10", "state.json")["message"]


def test_a_run_that_is_preempted_before_its_job_begins_goes_back(worker: MakeWorker) -> None:
    there = worker("slurm")
    there.hand_over("e-11", SAVING, watch=RESUME)
    there.environment["PREEMPTED"] = "1"
    there.begin("e-11").wait(WITHIN_S)
    assert told(there, "e-11") == ("queued", "preempted")
    assert there.read("e-11", "state.json")["attempt"] == 0


def test_only_the_time_limit_is_what_a_host_may_not_put_back(worker: MakeWorker) -> None:
    there = worker("slurm")
    there.hand_over("e-12", SAVING, watch=RESUME, scheduler={"requeue_at_time_limit": False})
    supervisor = there.begin("e-12")
    up(there, "e-12")
    supervisor.terminate()
    supervisor.wait(WITHIN_S)
    assert told(there, "e-12") == ("queued", "preempted")


def test_a_job_that_slurm_already_takes_back_need_not_be_put_back(worker: MakeWorker) -> None:
    there = worker("slurm")
    there.say_of_scontrol(1)
    script = "trap 'until [ -e go ]; do sleep 0.05; done; exit 85' TERM; touch up-1; while :; do sleep 0.05; done"
    there.hand_over("e-13", script, watch=RESUME, time_limit_s=None, stop_grace_s=3600.0)
    supervisor = there.begin("e-13")
    up(there, "e-13")
    supervisor.send_signal(signal.SIGUSR1)
    eventually(lambda: "stopping" in (there.read("e-13", "state.json")["message"] or ""))
    supervisor.send_signal(signal.SIGTERM)
    (there.host.folder("e-13") / "work/go").touch()
    supervisor.wait(WITHIN_S)
    assert told(there, "e-13") == ("queued", "time_limit")


def _is_gone(pid: int) -> bool:
    from armada_agent.foundation import process_identity

    stat = process_identity.read_stat(pid)
    return stat is None or not stat.is_alive


def test_a_state_that_a_frozen_former_attempt_wrote_late_is_restored(worker: MakeWorker) -> None:
    """It had asked whether the run is its own, was frozen, and wrote when the next attempt was running."""
    there = worker("slurm")
    there.fence_s = 0.0
    there.hand_over("e-20", WAITING, watch=NO_RESUME, scheduler={"max_retries": 1})
    former = there.begin("e-20")
    up(there, "e-20")
    eventually(lambda: told(there, "e-20")[0] == "running")
    late = (there.host.folder("e-20") / "state.json").read_bytes()
    (there.host.folder("e-20") / "work/end-1").touch()
    assert former.wait(WITHIN_S) == 1
    later = there.begin("e-20")
    up(there, "e-20", 2)
    eventually(lambda: there.read("e-20", "state.json")["attempt"] == 2 and told(there, "e-20")[0] == "running")
    for _ in range(2):
        (there.host.folder("e-20") / ".late").write_bytes(late)
        (there.host.folder("e-20") / ".late").rename(there.host.folder("e-20") / "state.json")
        eventually(lambda: there.read("e-20", "state.json")["attempt"] == 2)
    assert told(there, "e-20")[0] == "running"
    findings = [event["message"] for event in there.host.events("e-20") if event["kind"] == "finding"]
    assert (
        findings.count("the supervisor of attempt 1 was frozen; it replaced the state of attempt 2, which is restored")
        == 1
    )
    let_end(there, "e-20", 2, "well")
    assert later.wait(WITHIN_S) == 0
    # Nobody restores it any more: the end is that which the later attempt wrote.
    (there.host.folder("e-20") / "state.json").write_bytes(late)
    answer = there.host.look("e-20")
    assert answer["evidence"]["scheduler"] is None
    assert decide(observation(answer)).state == "succeeded"


@pytest.mark.parametrize(
    "written", ["", "[]", "{}", '{"submission": 1, "attempt": null}', '{"submission": 2, "attempt": 1}']
)
def test_what_is_no_state_of_a_former_attempt_is_left(run: RunPaths, written: str) -> None:
    journal = Journal(run, 1)
    journal.state["attempt"] = 2
    journal.update()
    Path(run.state).write_text(written)
    journal.restore()
    assert Path(run.state).read_text() == written


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    place = RunPaths(str(tmp_path), "run-1")
    Path(place.folder).mkdir(parents=True)
    return place


def test_an_end_is_written_on_a_disk_that_was_put_back_to_before_its_attempt(run: RunPaths) -> None:
    journal = Journal(run, 1)
    journal.state["attempt"] = 1  # of which its disk knows nothing any more
    journal.conclude(Ending("failed", "exit_1", None))  # else the supervisor waits for ever, and its job with it
    assert json.loads(Path(run.attempt(1, "exit.json")).read_text())["reason"] == "exit_1"
    shutil.rmtree(run.folder)
    journal.write_json(run.attempt(1, "exit.json"), {})
    assert not Path(run.folder).exists()  # somebody deleted it
