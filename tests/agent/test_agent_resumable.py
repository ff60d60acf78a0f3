"""From which checkpoint a script goes on: the newest whole one, wherever it lies. Tests write what a job would write."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from armada_agent.outbox.checkpoint_watch import CheckpointWatch, last_whole
from armada_agent.outbox.resumable import find_resumable
from armada_agent.records.journal import Journal

from tests.agent.conversation import spec_of
from tests.agent.test_agent_checkpoint_links import Job


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


def test_one_that_is_not_hashed_yet_is_used_and_is_not_whole_yet(job: Job) -> None:
    job.write("out/step-1/w")
    job.watch.look()
    (announced,) = job.paths.announced()
    shutil.rmtree(job.work / "out")
    assert find_resumable(job.paths) == (str(announced), 1)
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
