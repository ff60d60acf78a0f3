"""A job that ended while its supervisor, or its machine, dies before the end is written: its status was recorded before."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from armada_agent.engines import engine, slurm
from armada_agent.errors import AgentError
from armada_agent.foundation import files, process_identity
from armada_agent.host import detached
from armada_agent.paths import RunPaths
from armada_agent.records import job_status
from armada_agent.runs import completion, submissions
from armada_agent.runs.observation import Evidence
from armada_agent.supervisor import cleanup

from armada.verdicts import again
from tests.agent.batch_worker import RESUME, Worker
from tests.agent.conversation import Host, Refused, check
from tests.supervisors import kill_both
from tests.waiting import WITHIN_S, eventually

SAVES = (
    "echo ran >> ran; touch up; while [ ! -e go ]; do sleep 0.05; done;"
    "mkdir -p out/step-7; echo w > out/step-7/w; exit %d"
)
WATCH: dict[str, Any] = {"checkpoints": {"pattern": "out/step-*", "quiet_s": 600.0}, "resume": []}


def paths_of(host: Host, run_id: str) -> RunPaths:
    return RunPaths(str(host.root), run_id)


@contextmanager
def hashing(host: Host, run_id: str) -> Iterator[None]:
    """Keep whoever supervises a run at its last checkpoint, as one does that takes an hour to hash."""
    held = files.lock(paths_of(host, run_id).checkpoint_watch_lock)
    assert held is not None
    yield
    os.close(held)


def await_status(host: Host, run_id: str, attempt: int = 1) -> dict[str, Any]:
    path = Path(job_status.path_of(paths_of(host, run_id), attempt))
    eventually(path.exists)
    found: dict[str, Any] = json.loads(path.read_text())
    check(found, "files", "attempts/<n>/status.json")
    return found


def launch(host: Host, run_id: str, code: int = 0) -> dict[str, Any]:
    """Have its job end, and return job.json, while its supervisor is kept from its last checkpoint."""
    host.launch(run_id, "sh", "-c", SAVES % code, watch=WATCH)
    eventually((host.folder(run_id) / "work/up").exists)
    host.await_state(run_id, "running")
    job: dict[str, Any] = host.look(run_id)["evidence"]["submission"]["job"]
    return job


def go(host: Host, run_id: str) -> dict[str, Any]:
    (host.folder(run_id) / "work/go").touch()
    told = await_status(host, run_id)
    assert not (host.folder(run_id) / "attempts/1/exit.json").exists()
    return told


def assert_succeeded_once(host: Host, run_id: str) -> None:
    ended = host.await_end(run_id)
    assert (ended["state"], ended["exit_code"], ended["attempt"]) == ("succeeded", 0, 1)
    assert [entry["step"] for entry in host.look(run_id)["outbox"]] == [7]
    assert (host.folder(run_id) / "work/ran").read_text() == "ran\n"


@pytest.mark.parametrize("code", [0, 3])
def test_a_guardian_completes_the_end_that_its_supervisor_had_no_time_to_write(this_host: Host, code: int) -> None:
    job = launch(this_host, "s-1", code)
    with hashing(this_host, "s-1"):
        assert go(this_host, "s-1")["exit_code"] == code
        os.kill(job["supervisor"]["pid"], signal.SIGKILL)
        eventually((this_host.folder("s-1") / "submissions/1/successor.json").exists)
    if code == 0:
        assert_succeeded_once(this_host, "s-1")
    else:
        assert this_host.await_end("s-1")["reason"] == "exit_3"


@pytest.mark.parametrize("quiet", [False, True])
def test_a_guardian_judges_checkpoints_by_when_the_job_s_end_was_recorded_and_shows_no_life_after_that(
    this_host: Host, quiet: bool
) -> None:
    job = launch(this_host, "s-15", 3)
    folder = this_host.folder("s-15")
    with hashing(this_host, "s-15"):
        go(this_host, "s-15")
        record = Path(job_status.path_of(paths_of(this_host, "s-15"), 1))
        whole = record.read_bytes()
        if quiet:  # as if it had been recorded long after the last checkpoint was saved
            moment = record.stat().st_mtime + 1000
            os.utime(record, (moment, moment))
        os.kill(job["supervisor"]["pid"], signal.SIGKILL)
        eventually((folder / "submissions/1/successor.json").exists)
    assert this_host.await_end("s-15")["reason"] == "exit_3"
    assert [entry["step"] for entry in this_host.look("s-15")["outbox"]] == ([7] if quiet else [])
    assert record.read_bytes() == whole
    assert (folder / "telemetry.jsonl").stat().st_mtime <= (folder / "submissions/1/successor.json").stat().st_mtime


def test_without_any_supervisor_whoever_looks_has_the_end_completed(this_host: Host) -> None:
    job = launch(this_host, "s-2")
    with hashing(this_host, "s-2"):
        go(this_host, "s-2")
        kill_both(job)
        evidence = eventually(
            lambda: (told := this_host.look("s-2")["evidence"])["supervisor"] != "alive" and told,
        )
        assert (evidence["supervisor"], evidence["state"]["state"]) == ("unknown", "running")
        with pytest.raises(Refused, match="has submission 1 already"):
            this_host.call("run.submit", run_id="s-2", submission=2)
    assert_succeeded_once(this_host, "s-2")


def test_a_stop_of_a_run_whose_job_had_ended_well_completes_its_end(this_host: Host) -> None:
    job = launch(this_host, "s-3")
    with hashing(this_host, "s-3"):
        go(this_host, "s-3")
        kill_both(job)
        eventually(lambda: process_identity.judge(job["supervisor"]) == "dead")
    assert this_host.call("run.stop", run_id="s-3", grace_s=1)["outcome"] == "stopping"
    assert_succeeded_once(this_host, "s-3")


def test_after_a_restart_of_its_machine_it_is_not_lost_and_not_run_again(
    this_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = launch(this_host, "s-4")
    with hashing(this_host, "s-4"):
        go(this_host, "s-4")
        kill_both(job)
        eventually(lambda: all(process_identity.judge(job[name]) == "dead" for name in ("supervisor", "guardian")))
        lock = paths_of(this_host, "s-4").supervisor_lock
        eventually(lambda: not files.is_locked(lock))  # the kernel lets go of it a moment after the process is gone
        monkeypatch.setattr(process_identity, "_host", {**process_identity.current_host(), "boot_id": "another"})
        evidence = Evidence(paths_of(this_host, "s-4"))
        told = evidence.as_json()
        assert (told["supervisor"], told["rebooted"], told["lacks_end"]) == ("unknown", True, True)
        said = told["may_have_succeeded"]
        assert again.may_have_succeeded(said, "host_rebooted", is_announcing=False, rebooted=True)


def test_a_batch_system_that_starts_it_again_gets_its_end_and_no_second_job(worker: Callable[[str], Worker]) -> None:
    there = worker("slurm")
    there.hand_over("s-5", SAVES % 0, watch={**RESUME, "checkpoints": WATCH["checkpoints"]})
    first = there.begin("s-5")
    eventually((there.host.folder("s-5") / "work/up").exists)
    with hashing(there.host, "s-5"):
        go(there.host, "s-5")
        first.kill()
        first.wait()
    assert there.begin("s-5").wait(WITHIN_S) == 0
    assert_succeeded_once(there.host, "s-5")
    assert there.exit_of("s-5", 1)["state"] == "succeeded"
    assert not (there.host.folder("s-5") / "attempts/2").exists()


def test_a_stopped_job_that_exits_with_0_has_not_ended_by_itself(this_host: Host) -> None:
    this_host.launch("s-6", "sh", "-c", "trap 'exit 0' TERM; touch up; while :; do sleep 0.05; done")
    eventually((this_host.folder("s-6") / "work/up").exists)
    this_host.call("run.stop", run_id="s-6", grace_s=20)
    assert this_host.await_end("s-6")["state"] == "cancelled"
    assert not Path(job_status.path_of(paths_of(this_host, "s-6"), 1)).exists()


@pytest.mark.parametrize(
    ("record", "status"),
    [
        ({"submission": 1, "exit_code": 0, "signal": None}, 0),
        ({"submission": 1, "exit_code": None, "signal": 9}, -9),
        ({"submission": 2, "exit_code": 0}, None),
        ({"exit_code": 0}, None),
        ({"submission": 1, "exit_code": False}, None),
        ({"submission": 1, "exit_code": "0"}, None),
        ({"submission": 1}, None),
        ("{", None),
    ],
)
def test_only_a_whole_record_of_this_submission_counts(tmp_path: Path, record: object, status: int | None) -> None:
    paths = RunPaths(str(tmp_path), "s-7")
    Path(paths.attempt(1)).mkdir(parents=True)
    assert job_status.read_status(paths, 1, 1) is None
    Path(job_status.path_of(paths, 1)).write_text(record if isinstance(record, str) else json.dumps(record))
    assert job_status.read_status(paths, 1, 1) == status


def kill_after_its_job(host: Host, run_id: str, code: int = 0) -> Path:
    """Have its job end, and kill whoever supervises it while it takes the last checkpoint; return the job's record."""
    job = launch(host, run_id, code)
    with hashing(host, run_id):
        go(host, run_id)
        kill_both(job)
        eventually(lambda: all(process_identity.judge(job[name]) == "dead" for name in ("supervisor", "guardian")))
    return Path(job_status.path_of(paths_of(host, run_id), 1))


