"""A run's secrets go with the submission that needed them: those of a later one stay, whoever deletes them and when."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from armada_agent.engines import engine, slurm
from armada_agent.foundation import files
from armada_agent.foundation.session import Call
from armada_agent.paths import RunPaths
from armada_agent.records import forgetting
from armada_agent.records.ending import Ending
from armada_agent.records.journal import Journal
from armada_agent.runs import submissions
from armada_agent.runs.observation import observe
from armada_agent.runs.wipe import forget_secrets

from tests.agent.batch_worker import NO_RESUME, Worker
from tests.agent.test_agent_wipe import DEAD, call, make
from tests.waiting import WITHIN_S

__all__ = ["call"]


@pytest.fixture
def run(call: Call) -> RunPaths:
    """A run that ended and whose secrets are still there."""
    return make(call, "forget-1", DEAD, "failed")


def resume(run: RunPaths) -> None:
    """As `submit` does: the secrets, and then the claim."""
    Path(run.secrets).write_text('{"KEY": "of the second"}')
    Path(run.submission(2)).mkdir(parents=True, exist_ok=True)
    Path(run.submission(2, "claim.json")).write_text("{}")


def are_there(run: RunPaths) -> bool:
    return Path(run.secrets).exists()


@pytest.fixture
def busy(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Somebody submits the run, for longer than anybody waits."""
    monkeypatch.setattr(forgetting, "_TRY_S", 0.0)
    monkeypatch.setattr(forgetting, "_TRIES", 2)
    with files.locked(run.submit_lock):
        yield


@pytest.mark.parametrize("must", [False, True])
def test_those_of_what_is_over_go_and_those_of_a_later_submission_stay(run: RunPaths, *, must: bool) -> None:
    Path(run.submission(2)).mkdir(parents=True)  # whoever made it was ended before the claim
    assert (forgetting.forget(run, 1, must), are_there(run)) == (True, False)
    Path(run.submission(2)).rmdir()
    resume(run)
    assert (forgetting.forget(run, 1, must), are_there(run)) == (False, True)
    assert (forgetting.forget(run, 2, must), are_there(run)) == (True, False)


@pytest.mark.parametrize("must", [False, True])
def test_a_claim_that_comes_while_the_lock_is_waited_for_keeps_them(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch, *, must: bool
) -> None:
    lock = files.lock

    def after_a_resume(path: str, timeout_s: float | None = None) -> int | None:
        resume(run)
        return lock(path, timeout_s)

    monkeypatch.setattr(files, "lock", after_a_resume)
    assert (forgetting.forget(run, 1, must), are_there(run)) == (False, True)


@pytest.mark.usefixtures("busy")
def test_while_the_run_is_submitted_they_stay_for_whoever_looks_next_and_go_with_whoever_ends(run: RunPaths) -> None:
    assert (forgetting.forget(run, 1, must=False), are_there(run)) == (False, True)
    assert (forgetting.forget(run, 1), are_there(run)) == (True, False)


