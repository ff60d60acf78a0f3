"""Time limits by the supervisor's own clock: on a host of one's own, and under batch systems whose programs are stand-ins."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from armada_agent.host import processes
from armada_agent.paths import RunPaths
from armada_agent.records import job_status

from tests.agent.batch_worker import NO_RESUME, RESUME, SAVING, Worker, told
from tests.agent.conversation import Host
from tests.waiting import WITHIN_S, eventually


@pytest.mark.parametrize(("kind", "goes_back"), [("slurm", 1), ("htcondor", 85)])
def test_a_run_goes_back_while_its_attempts_bring_checkpoints_and_fails_when_they_do_not(
    worker: Callable[[str], Worker], some_python: str, kind: str, goes_back: int
) -> None:
    there = worker(kind)
    there.hand_over("l-1", SAVING, watch=RESUME)
    assert there.to_the_limit("l-1", 1, some_python) == goes_back
    assert told(there, "l-1") == ("queued", "time_limit")
    words = "it reached its time limit of 24h; attempt 1, first checkpoint: step 600"
    assert there.read("l-1", "state.json")["message"] == words
    assert there.to_the_limit("l-1", 2, some_python) == goes_back
    assert there.read("l-1", "state.json")["message"].endswith("attempt 2, +600 steps: step 1,200")
    (there.host.folder("l-1") / "work/stuck").touch()
    assert there.to_the_limit("l-1", 3, some_python) == goes_back
    assert "no newer checkpoint" in there.read("l-1", "state.json")["message"]
    assert there.to_the_limit("l-1", 4, some_python) == 1
    assert told(there, "l-1") == ("failed", "time_limit")
    assert "2 attempts in a row" in there.read("l-1", "state.json")["message"]
    assert "resources.time_limit" in there.read("l-1", "state.json")["message"]
    steps = [(there.exit_of("l-1", n)["step_before"], there.exit_of("l-1", n)["step"]) for n in (1, 2, 3, 4)]
    assert steps == [(None, 600), (600, 1200), (1200, 1200), (1200, 1200)]
    assert [there.exit_of("l-1", n)["state"] for n in (1, 2, 3, 4)] == ["requeued"] * 3 + ["failed"]
    assert there.calls == (["requeue 7"] * 3 if kind == "slurm" else [])
    assert "out/step-1200" in (there.host.folder("l-1") / "output.log").read_text()


def test_how_many_attempts_may_bring_nothing_is_the_hosts_word(worker: Callable[[str], Worker]) -> None:
    there = worker("htcondor")
    there.hand_over("l-2", SAVING, watch=RESUME, scheduler={"max_attempts_without_progress": 1})
    (there.host.folder("l-2") / "work/stuck").touch()
    assert there.to_the_limit("l-2", 1) == 1
    assert told(there, "l-2") == ("failed", "time_limit")


@pytest.mark.parametrize("kind", ["slurm", "htcondor"])
def test_a_job_that_cannot_resume_reaches_its_time_limit_once(worker: Callable[[str], Worker], kind: str) -> None:
    there = worker(kind)
    there.hand_over("l-3", SAVING, watch=NO_RESUME, time_limit_s=120.0)
    assert there.to_the_limit("l-3", 1) == 1
    assert told(there, "l-3") == ("failed", "time_limit")
    message = there.read("l-3", "state.json")["message"]
    assert message.startswith("it reached its time limit of 2m; it cannot resume: raise `resources.time_limit`")
    assert there.calls == []


def test_an_exit_that_an_older_armada_wrote_is_neither_gain_nor_loss(worker: Callable[[str], Worker]) -> None:
    there = worker("htcondor")
    there.hand_over("l-4", SAVING, watch=RESUME)
    (there.host.folder("l-4") / "work/stuck").touch()
    assert there.to_the_limit("l-4", 1) == 85
    older = {name: value for name, value in there.exit_of("l-4", 1).items() if not name.startswith("step")}
    (there.host.folder("l-4") / "attempts/1/exit.json").write_text(json.dumps(older))
    assert there.to_the_limit("l-4", 2) == 85
    assert there.to_the_limit("l-4", 3) == 1


def test_steps_that_home_had_deleted_here_are_not_gained_again(worker: Callable[[str], Worker]) -> None:
    there = worker("htcondor")
    there.hand_over("l-5", SAVING, watch=RESUME)
    assert there.to_the_limit("l-5", 1) == 85
    for name in ("harvest.json", "work/out/step-600/w"):
        (there.host.folder("l-5") / name).unlink()
    for entry in (there.host.folder("l-5") / "outbox").iterdir():
        entry.rename(there.folder / entry.name)
    again = SAVING.replace("$(($ARMADA_ATTEMPT * 600))", "600")
    spec = there.read("l-5", "spec.json")
    spec["job"]["argv"][2] = again
    (there.host.folder("l-5") / "spec.json").write_text(json.dumps(spec))
    assert there.to_the_limit("l-5", 2) == 85
    assert (there.exit_of("l-5", 2)["step_before"], there.exit_of("l-5", 2)["step"]) == (600, 600)


def test_slurms_own_signal_means_the_time_limit_even_if_sigterm_follows(worker: Callable[[str], Worker]) -> None:
    there = worker("slurm")
    script = "trap 'until [ -e go ]; do sleep 0.05; done; exit 85' TERM; touch up-1; while :; do sleep 0.05; done"
    there.hand_over("l-6", script, watch=RESUME, time_limit_s=None, stop_grace_s=3600.0)
    supervisor = there.begin("l-6")
    folder = there.host.folder("l-6")
    eventually((folder / "work/up-1").exists)
    supervisor.send_signal(signal.SIGUSR1)
    eventually(lambda: "stopping" in (there.read("l-6", "state.json")["message"] or ""))
    supervisor.send_signal(signal.SIGTERM)
    (folder / "work/go").touch()
    supervisor.wait(WITHIN_S)
    assert told(there, "l-6") == ("queued", "time_limit")
    assert there.read("l-6", "state.json")["message"].startswith("it reached its time limit; attempt 1, no newer")
    assert there.calls == ["requeue 7"]


def test_a_preempted_run_goes_back_by_its_scheduler_and_says_where_it_stands(worker: Callable[[str], Worker]) -> None:
    there = worker("slurm")
    there.hand_over("l-7", SAVING, watch=RESUME)
    supervisor = there.begin("l-7")
    eventually((there.host.folder("l-7") / "work/up-1").exists)
    supervisor.terminate()
    assert supervisor.wait(WITHIN_S) == 1
    assert told(there, "l-7") == ("queued", "preempted")
    words = "the scheduler took its node away (SIGTERM); attempt 1, first checkpoint: step 600"
    assert there.read("l-7", "state.json")["message"] == words
    assert there.calls == []


def test_a_run_whose_node_failed_goes_back_and_says_so(worker: Callable[[str], Worker]) -> None:
    """As slurmstepd 22.05 wrote it into the job's log, before its signal, when the node was set down under the job."""
    there = worker("slurm")
    there.hand_over("l-12", SAVING, watch=RESUME)
    folder = there.host.folder("l-12")
    failed = "slurmstepd-n2: error: *** JOB 7 ON n2 CANCELLED AT 2026-11-23T01:54:26 DUE TO {}, SEE SLURMCTLD LOG ***\n"
    (folder / "scheduler.log").write_text(failed.format("PREEMPTION"))
    supervisor = there.begin("l-12")
    eventually((folder / "work/up-1").exists)
    with (folder / "scheduler.log").open("a") as log:
        log.write(failed.format("NODE FAILURE"))
    supervisor.terminate()
    assert supervisor.wait(WITHIN_S) == 1
    assert told(there, "l-12") == ("queued", "node_failure")
    words = "its node n2 failed, according to Slurm; attempt 1, first checkpoint: step 600"
    assert there.read("l-12", "state.json")["message"] == words
    supervisor = there.begin("l-12")
    eventually((folder / "work/up-2").exists)
    supervisor.terminate()
    supervisor.wait(WITHIN_S)
    assert told(there, "l-12") == (
        "queued",
        "preempted",
    )  # what was written under the attempt before is not of this one


