"""From which checkpoint a script goes on: the newest whole one, wherever it lies. Tests write what a job would write."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from armada_agent.foundation import files
from armada_agent.outbox.checkpoint_watch import CheckpointWatch
from armada_agent.outbox.finishing import Outbox, publish
from armada_agent.outbox.resumable import arguments
from armada_agent.outbox.watch_record import last_whole, read_record
from armada_agent.records.journal import Journal

from tests.agent.conversation import spec_of
from tests.agent.test_agent_checkpoint_links import Job, find_resumable
from tests.agent.test_agent_watch_rules import findings


def make(folder: Path, pattern: str = "out/step-*") -> Job:
    job = Job(folder, pattern)
    Path(job.paths.spec).write_text(json.dumps(spec_of("run-1", "true", watch={"checkpoints": job.settings})))
    return job


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return make(tmp_path)


def in_outbox(job: Job, step: int) -> str:
    """Where the checkpoint of a step lies in the outbox."""
    listed = {
        json.loads(Path(job.paths.checkpoint(d, "MANIFEST.json")).read_text())["step"]: d
        for d in job.paths.checkpoints()
    }
    return str(job.outbox / listed[step])


def begin_again(job: Job, **record: object) -> None:
    """The next supervisor, with another record than the one that the former had written."""
    place = Path(job.paths.checkpoint_watch)
    place.write_text(json.dumps({**json.loads(place.read_text()), **record}))
    job.watch = CheckpointWatch(job.paths, job.settings, Journal(job.paths, 1), lambda: job.now)


def test_without_a_checkpoint_there_is_none_to_go_on_from(job: Job) -> None:
    assert (find_resumable(job.paths), last_whole(job.paths)) == (None, None)
    job.watch.look()
    assert find_resumable(job.paths) is None


def test_the_jobs_own_files_are_used_for_as_long_as_they_are_what_was_taken(job: Job) -> None:
    job.write("out/step-1/w")
    job.look()
    own = job.work / "out/step-1"
    assert find_resumable(job.paths) == (str(own), 1)
    (own / "w").unlink()
    (own / "w").write_text("half of the next")
    assert find_resumable(job.paths) == (in_outbox(job, 1), 1)
    shutil.rmtree(own)
    assert find_resumable(job.paths) == (in_outbox(job, 1), 1)


def test_one_that_nobody_noted_and_that_has_the_same_bytes_takes_nothing_from_the_record(job: Job) -> None:
    job.write("out/step-1/w")
    job.look()
    job.watch.note_published("announced-1-1-7", Path(in_outbox(job, 1)).name)
    assert find_resumable(job.paths) == (str(job.work / "out/step-1"), 1)


def test_of_a_checkpoint_that_is_nowhere_any_more_the_one_before_is_used(job: Job) -> None:
    for step in (1, 2):
        job.write(f"out/step-{step}/w", str(step))
        job.look()
    shutil.rmtree(in_outbox(job, 2))
    shutil.rmtree(job.work / "out/step-2")
    assert find_resumable(job.paths) == (str(job.work / "out/step-1"), 1)
    assert last_whole(job.paths) == 2


def test_one_that_is_not_hashed_yet_is_not_whole_yet(job: Job) -> None:
    job.write("out/step-1/w")
    job.watch.look()
    assert last_whole(job.paths) is None
    job.look()
    assert last_whole(job.paths) == 1


def test_a_checkpoint_that_is_a_file_is_a_file_in_the_outbox_too(tmp_path: Path) -> None:
    job = make(tmp_path, "*.ckpt")
    job.write("7.ckpt")
    job.look()
    (job.work / "7.ckpt").unlink()
    assert find_resumable(job.paths) == (in_outbox(job, 7) + "/7.ckpt", 7)


def test_what_was_taken_last_is_the_newest_although_its_step_is_lower(job: Job) -> None:
    """A job that was resumed from an earlier checkpoint goes on from there."""
    for step in (5, 3):
        job.write(f"out/step-{step}/w", str(step))
        job.look()
    assert find_resumable(job.paths) == (str(job.work / "out/step-3"), 3)


def test_one_that_nobody_noted_counts_where_its_step_is_higher(job: Job) -> None:
    """Its supervisor was killed before it noted what it had taken."""
    for name in ("v", "w"):
        job.write(f"out/step-4/{name}", "first")
    job.look()
    begin_again(job, taken=[])
    unnoted = in_outbox(job, 4)
    assert find_resumable(job.paths) == (unnoted, 4)
    for step, newest in ((3, unnoted), (4, str(job.work / "out/step-4"))):
        shutil.rmtree(job.work / "out")
        job.write(f"out/step-{step}/w", "again")
        job.look()
        assert find_resumable(job.paths) == (newest, 4)


# What is not whole -------------------------------------------------------------------------------------------------

TEMPLATE = ["--resume", "{checkpoint}", "--at={step}"]


def resumed(job: Job) -> list[str]:
    """What the next attempt adds to its command, after it has settled what the former one left."""
    journal = Journal(job.paths, 2)
    job.watch = CheckpointWatch(job.paths, job.settings, journal, lambda: job.now)
    job.watch.begin()
    return arguments(job.paths, TEMPLATE, Outbox(job.paths, {}, journal, job.watch), journal)


def begun(folder: Path, pattern: str = "out/step-*") -> Job:
    """A first attempt, which writes its log."""
    job = make(folder, pattern)
    job.watch.begin()
    Path(job.paths.output).write_text("step 1")
    return job


def cut(path: Path, size_bytes: int) -> None:
    """What a power cut does to a file that the disk did not have: its end is gone, its time is not."""
    status = path.stat()
    path.chmod(0o600)
    os.truncate(path, size_bytes)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def told(job: Job) -> str:
    return "; ".join(findings(job))


@pytest.mark.parametrize("half", ["half", "longer than it was before"])
def test_one_that_was_being_written_anew_in_place_is_not_resumed_from_although_the_outbox_has_a_link_to_it(
    tmp_path: Path, half: str
) -> None:
    job = begun(tmp_path, "*.ckpt")
    job.write("6.ckpt", "whole before")
    job.look()
    job.write("7.ckpt", "whole")
    job.look()
    job.write("7.ckpt", half)  # the same file
    assert resumed(job) == ["--resume", str(job.work / "6.ckpt"), "--at=6"]
    assert "overwrote 7.ckpt in place" in told(job)


def test_where_none_is_whole_the_record_says_that_the_job_starts_from_the_beginning(tmp_path: Path) -> None:
    job = begun(tmp_path, "*.ckpt")
    job.write("7.ckpt", "whole")
    job.look()
    job.write("7.ckpt", "half")
    assert resumed(job) == []
    assert "the job starts from the beginning: none of its checkpoints here is whole (" in told(job)
    assert "(step 7: it changed since it was taken)" in told(job)  # and not also what was kept aside of it


def test_without_any_checkpoint_nothing_is_said(tmp_path: Path) -> None:
    job = begun(tmp_path)
    assert resumed(job) == []
    assert told(job) == ""


def test_one_that_a_power_cut_made_shorter_does_not_count_and_is_not_taken_again(tmp_path: Path) -> None:
    job = begun(tmp_path)
    for step in (1, 2):
        job.write(f"out/step-{step}/w", f"whole {step}")
        job.look() if step == 1 else job.watch.look()  # nobody has hashed the second one
    cut(job.work / "out/step-2/w", 3)
    Path(job.paths.output).write_text("step 3")  # both were quiet when the job was last seen alive
    assert resumed(job) == ["--resume", str(job.work / "out/step-1"), "--at=1"]
    assert "out/step-2 is shorter than when it was taken, as after a power cut" in told(job)
    assert "in place" not in told(job)
    assert job.look() == [{"w": "whole 1"}]
    assert job.paths.announced() == []
    assert json.loads(Path(job.paths.checkpoint_watch).read_text())["copies"] is False


def test_one_that_only_the_outbox_has_and_that_is_shorter_than_announced_does_not_count(tmp_path: Path) -> None:
    job = begun(tmp_path)
    for step in (1, 2):
        job.write(f"out/step-{step}/w", f"whole {step}")
        job.look() if step == 1 else job.watch.look()
    (announced,) = job.paths.announced()
    cut(Path(announced, "w"), 3)
    shutil.rmtree(job.work / "out")
    assert resumed(job) == ["--resume", in_outbox(job, 1), "--at=1"]
    assert "later is not whole (step 2: it had 7 bytes when it was announced and has 3 now)" in told(job)
    assert "could not be finished" not in told(job)  # that is for who tries again and again


def test_a_file_that_grew_and_kept_its_time_was_not_cut(tmp_path: Path) -> None:
    job = begun(tmp_path, "*.ckpt")
    job.write("7.ckpt", "whole")
    job.look()
    path = job.work / "7.ckpt"
    status = path.stat()
    path.write_text("whole and more")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    job.look()
    assert "overwrote 7.ckpt in place" in told(job)


def test_of_several_that_are_not_whole_the_newest_are_told_first(tmp_path: Path) -> None:
    job = begun(tmp_path)
    for step in (1, 2, 3, 4):
        job.write(f"out/step-{step}/w", f"whole {step}")
        job.look()
    shutil.rmtree(job.work / "out")
    places = {step: Path(in_outbox(job, step), "w") for step in (2, 3, 4)}
    for step, place in places.items():
        cut(place, step)
    begin_again(job, taken=[])  # nobody noted them
    assert resumed(job) == ["--resume", in_outbox(job, 1), "--at=1"]
    assert "(step 4: its w is damaged: 4 bytes of 7; step 3: its w is damaged: 3 bytes of 7)" in told(job)


def test_one_that_only_the_outbox_has_is_hashed_first_and_keeps_its_place_while_the_job_reads_it(
    tmp_path: Path,
) -> None:
    job = begun(tmp_path)
    job.write("out/step-1/w")
    job.watch.look()
    shutil.rmtree(job.work / "out")
    assert len(job.paths.announced()) == 1
    assert resumed(job) == ["--resume", in_outbox(job, 1), "--at=1"]
    assert job.paths.announced() == []
    assert job.look() == [{"w": "w"}]


@pytest.mark.parametrize("is_hashed", [False, True])
def test_one_that_was_announced_and_that_nobody_noted_is_resumed_from(tmp_path: Path, is_hashed: bool) -> None:
    """Its supervisor was killed before it noted that; a power cut took the script's own."""
    job = begun(tmp_path)
    job.write("out/step-1/w", "1")
    job.look()
    before = Path(job.paths.checkpoint_watch).read_text()
    job.write("out/step-2/w", "2")
    job.watch.look()
    (announced,) = job.paths.announced()
    if is_hashed:  # and killed before the folder got its name
        digest = publish(job.paths, announced, 1, lambda: 1.0)
        Path(job.paths.checkpoint(digest)).rename(announced)
    Path(job.paths.checkpoint_watch).write_text(before)
    shutil.rmtree(job.work / "out")
    assert resumed(job) == ["--resume", in_outbox(job, 2), "--at=2"]


