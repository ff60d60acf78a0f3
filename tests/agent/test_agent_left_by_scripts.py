"""What a script had saved when its supervisor was killed before finding it: taken once the script is gone, whole ones alone."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from armada_agent.foundation import files
from armada_agent.host import processes
from armada_agent.outbox import orphans
from armada_agent.outbox.checkpoint_watch import CheckpointWatch
from armada_agent.outbox.finishing import Outbox
from armada_agent.outbox.watch_record import count_failed
from armada_agent.paths import RunPaths
from armada_agent.records.journal import Journal

from tests.agent.conversation import Host, spec_of
from tests.agent.test_agent_checkpoint_links import find_resumable
from tests.agent.test_agent_checkpoint_watch import findings, watch
from tests.agent.test_agent_orphans import steps, sync_look
from tests.supervisors import kill_both
from tests.waiting import eventually

QUIET_S = 600
SETTINGS = {"pattern": "out/step-*", "quiet_s": QUIET_S}
# A file with two names is as old as its date says: the time of its inode's change is also that of a new name.
SCRIPT = (
    'test -n "$1" && exec echo "$@";'
    "mkdir -p out/step-4; echo four > out/step-4/w; touch -d '1 hour ago' out/step-4/w; ln out/step-4/w w; echo ready;"
    "until [ -e go ]; do sleep 0.05; done; mkdir out/step-5; echo maybe half > out/step-5/w; echo last word"
)


def start_orphan(host: Host, run_id: str, *resume: str) -> Path:
    """Start a script that has saved step 4, which its supervisor does not find before it is killed."""
    host.launch(run_id, "sh", "-c", SCRIPT, "job", watch=watch("out/step-*", *resume, quiet_s=QUIET_S))
    eventually(lambda: "ready" in host.output(run_id))
    kill_both(host.look(run_id)["evidence"]["submission"]["job"])
    eventually(lambda: host.look(run_id)["evidence"]["supervisor"] == "dead")
    return host.folder(run_id)


def let_end(host: Host, run_id: str) -> None:
    (host.folder(run_id) / "work/go").touch()
    eventually(lambda: host.look(run_id)["evidence"]["processes"] == 0)


def test_what_a_script_left_is_taken_before_anything_is_said_of_it(some_host: Host) -> None:
    folder = start_orphan(some_host, "left-1")
    let_end(some_host, "left-1")
    found = sync_look(some_host, "left-1")
    assert (found["announced"], found["finishing"]) == (1, 1)
    eventually(lambda: sync_look(some_host, "left-1")["finishing"] == 0)
    assert steps(some_host, "left-1") == [4]
    assert sync_look(some_host, "left-1")["announced"] == 0
    # Of step 5 nobody knows whether it is whole: it stays where it is, and no stop takes it later.
    some_host.call("run.stop", run_id="left-1", grace_s=0)
    some_host.await_end("left-1")
    assert steps(some_host, "left-1") == [4]
    assert (folder / "work/out/step-5/w").exists()


def test_the_next_attempt_goes_on_from_what_was_taken_though_the_script_cleared_it_away(this_host: Host) -> None:
    folder = start_orphan(this_host, "left-2", "--resume", "{checkpoint}")
    let_end(this_host, "left-2")
    sync_look(this_host, "left-2")
    eventually(lambda: steps(this_host, "left-2") == [4])
    eventually(lambda: not files.is_locked(str(folder / ".harvest.lock")))
    shutil.rmtree(folder / "work/out")
    (digest,) = [entry["digest"] for entry in this_host.look("left-2")["outbox"]]
    this_host.call("run.submit", run_id="left-2", submission=2)
    this_host.await_state("left-2", "succeeded", submission=2)
    assert this_host.output("left-2").splitlines()[-1] == f"--resume {folder}/outbox/{digest}"


def test_a_script_whose_end_was_recorded_left_nothing(this_host: Host) -> None:
    this_host.launch(
        "left-3", "sh", "-c", "mkdir -p out/step-1; echo w > out/step-1/w; exit 1", watch=watch(quiet_s=60)
    )
    this_host.await_end("left-3")
    copied = this_host.folder("left-3") / "work/out/step-9"
    copied.mkdir()
    (copied / "w").write_text("copied by a person")
    os.utime(copied / "w", (5.0, 5.0))
    found = sync_look(this_host, "left-3")
    assert (found["announced"], found["finishing"]) == (0, 0)


# Without processes.


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    """A script's run, whose first attempt has begun: its log grew at 5000."""
    place = RunPaths(str(tmp_path), "run-1")
    for folder in (place.work, place.outbox, place.attempt(1), place.submission(1)):
        Path(folder).mkdir(parents=True)
    Path(place.spec).write_text(json.dumps(spec_of("run-1", "true", watch={"checkpoints": SETTINGS, "resume": []})))
    save(place, 1)
    watcher(place).begin()  # step 1 came with the code
    Path(place.output).touch()
    os.utime(place.output, (5000.0, 5000.0))
    for name, result in (("fork", 0), ("nice", 0), ("umask", 0)):
        monkeypatch.setattr(os, name, lambda *_, result=result: result)
    return place


