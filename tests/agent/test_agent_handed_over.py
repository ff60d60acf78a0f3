"""What a batch system is asked for once, and how its job is found and stopped: the batch system says what a test says."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from armada_agent.engines import array_records, engine
from armada_agent.engines.engine import EngineError, Handed, Place
from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.runs import observation, submissions, work_data

from tests.agent.test_agent_submissions import Run, refused

PLACE = Place("s-1", 1, 2)


class Queue:
    """A batch system with at most one job, which it has under `found`."""

    POLL_S = 0.0

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.found: str | EngineError | None = None
        self.error: EngineError | None = None
        self.state = "pending"

    def _say(self, what: str) -> None:
        self.asked.append(what)
        if self.error is not None:
            raise self.error

    def submit(self, _handed: Handed, _lock: int) -> str:
        self._say("submit")
        return "11"

    def look_up(self, _handed: Handed) -> str | None:
        self.asked.append("look_up")
        if isinstance(self.found, EngineError):
            raise self.found
        return self.found

    def job_in_array(self, array_id: str, index: int) -> str:
        return f"{array_id}_{index}"

    def look(self, _handed: Handed, _every_s: float) -> dict[str, Any]:
        return engine.scheduler_status(self.state, 1.0)

    def cancel(self, _handed: Handed, _status: dict[str, Any], _grace_s: float) -> None:
        self._say("cancel")


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    made = Queue()
    monkeypatch.setattr(engine, "find", lambda _kind: made)
    return made


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    made = Run(tmp_path, monkeypatch)
    made.write(made.paths.spec, {"run_id": "alone-1", "stop_grace_s": 1.0, "scheduler": {"kind": "slurm"}})
    return made


def job_of(run: Run) -> dict[str, Any] | None:
    return files.read_json(run.paths.submission(1, "job.json"))


def hand(run: Run) -> None:
    """A submission that its batch system was asked for and has."""
    run.claim()
    run.write(run.paths.submission(1, "asked.json"), {"time": 1.0, "scheduler": "slurm"})
    run.write(run.paths.submission(1, "job.json"), {"submission": 1, "scheduler": "slurm", "job_id": "11", "time": 1.0})


def begin(run: Run, state: str, submission: int = 1) -> None:
    """Its first attempt."""
    run.write(run.paths.attempt(1, "run.json"), {"attempt": 1, "submission": 1})
    told = {"state": state, "submission": submission, "attempt": 1, "seq": 4, "started_at": 5.0, "gpus": [1]}
    run.write(run.paths.state, told)


def test_a_job_is_submitted_once_and_its_id_is_recorded(run: Run, queue: Queue) -> None:
    assert (run.submit(), run.submit()) == ("started", "already")
    assert queue.asked == ["submit"]  # what was never asked for is not looked up
    assert (job_of(run) or {})["job_id"] == "11"


def test_a_job_whose_answer_was_lost_is_not_submitted_again(run: Run, queue: Queue) -> None:
    run.claim()
    run.write(run.paths.submission(1, "asked.json"), {"time": 1.0, "scheduler": "slurm"})
    queue.found = "7"
    assert run.submit() == "started"
    assert (queue.asked, (job_of(run) or {})["job_id"]) == (["look_up"], "7")


def test_a_job_that_took_its_submission_is_the_one_whatever_the_queue_says(run: Run, queue: Queue) -> None:
    run.claim()
    run.write(run.paths.submission(1, "taken.json"), {"job_id": "5"})
    assert run.submit() == "started"
    assert (queue.asked, (job_of(run) or {})["job_id"]) == ([], "5")
    Path(run.paths.submission(1, "job.json")).unlink()
    Path(run.paths.submission(1, "taken.json")).write_text("{")
    assert refused(run.submit).startswith("outcome_unknown")
    assert queue.asked == []


def test_a_queue_that_cannot_say_whether_it_has_the_job_gets_none(run: Run, queue: Queue) -> None:
    run.claim()
    run.write(run.paths.submission(1, "asked.json"), {"time": 1.0, "scheduler": "slurm"})
    queue.found = EngineError("no answer")
    assert refused(run.submit).startswith("outcome_unknown")
    assert (queue.asked, job_of(run)) == (["look_up"], None)


@pytest.mark.parametrize(
    ("error", "claimed"),
    [
        (EngineError("no such partition", refused=True), False),
        (EngineError("no sbatch", missing=True), False),
        (EngineError("no answer"), True),
    ],
)
def test_only_a_refusal_takes_the_claim_back(run: Run, queue: Queue, error: EngineError, claimed: bool) -> None:
    queue.error = error
    assert refused(run.submit).startswith("outcome_unknown") is claimed
    assert run.paths.is_claimed(1) is claimed
    assert Path(run.paths.submission(1, "asked.json")).exists() is claimed


@pytest.mark.parametrize("has_ended", [True, False])
def test_a_refused_resume_leaves_a_record_of_that_until_it_is_claimed_again(
    run: Run, queue: Queue, monkeypatch: pytest.MonkeyPatch, *, has_ended: bool
) -> None:
    """Also who only saw the claim learns of it; and the secrets go, unless the former submission may still need them."""
    monkeypatch.setattr(work_data, "require_unchanged", lambda *_: None)
    hand(run)
    begin(run, "failed" if has_ended else "running")
    queue.error, queue.state = EngineError("no such partition", refused=True), "gone"
    assert refused(lambda: run.submit(2, secrets={"KEY": "2"})).startswith("scheduler")
    evidence = observation.Evidence(run.paths)
    assert (evidence.submission_number, evidence.refused, evidence.as_json()["refused"]) == (1, 2, 2)
    assert Path(run.paths.secrets).exists() is not has_ended
    queue.error = None
    assert run.submit(2, secrets={"KEY": "2"}) == "started"
    evidence = observation.Evidence(run.paths)
    assert (evidence.submission_number, evidence.refused) == (2, None)
    assert files.read_json(run.paths.secrets) == {"KEY": "2"}


def test_a_refusal_that_cannot_be_recorded_is_one_all_the_same(
    run: Run, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_data, "require_unchanged", lambda *_: None)
    hand(run)
    begin(run, "failed")
    write = files.write_json

    def full(path: str, value: Any, mode: int = 0o600) -> None:
        if path.endswith("refused.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, value, mode)

    monkeypatch.setattr(files, "write_json", full)
    queue.error = EngineError("no such partition", refused=True)
    assert refused(lambda: run.submit(2, secrets={"KEY": "2"})).startswith("scheduler")
    assert (run.paths.newest_submission(), observation.Evidence(run.paths).refused) == (1, None)


@pytest.mark.fault("a batch system refuses a submission", "no secrets of it stay on the host; the next one brings them")
def test_a_refused_first_submission_leaves_no_secrets_and_the_next_request_brings_them(run: Run, queue: Queue) -> None:
    run.write(run.paths.secrets, {"KEY": "1"})
    queue.error = EngineError("no such partition", refused=True)
    assert refused(lambda: run.submit(1)).startswith("scheduler")
    assert not Path(run.paths.secrets).exists()
    submissions.bring_secrets(run.paths, {"KEY": "1"})  # the same launch, repeated
    assert files.read_json(run.paths.secrets) == {"KEY": "1"}
    assert refused(lambda: run.submit(1)).startswith("scheduler")
    queue.error = None
    assert run.submit(1, secrets={"KEY": "again"}) == "started"  # a resume of it
    Path(run.paths.secrets).unlink()
    submissions.bring_secrets(run.paths, {"KEY": "1"})  # a request that was on its way for long
    assert not Path(run.paths.secrets).exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE])
def test_a_job_that_the_queue_has_and_that_cannot_be_recorded_is_no_refusal(
    run: Run, queue: Queue, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Home would otherwise say that nothing was started, and start a second one."""
    link_json = files.link_json

    def refuse(path: str, value: Any) -> bool:
        if path.endswith("job.json"):
            raise OSError(number, os.strerror(number), path)
        return link_json(path, value)

    with monkeypatch.context() as broken:
        broken.setattr(files, "link_json", refuse)
        assert refused(run.submit).startswith("outcome_unknown: slurm has the job 11")
        queue.found = "11"
        assert refused(run.submit).startswith("outcome_unknown: slurm has the job 11")
    assert run.paths.is_claimed(1)
    assert run.submit() == "started"
    assert (queue.asked, (job_of(run) or {})["job_id"]) == (["submit", "look_up", "look_up"], "11")