@pytest.mark.parametrize(("harm", "why"), [("cut", "its w is damaged: 3 bytes of 7"), ("unlink", "its w is missing")])
def test_a_finished_one_whose_files_are_not_as_large_as_its_manifest_says_does_not_count(
    tmp_path: Path, harm: str, why: str
) -> None:
    job = begun(tmp_path)
    for step in (1, 2):
        job.write(f"out/step-{step}/w", f"whole {step}")
        job.look()
    shutil.rmtree(job.work / "out")
    path = Path(in_outbox(job, 2), "w")
    cut(path, 3) if harm == "cut" else path.unlink()
    assert resumed(job) == ["--resume", in_outbox(job, 1), "--at=1"]
    assert f"step 1: what is later is not whole (step 2: {why})" in told(job)


@pytest.mark.parametrize("manifest", ["half of", '{"files": 7}', '{"files": [{"path": "w"}]}', '{"files": [7]}', "[]"])
def test_of_one_whose_manifest_cannot_be_read_nothing_is_known_against_it(tmp_path: Path, manifest: str) -> None:
    job = begun(tmp_path)
    job.write("out/step-1/w")
    job.look()
    place = in_outbox(job, 1)
    shutil.rmtree(job.work / "out")
    Path(place, "MANIFEST.json").write_text(manifest)
    assert resumed(job) == ["--resume", place, "--at=1"]