def test_a_run_that_slurm_does_not_take_back_fails_and_says_so(worker: Callable[[str], Worker]) -> None:
    there = worker("slurm")
    there.say_of_scontrol(1)
    there.hand_over("l-8", SAVING, watch=RESUME)
    assert there.to_the_limit("l-8", 1) == 1
    assert told(there, "l-8") == ("failed", "time_limit")
    assert "could not be put back into the queue: scontrol: refused" in there.read("l-8", "state.json")["message"]


def test_a_host_that_puts_nothing_back_is_obeyed(worker: Callable[[str], Worker]) -> None:
    there = worker("slurm")
    there.hand_over("l-9", SAVING, watch=RESUME, scheduler={"requeue_at_time_limit": False})
    assert there.to_the_limit("l-9", 1) == 1
    assert told(there, "l-9") == ("failed", "time_limit")
    assert "`armada resume l-9` continues from step 600" in there.read("l-9", "state.json")["message"]
    assert there.calls == []


def test_a_run_that_failed_by_itself_goes_back_with_the_exit_code_that_htcondor_knows(
    worker: Callable[[str], Worker],
) -> None:
    there = worker("htcondor")
    there.hand_over("l-10", "exit 3", watch=NO_RESUME, scheduler={"max_retries": 1})
    assert there.begin("l-10").wait(WITHIN_S) == 85
    assert told(there, "l-10") == ("queued", "exit_3")
    assert there.begin("l-10").wait(WITHIN_S) == 1
    assert told(there, "l-10") == ("failed", "exit_3")