def test_a_status_that_cannot_be_read_leaves_open_how_a_dead_supervisor_s_job_ended(
    this_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, paths = kill_after_its_job(this_host, "s-8"), paths_of(this_host, "s-8")
    with monkeypatch.context() as patch:
        patch.setattr(files, "read_json", refusing(record))
        evidence = Evidence(paths)
        assert (evidence.supervisor, evidence.lacks_end, evidence.may_lack_end) == ("unknown", False, True)
        with pytest.raises(files.UnseenError):
            cleanup.complete(paths, 1)
        assert this_host.folder("s-8").joinpath("attempts/1/exit.json").exists() is False
    assert Evidence(paths).lacks_end


def test_a_person_s_stop_ends_a_run_of_whose_job_nobody_can_read_how_it_ended(
    this_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, paths = kill_after_its_job(this_host, "s-12"), paths_of(this_host, "s-12")
    started: list[str] = []
    monkeypatch.setattr(files, "read_json", refusing(record))
    monkeypatch.setattr(detached, "start", lambda command, *_: started.append(command))
    call: Any = SimpleNamespace(root=str(this_host.root), session=SimpleNamespace(agent_path="agent"))
    assert submissions.stop(call, {"run_id": "s-12", "grace_s": 1})["outcome"] == "stopping"
    assert started == ["clear"]
    cleanup.complete(paths, 1)
    state = json.loads(Path(paths.state).read_text())
    assert (state["state"], state["reason"]) == ("cancelled", "killed_by_user")
    assert "how its job had ended cannot be read: status.json" in state["message"]


@pytest.mark.parametrize("kind", ["a link", "a folder", "a pipe"])
def test_what_was_seen_to_be_no_file_is_no_record(tmp_path: Path, kind: str) -> None:
    paths = RunPaths(str(tmp_path), "s-13")
    Path(paths.attempt(1)).mkdir(parents=True)
    record = Path(job_status.path_of(paths, 1))
    if kind == "a link":
        record.symlink_to(record)
    elif kind == "a folder":
        record.mkdir()
    else:
        os.mkfifo(record)
    assert (job_status.read_status(paths, 1, 1), job_status.ended_at(paths, 1)) == (None, None)


@pytest.mark.parametrize("damaged", ["outbox", "work", "pattern", "quiet_s"])
def test_what_keeps_the_last_checkpoints_from_being_taken_is_told_and_does_not_keep_the_run_from_its_end(
    this_host: Host, damaged: str
) -> None:
    kill_after_its_job(this_host, "s-14")
    folder = this_host.folder("s-14")
    spec = json.loads((folder / "spec.json").read_text())
    if damaged in ("outbox", "work"):
        (folder / damaged).rename(folder / f"{damaged}-away")
        (folder / damaged).symlink_to(folder / damaged)
    elif damaged == "pattern":
        del spec["watch"]["checkpoints"]["pattern"]
    else:
        spec["watch"]["checkpoints"]["quiet_s"] = "a while"
    (folder / "spec.json").write_text(json.dumps(spec))
    cleanup.complete(paths_of(this_host, "s-14"), 1)
    assert json.loads((folder / "state.json").read_text())["state"] == "succeeded"
    events = (folder / "events.jsonl").read_text()
    assert "cannot be taken" in events or "cannot be looked for" in events


def refusing(refused: Path) -> Callable[..., dict[str, Any] | None]:
    """Reads JSON from a disk that answers with an error where one file is asked for."""
    real = files.read_json

    def read(path: str, *words: Any, **more: Any) -> dict[str, Any] | None:
        if path == str(refused):
            raise files.UnseenError(f"{refused.name}: Input/output error")
        return real(path, *words, **more)

    return read


@pytest.mark.parametrize("boot", ["this", "another", "unknown"])
def test_after_a_restart_of_its_machine_what_changed_just_before_a_job_s_end_is_not_trusted(
    this_host: Host, boot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, paths = kill_after_its_job(this_host, "s-16"), paths_of(this_host, "s-16")
    here = process_identity.current_host()
    if boot == "another":
        monkeypatch.setattr(process_identity, "_host", {**here, "boot_id": "another"})
    elif boot == "unknown":
        for name in ("attempts/1/run.json", "submissions/1/job.json"):
            (this_host.folder("s-16") / name).write_text('{"submission": 1}')
    cleanup.complete(paths, 1)
    assert json.loads(Path(paths.state).read_text())["state"] == "succeeded"
    assert len(paths.checkpoints()) == (boot == "this")
    said = Path(paths.events).read_text()
    assert ("out/step-7 was still being written to less than 600 s before the job ended" in said) == (boot != "this")
    assert record.exists()


def test_after_a_restart_of_its_machine_what_had_not_changed_for_a_while_when_the_job_ended_is_taken(
    this_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, paths = kill_after_its_job(this_host, "s-17"), paths_of(this_host, "s-17")
    moment = record.stat().st_mtime + 1000  # as if its end had been recorded long after it saved its last checkpoint
    os.utime(record, (moment, moment))
    monkeypatch.setattr(process_identity, "_host", {**process_identity.current_host(), "boot_id": "another"})
    cleanup.complete(paths, 1)
    assert len(paths.checkpoints()) == 1


@contextmanager
def batch_job_without_supervisor(
    there: Worker, run_id: str, monkeypatch: pytest.MonkeyPatch, says: str
) -> Iterator[Path]:
    """A batch job that exited with 0, whose supervisor was killed while it hashed, and of which its scheduler says a word."""
    there.hand_over(run_id, SAVES % 0, watch={**RESUME, "checkpoints": WATCH["checkpoints"]})
    folder = there.host.folder(run_id)
    (folder / "submissions/1/job.json").write_text(
        json.dumps({"submission": 1, "scheduler": "slurm", "job_id": "7", "name": f"armada.{run_id}.1", "time": 1.0})
    )
    first = there.begin(run_id)
    eventually((folder / "work/up").exists)
    monkeypatch.setattr(slurm, "look", lambda *_: engine.scheduler_status(says, 1.0, reason="node_failure"))
    with hashing(there.host, run_id):
        go(there.host, run_id)
        first.kill()
        first.wait()
        yield folder


@pytest.mark.parametrize("says", ["ended", "gone"])
def test_whatever_its_scheduler_says_a_job_that_exited_with_0_is_ending_and_is_not_run_again(
    worker: Callable[[str], Worker], monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    there = worker("slurm")
    paths = paths_of(there.host, "s-9")
    call: Any = SimpleNamespace(root=str(there.host.root))
    with batch_job_without_supervisor(there, "s-9", monkeypatch, says) as folder:
        evidence = Evidence(paths)
        told = evidence.as_json()
        assert (told["supervisor"], told["scheduler"]["state"], evidence.lacks_end) == ("unknown", "ending", True)
        with pytest.raises(AgentError, match="how its job ended is recorded"):
            submissions.submit(call, {"run_id": "s-9", "submission": 2})
        record = Path(job_status.path_of(paths, 1))
        whole = record.read_bytes()
        read_json = files.read_json
        monkeypatch.setattr(files, "read_json", refusing(record))
        evidence = Evidence(paths)
        told = evidence.as_json()
        assert (told["scheduler"]["state"], told["lacks_end"]) == ("ending", False)
        with pytest.raises(AgentError, match="how its job ended is recorded"):
            submissions.submit(call, {"run_id": "s-9", "submission": 2})
        monkeypatch.setattr(files, "read_json", read_json)
        record.unlink()
        evidence = Evidence(paths)
        assert (evidence.as_json()["scheduler"]["state"], evidence.may_have_ended_well) == (says, False)
        record.write_bytes(whole)
    cleanup.complete(paths, 1)
    assert there.host.state("s-9")["state"] == "succeeded"
    assert folder.exists()


def test_what_completes_an_end_leaves_a_later_submission_alone(
    worker: Callable[[str], Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = worker("slurm")
    paths = paths_of(there.host, "s-10")
    with batch_job_without_supervisor(there, "s-10", monkeypatch, "ended") as folder:
        there.claim("s-10", 2)
        Path(paths.secrets).write_text("{}")
        before = (folder / "state.json").read_bytes()
    cleanup.complete(paths, 1)
    assert (folder / "state.json").read_bytes() == before
    assert Path(paths.secrets).exists()
    assert not (folder / "attempts/1/exit.json").exists()


def test_of_all_who_look_one_in_a_minute_has_an_end_completed_and_nobody_while_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = RunPaths(str(tmp_path), "s-11")
    Path(paths.submission(1)).mkdir(parents=True)
    started: list[int] = []
    monkeypatch.setattr(detached, "start", lambda _command, _agent, _paths, number: started.append(number))
    call: Any = SimpleNamespace(session=SimpleNamespace(agent_path="agent"))
    lock = files.lock(paths.supervisor_lock)
    assert lock is not None
    completion.start(call, paths, 1)
    assert started == []
    os.close(lock)
    completion.start(call, paths, 1)
    completion.start(call, paths, 1)
    assert started == [1]
    mark = Path(paths.submission(1, "completing"))
    for moment in (mark.stat().st_mtime - 61, mark.stat().st_mtime + 3600):  # also one of a clock that was ahead
        os.utime(mark, (moment, moment))
        completion.start(call, paths, 1)
    assert started == [1, 1, 1]
    Path(paths.submission(2)).mkdir()
    completion.start(call, paths, 2)
    assert started == [1, 1, 1, 2]