def test_who_ends_does_not_wait_for_a_submission_that_waits_for_its_end(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next supervisor waits until this one is gone, and whoever started it keeps the lock until then."""
    waits: list[float | None] = []

    def resumed_meanwhile(_path: str, timeout_s: float | None = None) -> None:
        waits.append(timeout_s)
        resume(run)

    monkeypatch.setattr(files, "lock", resumed_meanwhile)
    assert (forgetting.forget(run, 1), are_there(run)) == (False, True)
    (waited,) = waits
    assert waited is not None
    assert waited < 1


@pytest.mark.parametrize("must", [False, True])
def test_a_lock_that_the_disk_refuses_keeps_none_for_ever(run: RunPaths, *, must: bool) -> None:
    Path(run.submit_lock).unlink(missing_ok=True)
    Path(run.submit_lock).symlink_to("elsewhere")  # as a job may leave it
    assert (forgetting.forget(run, 1, must), are_there(run)) == (True, False)


def test_a_link_in_the_place_of_the_submissions_does_not_keep_a_supervisor_from_its_end(
    run: RunPaths, tmp_path: Path
) -> None:
    Path(run.folder, "submissions").rename(tmp_path / "away")
    Path(run.folder, "submissions").symlink_to(tmp_path / "away")
    with pytest.raises(OSError, match="it is a link"):
        forgetting.forget(run, 1, must=False)
    assert are_there(run)
    Journal(run, 1).conclude(Ending("failed", "exit_1", None))
    assert (are_there(run), json.loads(Path(run.state).read_text())["reason"]) == (False, "exit_1")


@pytest.mark.parametrize("must", [False, True])
def test_as_long_as_nobody_sees_what_was_claimed_they_stay(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch, *, must: bool
) -> None:
    def away(*_: object) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(RunPaths, "newest_submission", away)
    monkeypatch.setattr(forgetting, "is_readable", lambda _: False)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        forgetting.forget(run, 1, must)
    assert are_there(run)


def poll(call: Call, run: RunPaths) -> None:
    observe(call, {"runs": [{"run_id": run.run_id}]})


def test_a_poll_takes_those_of_a_refused_submission_once_the_former_has_ended(call: Call, run: RunPaths) -> None:
    """A resume was refused after it had brought them, and whoever ended the former submission had left them to it."""
    poll(call, run)
    assert are_there(run)  # who only looks deletes nothing that a killed supervisor left
    Path(run.submission(2)).mkdir(exist_ok=True)
    files.write_json(run.submission(2, "refused.json"), {"time": 1.0, "message": "no"})
    with files.locked(run.submit_lock):
        poll(call, run)
    assert are_there(run)  # somebody brings others just now
    poll(call, run)
    assert not are_there(run)
    resume(run)
    poll(call, run)
    assert are_there(run)


def release(call: Call, _run: RunPaths) -> None:
    forget_secrets(call, {"leaves": True})


@pytest.mark.fault("a run is resumed while a poll waits for its batch system", "the secrets that came with it stay")
@pytest.mark.parametrize("is_resumed", [False, True])
@pytest.mark.parametrize("look", [poll, release])
def test_a_resume_while_the_batch_system_tells_the_former_end_keeps_its_secrets(
    call: Call, monkeypatch: pytest.MonkeyPatch, look: Callable[[Call, RunPaths], None], *, is_resumed: bool
) -> None:
    run = make(call, "forget-2", DEAD)
    Path(run.submission(1, "job.json")).write_text('{"submission": 1, "scheduler": "slurm", "job_id": "7"}')

    def told(*_: object) -> dict[str, Any]:
        if is_resumed and run.newest_submission() == 1:
            resume(run)
        return {**engine.scheduler_status(engine.ENDED, 1.0), "listed": False}

    monkeypatch.setattr(slurm, "look", told)
    look(call, run)
    assert are_there(run) is is_resumed


@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_job_that_was_taken_for_gone_and_ends_later_takes_only_its_own(run: RunPaths, *, is_resumed: bool) -> None:
    journal = Journal(run, 1)
    if is_resumed:
        resume(run)
    journal.conclude(Ending("failed", "exit_1", None))
    assert are_there(run) is is_resumed


@pytest.mark.parametrize("is_resumed", [False, True])
@pytest.mark.parametrize(
    "end",
    [
        lambda run: Journal(run, 1).complete(1, {"state": "failed"}),
        lambda run: submissions._conclude_waiting(run, 1, {}),  # noqa: SLF001  # between its look and this, the run is resumed
        lambda run: submissions.conclude_unstarted(run, 1, "never_started", "words"),
    ],
    ids=["completed", "stopped in the queue", "never started"],
)
def test_whoever_writes_a_former_end_leaves_those_of_the_next_submission(
    run: RunPaths, end: Callable[[RunPaths], None], *, is_resumed: bool
) -> None:
    Path(run.submission(1, "job.json")).unlink()
    if is_resumed:
        resume(run)
    end(run)
    assert are_there(run) is is_resumed


@pytest.mark.fault("a job is put back into the queue after its run was resumed", "the later submission is left alone")
def test_a_job_that_comes_back_after_its_run_was_resumed_changes_nothing(worker: Callable[[str], Worker]) -> None:
    """Its supervisor was killed after it wrote the exit, before the state."""
    there = worker("slurm")
    there.hand_over("forget-3", "exit 3", watch=NO_RESUME)
    there.begin("forget-3").wait(WITHIN_S)
    run = RunPaths(str(there.host.root), "forget-3")
    Path(run.state).write_text(json.dumps({**there.read("forget-3", "state.json"), "state": "running"}))
    before = Path(run.state).read_bytes()
    resume(run)
    assert there.begin("forget-3").wait(WITHIN_S) == 0
    assert (are_there(run), Path(run.state).read_bytes()) == (True, before)