@pytest.mark.parametrize("full_for", [0, 1, 2, 3, 99])
def test_a_full_disk_makes_room_for_what_is_still_to_be_hashed_or_an_older_one_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_for: int
) -> None:
    job = begun(tmp_path)
    for step in (1, 2):
        job.write(f"out/step-{step}/w", f"whole {step}")
        job.look() if step == 1 else job.watch.look()
    shutil.rmtree(job.work / "out")

    tries: list[str] = []
    room = files.write_bytes

    def write(path: str, *rest: Any) -> None:
        tries.extend([path] if "MANIFEST" in path else [])
        if "MANIFEST" in path and len(tries) <= full_for:
            raise OSError(errno.ENOSPC, "No space left on device")
        room(path, *rest)

    monkeypatch.setattr("armada_agent.foundation.files.write_bytes", write)
    step = 2 if full_for < 3 else 1
    assert resumed(job) == ["--resume", in_outbox(job, step), f"--at={step}"]
    later = ": what is later is not whole (step 2: [Errno 28] No space left on device)" if step == 1 else ""
    assert told(job).endswith(f", step {step}{later}")


# What changes after it was taken -----------------------------------------------------------------------------------


def two(folder: Path, **record: object) -> Job:
    """A script that has saved twice, with its optimizer state; both are taken and hashed."""
    job = begun(folder)
    if record:
        begin_again(job, **record)
    for step in (1, 2):
        for name in ("w", "opt"):
            job.write(f"out/step-{step}/{name}", f"{name} of {step}" * (3 if name == "w" else 1))
        job.look()
    return job