def watcher(run: RunPaths) -> CheckpointWatch:
    return CheckpointWatch(run, SETTINGS, Journal(run, 1))


def save(run: RunPaths, step: int, moment: float = 4000.0, *, is_copied: bool = False) -> Path:
    """Write a checkpoint with a date; `is_copied`: just now, by `cp -a`."""
    file = Path(run.work, f"out/step-{step}/w")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(str(step))
    os.utime(file, (moment, moment))
    if not is_copied:
        Path(run.work, f"second-name-{step}-{moment}").hardlink_to(file)
    return file


def finished(run: RunPaths) -> list[int]:
    return sorted(json.loads(Path(run.checkpoint(d, "MANIFEST.json")).read_text())["step"] for d in run.checkpoints())


@pytest.mark.parametrize(("moment", "left"), [(5000.0 - QUIET_S, ["out/step-2"]), (5001.0 - QUIET_S, [])])
def test_what_had_changed_shortly_before_the_script_fell_silent_may_be_half(
    run: RunPaths, moment: float, left: list[str]
) -> None:
    save(run, 2, moment)
    assert orphans.left_behind(run) == left
    orphans.finish(run.root, run.run_id, 1)
    assert finished(run) == [2] * len(left)
    assert orphans.left_behind(run) == []


def test_nothing_is_taken_twice_nor_after_another_submission(run: RunPaths) -> None:
    save(run, 2)
    Path(run.submission(2)).mkdir()
    orphans.finish(run.root, run.run_id, 1)
    assert (finished(run), orphans.left_behind(run)) == ([], ["out/step-2"])
    orphans.finish(run.root, run.run_id, 2)
    orphans.finish(run.root, run.run_id, 2)
    assert finished(run) == [2]
    (entry,) = json.loads(Path(run.checkpoint_watch).read_text())["taken"]
    assert [entry["digest"]] == run.checkpoints()


def test_two_never_settle_one_run_at_once_and_a_next_attempt_waits(run: RunPaths) -> None:
    save(run, 2)
    waited: list[int] = []
    with Path(run.checkpoint_watch_lock).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        orphans.finish(run.root, run.run_id, 1)
        assert finished(run) == []

        def tick() -> None:
            waited.append(1)
            fcntl.flock(lock, fcntl.LOCK_UN)

        watcher(run).begin(tick)
    assert waited == [1]
    assert [Path(each).name for each in run.announced()] == [".new-2-1-1"]