def test_a_run_that_a_person_resumes_goes_back_as_often_again(worker: Callable[[str], Worker]) -> None:
    there = worker("htcondor")
    there.hand_over("l-11", "exit 3", watch=NO_RESUME, scheduler={"max_retries": 1})
    codes = [there.begin("l-11").wait(WITHIN_S) for _ in range(2)]
    there.claim("l-11", 2)
    codes += [there.begin("l-11", submission=2).wait(WITHIN_S) for _ in range(2)]
    assert codes == [85, 1, 85, 1]
    assert there.read("l-11", "state.json")["attempt"] == 4
    failures = [
        event["submission"]
        for line in (there.host.folder("l-11") / "events.jsonl").read_text().splitlines()
        if (event := json.loads(line))["kind"] == "failure"
    ]
    assert failures == [1, 1, 2, 2]


def test_a_run_on_a_host_of_ones_own_fails_at_its_time_limit(some_host: Host) -> None:
    some_host.launch("d-1", "sleep", "1000", time_limit_s=1.0)
    state = some_host.await_end("d-1")
    assert (state["state"], state["reason"]) == ("failed", "time_limit")
    assert state["message"].startswith("it reached its time limit of 1s; it cannot resume: raise")
    assert some_host.look("d-1")["evidence"]["processes"] == 0


def test_what_a_run_saved_until_its_time_limit_is_kept(worker: Callable[[str], Worker], some_python: str) -> None:
    there = worker("direct")
    there.hand_over("d-2", SAVING, watch=RESUME)
    assert there.to_the_limit("d-2", 1, some_python) == 0
    state = there.host.await_end("d-2")
    assert (state["state"], state["reason"], state["exit_code"]) == ("failed", "time_limit", 85)
    assert [entry["step"] for entry in there.host.look("d-2")["outbox"]] == [600]
    assert state["message"] == "it reached its time limit of 24h; `armada resume d-2` continues from step 600"
    assert (there.exit_of("d-2", 1)["step_before"], there.exit_of("d-2", 1)["step"]) == (None, 600)