@pytest.mark.parametrize("record", [{}, {"copies": True}])
@pytest.mark.parametrize("deleted", ["opt", "w"])
def test_a_checkpoint_that_loses_a_file_later_is_no_other_one_and_not_the_newest(
    tmp_path: Path, deleted: str, record: dict[str, object]
) -> None:
    """Scripts delete the optimizer state of their older checkpoints; one may die while it deletes one of them."""
    job = two(tmp_path, **record)
    (job.work / "out/step-1" / deleted).unlink()
    taken = job.look()
    assert [len(each) for each in taken] == [2, 2]
    assert job.look() == taken
    assert find_resumable(job.paths) == (str(job.work / "out/step-2"), 2)
    assert resumed(job) == ["--resume", str(job.work / "out/step-2"), "--at=2"]
    assert job.look() == taken
    assert told(job).endswith(", step 2")


def test_one_that_was_touched_and_then_loses_a_file_is_no_other_one_either(tmp_path: Path) -> None:
    job = two(tmp_path)
    taken = job.look()
    os.utime(job.work / "out/step-1/w", (5.0, 5.0))
    assert job.look() == taken
    (job.work / "out/step-1/opt").unlink()
    assert job.look() == taken


def test_of_the_newest_that_loses_a_file_the_copy_in_the_outbox_is_used(tmp_path: Path) -> None:
    job = two(tmp_path)
    (job.work / "out/step-2/opt").unlink()
    assert resumed(job) == ["--resume", in_outbox(job, 2), "--at=2"]