def test_a_disk_that_fails_while_the_queue_is_asked_leaves_it_unknown_whether_it_has_the_job(
    run: Run, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(_handed: Handed, _lock: int) -> str:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(queue, "submit", submit)
    assert refused(run.submit).startswith("outcome_unknown: it is unknown whether slurm has")


def test_a_disk_that_is_full_before_the_queue_is_asked_is_said_as_it_is(
    run: Run, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json = files.write_json

    def refuse(path: str, value: Any) -> None:
        if path.endswith("asked.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        write_json(path, value)

    monkeypatch.setattr(files, "write_json", refuse)
    with pytest.raises(OSError, match="No space left"):
        run.submit()
    assert queue.asked == []


@pytest.mark.parametrize("array_id", ["12", None])
def test_a_cell_of_an_array_is_never_submitted_by_itself(
    run: Run, queue: Queue, monkeypatch: pytest.MonkeyPatch, array_id: str | None
) -> None:
    monkeypatch.setattr(array_records, "find_id", lambda *_: array_id)
    submissions.claim_first(run.paths, PLACE)
    if array_id is None:
        assert refused(run.submit).startswith("outcome_unknown: alone-1 is part of the array")
    else:
        assert run.submit() == "started"
        assert (job_of(run) or {})["job_id"] == "12_2"
    assert queue.asked == []


@pytest.mark.parametrize(("found", "outcome"), [("7", "stopping"), (None, "cancelled_before_start")])
def test_a_stop_finds_a_job_whose_answer_was_lost(run: Run, queue: Queue, found: str | None, outcome: str) -> None:
    run.claim()
    run.write(run.paths.submission(1, "asked.json"), {"time": 1.0, "scheduler": "slurm"})
    queue.found, queue.state = found, "running"
    assert run.stop() == outcome
    assert queue.asked == (["look_up", "cancel"] if found else ["look_up"])
    assert ((job_of(run) or {}).get("job_id")) == found


def test_a_stop_of_what_no_batch_system_was_asked_for_asks_none(run: Run, queue: Queue) -> None:
    run.write(run.paths.spec, {"run_id": "alone-1", "stop_grace_s": 1.0})
    run.claim()
    assert (run.stop(), queue.asked) == ("cancelled_before_start", [])


def test_a_waiting_job_that_never_began_is_cancelled_at_once(run: Run, queue: Queue) -> None:
    hand(run)
    assert (run.stop(), queue.asked, run.started) == ("cancelled_before_start", ["cancel"], [])
    assert (run.state["state"], run.state["submission"]) == ("cancelled", 1)


@pytest.mark.parametrize("state_of", [0, 1])
def test_a_job_that_waits_for_its_next_attempt_is_ended_by_the_stop(run: Run, queue: Queue, state_of: int) -> None:
    hand(run)
    begin(run, "queued", state_of)
    assert (run.stop(), queue.asked, run.started) == ("stopping", ["cancel"], [])
    assert (run.state["state"], run.state["submission"], run.state["seq"]) == ("cancelled", 1, 5)
    assert run.state["started_at"] == (5.0 if state_of == 1 else None)


def test_a_running_job_is_left_to_its_supervisor(run: Run, queue: Queue) -> None:
    hand(run)
    queue.state = "running"
    assert (run.stop(), queue.asked, run.started, run.state) == ("stopping", ["cancel"], [], {})


@pytest.mark.parametrize(
    ("state", "error", "started"),
    [("pending", None, ["clear 1"]), ("running", None, []), ("pending", EngineError("no answer"), [])],
    ids=["waits again", "runs", "waits, and its queue does not answer"],
)
def test_processes_that_a_waiting_job_left_here_are_ended(
    run: Run, queue: Queue, state: str, error: EngineError | None, started: list[str]
) -> None:
    hand(run)
    begin(run, "running")
    queue.state, queue.error = state, error
    # Without the root's mark it would count for every test's run of this name, here and in the other workers.
    surroundings = {**os.environ, "ARMADA_RUN_ID": "alone-1", "ARMADA_ROOT": run.paths.root}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=surroundings) as left:
        assert (run.stop(), queue.asked, run.started) == ("stopping", ["cancel"], started)
        left.communicate()
    assert run.state["state"] == "running"


@pytest.mark.parametrize("state", ["gone", "ended"])
def test_the_end_of_a_job_that_its_queue_has_no_more_is_written_here(run: Run, queue: Queue, state: str) -> None:
    hand(run)
    queue.state = state
    assert (run.stop(), run.started) == ("stopping", ["clear 1"])
    assert queue.asked == (["cancel"] if state == "gone" else [])


@pytest.mark.parametrize(("kind", "raises"), [("refused", True), ("missing", True), ("late", False)])
def test_a_stop_that_the_queue_does_not_take_is_refused_or_stays_recorded(
    run: Run, queue: Queue, kind: str, raises: bool
) -> None:
    hand(run)
    queue.error = EngineError("words", **{kind: True})
    if raises:
        with pytest.raises(AgentError, match="words"):
            submissions.stop(run.call, {"run_id": "alone-1", "grace_s": 1.0})
    else:
        answer = submissions.stop(run.call, {"run_id": "alone-1", "grace_s": 1.0})
        assert (answer["outcome"], answer["problem"]) == ("stopping", "words")
    assert run.request is not None
    assert json.loads(Path(run.paths.stop).read_text())["submission"] == 1