@pytest.mark.parametrize(
    ("training", "told_of_it"),
    [({"task": "sft"}, ("succeeded", None)), (None, ("failed", "time_limit"))],
    ids=["a training", "a script"],
)
@pytest.mark.parametrize("kind", ["direct", "slurm"])
def test_a_training_that_is_done_when_its_time_is_up_has_succeeded(
    worker: Callable[[str], Worker], kind: str, training: dict[str, str] | None, told_of_it: tuple[str, str | None]
) -> None:
    """The signal came while it saved its last checkpoint: it leaves with 0, and otherwise never does."""
    there = worker(kind)
    there.hand_over("d-4", SAVING.replace("exit 85", "exit 0"), watch=NO_RESUME, training=training)
    there.to_the_limit("d-4", 1)
    there.host.await_end("d-4")
    assert told(there, "d-4") == told_of_it
    assert there.exit_of("d-4", 1)["exit_code"] == 0


def test_a_training_that_is_done_when_it_is_stopped_has_succeeded(this_host: Host) -> None:
    script = "trap 'echo saving; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    this_host.launch("stop-9", "sh", "-c", script, training={"task": "sft"})
    eventually(lambda: "up" in this_host.output("stop-9"))
    this_host.call("run.stop", run_id="stop-9", grace_s=20)
    state = this_host.await_end("stop-9")
    assert (state["state"], state["reason"], state["exit_code"]) == ("succeeded", None, 0)
    paths = RunPaths(str(this_host.root), "stop-9")  # known also if the supervisor dies while it hashes the last one
    assert json.loads(Path(job_status.path_of(paths, 1)).read_text())["exit_code"] == 0


def test_a_run_that_ends_in_time_is_not_touched(this_host: Host) -> None:
    this_host.launch("d-3", "true", time_limit_s=3600.0)
    assert this_host.await_end("d-3")["state"] == "succeeded"


def test_a_time_limit_of_nonsense_is_refused(this_host: Host) -> None:
    with pytest.raises(Exception, match="`time_limit_s` must be a number of seconds"):
        this_host.create("d-4", "true", time_limit_s="soon")


@pytest.mark.parametrize("kind", ["slurm", "htcondor"])
def test_an_attempt_whose_node_was_believed_dead_gives_way_to_the_next(
    worker: Callable[[str], Worker], kind: str
) -> None:
    there = worker(kind)
    there.hand_over("l-8", SAVING, watch=RESUME)
    folder = there.host.folder("l-8")
    former = there.begin("l-8")
    eventually(
        lambda: list((folder / "outbox").glob("?" * 64)) and "checkpoint" in (folder / "events.jsonl").read_text()
    )
    later = there.begin("l-8")
    eventually(lambda: there.read("l-8", "state.json")["attempt"] == 2)
    before = there.read("l-8", "state.json")
    assert (before["state"], before["message"]) == ("running", None)
    assert former.wait(WITHIN_S) == 1
    assert there.read("l-8", "state.json") == before
    numbers = [json.loads(line)["seq"] for line in (folder / "events.jsonl").read_text().splitlines()]
    assert numbers == sorted(set(numbers))
    assert there.exit_of("l-8", 1)["reason"] == "lost"
    # Its own job is no more, and that of the next lives.
    jobs = {each.attempt for each in processes.members(RunPaths(str(there.host.root), "l-8"))}
    assert jobs - {0} == {2}  # for a moment after exec a process shows no environment, and so no attempt
    eventually((folder / "work/up-2").exists)
    (there.folder / "time-is-up").touch()
    assert later.wait(WITHIN_S) == (1 if kind == "slurm" else 85)
    assert told(there, "l-8") == ("queued", "time_limit")
    assert there.read("l-8", "state.json")["message"].endswith("attempt 2, +600 steps: step 1,200")