def test_an_older_checkpoint_that_gets_a_file_is_taken_again_and_is_not_the_newest(tmp_path: Path) -> None:
    job = two(tmp_path)
    job.write("out/step-1/eval.json", "{}")
    assert [len(each) for each in job.look()] == [2, 3, 2]
    assert resumed(job) == ["--resume", str(job.work / "out/step-2"), "--at=2"]
    job.write("out/step-2/eval.json", "{}")
    assert [len(each) for each in job.look()] == [2, 3, 2, 3]
    assert resumed(job) == ["--resume", str(job.work / "out/step-2"), "--at=2"]


@pytest.mark.parametrize(
    ("pattern", "names"), [("out/*", "out/step-1 out/step-2 out/best-1"), ("*.pt", "1.pt 2.pt best-1.pt")]
)
def test_an_older_checkpoint_that_gets_another_name_is_not_the_newest(tmp_path: Path, pattern: str, names: str) -> None:
    job = begun(tmp_path, pattern)
    older, newer, best = names.split()
    for name in (older, newer):
        job.write(name if name.endswith(".pt") else f"{name}/w", name)
        job.look()
    (job.work / older).rename(job.work / best)
    job.look()
    assert resumed(job) == ["--resume", str(job.work / newer), "--at=2"]


@pytest.mark.parametrize("beside", ["config", None])
def test_a_checkpoint_whose_largest_file_is_another_one_is_the_newest(tmp_path: Path, beside: str | None) -> None:
    """Some scripts write `last/` anew each time, and leave what does not change."""
    job = begun(tmp_path, "out/*")
    for name, text in (("last", "1"), ("best", "2"), ("last", "3")):
        (job.work / "out" / name / "w").unlink(missing_ok=True)
        job.write(f"out/{name}/w", text * 100)
        if beside and not (job.work / "out" / name / beside).exists():
            job.write(f"out/{name}/{beside}", "{}")
        job.look()
    (word, path, _) = resumed(job)
    assert (word, path) == ("--resume", str(job.work / "out/last"))


def test_a_checkpoint_with_a_link_to_what_never_changes_is_judged_by_its_own_files(tmp_path: Path) -> None:
    job = begun(tmp_path, "out/*")
    job.write("base", "base" * 100)
    for name, text in (("last", "1"), ("best", "2"), ("last", "3")):
        if name == "last":
            job.link(f"out/{name}/base", "../../base")
        (job.work / "out" / name / "w").unlink(missing_ok=True)
        job.write(f"out/{name}/w", text)
        job.look()
    assert resumed(job)[1] == str(job.work / "out/last")


def test_a_record_of_the_first_release_does_not_say_what_was_taken(tmp_path: Path) -> None:
    job = two(tmp_path)
    place = Path(job.paths.checkpoint_watch)
    record = json.loads(place.read_text())
    for entry in record["taken"]:
        del entry["seen"]
    begin_again(job, **record)
    assert find_resumable(job.paths) == (str(job.work / "out/step-2"), 2)
    (job.work / "out/step-1/opt").unlink()
    assert [len(each) for each in job.look()] == [2, 2, 1]


@pytest.mark.parametrize("seen", [7, [], {"w": 1}, {"w": [1, 2]}, {"w": [1, 2, "x"]}])
def test_an_entry_that_says_nothing_valid_of_what_was_taken_is_none(tmp_path: Path, seen: object) -> None:
    job = two(tmp_path)
    record = json.loads(Path(job.paths.checkpoint_watch).read_text())
    record["taken"][0]["seen"] = seen
    begin_again(job, **record)
    assert [entry["step"] for entry in read_record(job.paths)["taken"]] == [2]