def test_one_that_cannot_be_read_holds_up_no_other(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused, _ = save(run, 2), save(run, 3)
    real = os.link

    def link(source: str, target: str) -> None:
        if source == str(refused):
            raise PermissionError(1, "Operation not permitted", source)
        real(source, target)

    def copy(source: str, target: str) -> None:
        raise PermissionError(13, "Permission denied", source)

    with monkeypatch.context() as refusing:
        refusing.setattr(os, "link", link)
        refusing.setattr(shutil, "copy2", copy)
        orphans.finish(run.root, run.run_id, 1)
        assert (finished(run), orphans.left_behind(run)) == ([3], [])
        assert "out/step-2 cannot be taken: [Errno 13] Permission denied" in capsys.readouterr().err
        assert count_failed(run) == 1, "it still counts as left behind"
        orphans.finish(run.root, run.run_id, 1)
        assert "cannot be taken" not in capsys.readouterr().err, "and is not named again and again"
    orphans.finish(run.root, run.run_id, 1)
    assert (finished(run), count_failed(run)) == ([2, 3], 0)


def test_a_full_disk_only_delays_it(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    save(run, 2)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "link", refuse)
        full.setattr(shutil, "copy2", refuse)
        orphans.finish(run.root, run.run_id, 1)
    assert (finished(run), orphans.left_behind(run)) == ([], ["out/step-2"])
    orphans.finish(run.root, run.run_id, 1)
    assert finished(run) == [2]


def test_a_lock_that_cannot_be_made_keeps_no_job_from_its_start(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    save(run, 2)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "lock", refuse)
    watcher(run).begin()
    assert [Path(each).name for each in run.announced()] == [".new-2-1-1"]


def test_what_was_written_over_in_place_is_not_hashed_as_what_it_was(run: RunPaths) -> None:
    file = save(run, 2)
    watcher(run).begin()  # takes it, and is killed before it hashes it
    file.write_text("half of step 3")
    orphans.finish(run.root, run.run_id, 1)
    assert (finished(run), run.announced()) == ([], [])


@pytest.mark.parametrize("damage", ["record", "spec", "settings"])
def test_without_a_record_or_a_plan_nothing_is_taken_for_a_checkpoint(run: RunPaths, damage: str) -> None:
    save(run, 2)
    spec: dict[str, Any] = spec_of("run-1", "true", watch={"checkpoints": {"pattern": "out/*", "quiet_s": None}})
    told = {"record": (run.checkpoint_watch, "{"), "spec": (run.spec, "["), "settings": (run.spec, json.dumps(spec))}
    place, text = told[damage]
    Path(place).write_text(text)
    assert orphans.left_behind(run) == []
    orphans.finish(run.root, run.run_id, 1)
    assert finished(run) == []


def test_an_announced_one_of_a_script_is_remembered_under_its_digest(run: RunPaths) -> None:
    save(run, 2)
    watcher(run).begin()
    shutil.rmtree(Path(run.work, "out"))
    orphans.finish(run.root, run.run_id, 1)
    (entry,) = json.loads(Path(run.checkpoint_watch).read_text())["taken"]
    assert [entry["digest"]] == run.checkpoints()


@pytest.mark.parametrize("end", ["its supervisor saw it", "nobody saw it"])
def test_what_a_job_was_writing_when_it_died_does_not_become_whole_by_waiting(run: RunPaths, end: str) -> None:
    save(run, 2)
    save(run, 3, 4990.0)
    now = 100.0
    watcher = CheckpointWatch(run, SETTINGS, Journal(run, 1), lambda: now)
    watcher.look()
    watcher.note_end(5000.0)
    if end == "its supervisor saw it":
        now += 2 * QUIET_S  # so long its processes took to end
        watcher.look()
    watcher.finish(is_trusted=False)
    assert [Path(each).name for each in run.announced()] == [".new-2-1-1"]


def test_a_stop_after_a_restart_of_the_host_takes_no_half_checkpoint(this_host: Host) -> None:
    folder = start_orphan(this_host, "left-4")
    half = folder / "work/out/step-5/w"
    half.parent.mkdir()
    half.write_text("ha")
    for process in processes.members(RunPaths(str(this_host.root), "left-4")):
        processes.send(process, signal.SIGKILL)
    eventually(lambda: this_host.look("left-4")["evidence"]["processes"] == 0)
    for file in (half, folder / "output.log", folder / "telemetry.jsonl"):
        if file.exists():
            os.utime(file, (time.time() - 1200,) * 2)
    this_host.call("run.stop", run_id="left-4", grace_s=0)
    this_host.await_end("left-4")
    assert steps(this_host, "left-4") == [4]
    assert any("out/step-5 was still being written to" in said for said in findings(this_host, "left-4"))


def test_a_stop_takes_nothing_that_came_with_the_code_of_a_job_that_never_began(
    this_host: Host, tmp_path: Path
) -> None:
    code = tmp_path / "code"
    save_at = code / "out/step-1/w"
    save_at.parent.mkdir(parents=True)
    save_at.write_text("w")
    os.utime(save_at, (5.0, 5.0))
    this_host.launch("left-5", "sh", "-c", SCRIPT, "job", watch=watch(quiet_s=1.0), job={"code": str(code)})
    eventually(lambda: "ready" in this_host.output("left-5"))
    kill_both(this_host.look("left-5")["evidence"]["submission"]["job"])
    (this_host.folder("left-5") / "harvest.json").unlink()  # as if it had been killed before it wrote that
    this_host.call("run.stop", run_id="left-5", grace_s=0)
    this_host.await_end("left-5")
    assert 1 not in steps(this_host, "left-5")


def test_a_copy_that_kept_its_old_dates_may_be_half_when_the_script_falls_silent(run: RunPaths) -> None:
    """`cp -a` and `rsync -a` date what they write like its source, so a script killed within one leaves old files."""
    save(run, 2)
    save(run, 3, is_copied=True)
    assert orphans.left_behind(run) == ["out/step-2"]
    now = time.time()
    os.utime(run.output, (now, now))
    watcher(run).finish(is_trusted=False)
    orphans.finish(run.root, run.run_id, 1)
    assert finished(run) == [2]


def test_a_checkpoint_whose_supervisor_died_while_it_linked_it_is_taken_all_the_same(run: RunPaths) -> None:
    """The new name changed its file's inode after the script had fallen silent."""
    file = save(run, 2, is_copied=True)
    assert orphans.left_behind(run) == []
    Path(run.outbox, ".part-2").hardlink_to(file)
    assert orphans.left_behind(run) == ["out/step-2"]


def test_a_last_look_waits_for_who_settles_what_was_left(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guardian may take over while it is believed dead."""
    save(run, 2)
    asked: list[str] = []
    real = files.lock

    def lock_file(path: str, timeout_s: float | None = None) -> int | None:
        asked.append(path)
        return real(path, timeout_s)

    monkeypatch.setattr(files, "lock", lock_file)
    outbox = Outbox(run, {"keep": 9, "disk_floor_bytes": 0}, Journal(run, 1), watcher(run))
    outbox.note_end()
    with Path(run.checkpoint_watch_lock).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outbox.start()
        last = threading.Thread(target=outbox.finish, kwargs={"is_trusted": True})
        last.start()
        eventually(lambda: run.checkpoint_watch_lock in asked)
        assert run.announced() == []
    last.join()
    assert finished(run) == [2]


@pytest.mark.parametrize(
    ("pattern", "saved", "resumed"), [("out/step-*", "out/step-7/w", ""), ("*.ckpt", "7.ckpt", "/7.ckpt")]
)
def test_the_next_attempt_goes_on_from_a_checkpoint_that_nobody_noted(
    tmp_path: Path, pattern: str, saved: str, resumed: str
) -> None:
    """Its supervisor was killed between announcing and noting it, and the job cleared it away."""
    run = RunPaths(str(tmp_path), "run-2")
    for folder in (run.work, run.outbox):
        Path(folder).mkdir(parents=True)
    settings = {"pattern": pattern, "quiet_s": 0.0}
    Path(run.spec).write_text(json.dumps(spec_of("run-2", "true", watch={"checkpoints": settings, "resume": []})))
    file = Path(run.work, saved)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("w")
    taker = CheckpointWatch(run, settings, Journal(run, 1))
    before = Path(run.checkpoint_watch)
    taker.begin()
    file.write_text("another")
    record = before.read_text()
    taker.finish(is_trusted=True)
    before.write_text(record)
    Outbox(run, {"keep": 9, "disk_floor_bytes": 0}, Journal(run, 1)).look()
    file.unlink()
    (digest,) = run.checkpoints()
    assert find_resumable(run) == (f"{run.outbox}/{digest}{resumed}", 7)
    Path(run.spec).write_text("{")
    assert find_resumable(run) == (f"{run.outbox}/{digest}", 7)


def test_an_unnoted_checkpoint_of_a_lower_step_is_not_the_newest(run: RunPaths) -> None:
    save(run, 2)
    orphans.finish(run.root, run.run_id, 1)
    record = Path(run.checkpoint_watch).read_text()
    Path(run.checkpoint_watch).write_text(json.dumps({**json.loads(record), "taken": []}))
    save(run, 3)
    orphans.finish(run.root, run.run_id, 1)
    assert find_resumable(run) == (f"{run.work}/out/step-3", 3)
