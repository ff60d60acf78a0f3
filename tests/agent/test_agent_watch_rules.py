"""The rules by which files of a script become a checkpoint, one at a time. Tests write what a job would write."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from armada_agent.outbox import checkpoint_watch
from armada_agent.outbox.checkpoint_watch import CheckpointWatch
from armada_agent.outbox.watch_record import find_outside
from armada_agent.records.journal import Journal

from tests.agent.test_agent_checkpoint_links import Job, find_resumable

QUIET_S = 5.0


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path, "out/*", QUIET_S)


def findings(job: Job) -> list[str]:
    """What its journal says was left out, and why."""
    try:
        lines = Path(job.paths.events).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [event["message"] for event in map(json.loads, lines) if event.get("kind", event.get("event")) == "finding"]


def replace(job: Job, name: str, text: str) -> None:
    """Write a file anew beside the former one, as most trainers do."""
    (job.work / name).unlink()
    job.write(name, text)


def begin_again(job: Job) -> None:
    """The next attempt, whose supervisor reads what the former had written down."""
    job.watch = CheckpointWatch(job.paths, job.settings, Journal(job.paths, 2), lambda: job.now)
    job.watch.begin()


def test_it_is_taken_once_after_it_was_quiet_for_long_enough(job: Job) -> None:
    job.write("out/step-1/w")
    assert [job.look(1), job.look(4)] == [[], []]
    assert job.look(1) == [{"w": "w"}]
    assert job.look(100) == [{"w": "w"}]
    assert findings(job) == []


MARK = "out/step-2/checkpoint-is-incomplete.txt"


@pytest.mark.parametrize("trusted", [True, False])
def test_one_that_says_that_it_is_incomplete_is_never_taken(job: Job, trusted: bool) -> None:
    job.write("out/step-1/w")
    job.write(MARK)
    job.write("out/step-2/w", "half")
    assert [job.look(1), job.look(5), job.look(100)] == [[], [{"w": "w"}], [{"w": "w"}]]
    assert find_resumable(job.paths) == (str(job.work / "out/step-1"), 1)
    job.watch.note_end()
    job.watch.finish(trusted)
    assert findings(job) == ["out/step-2 is not whole, as its checkpoint-is-incomplete.txt says: it is not taken"]
    begin_again(job)
    assert find_resumable(job.paths) == (str(job.work / "out/step-1"), 1)
    assert job.look(100) == [{"w": "w"}]


def test_it_is_taken_once_the_mark_is_gone_and_withdrawn_when_it_is_written_again(job: Job) -> None:
    job.write(MARK)
    job.write("out/step-2/w")
    assert [job.look(1), job.look(100)] == [[], []]
    (job.work / MARK).unlink()
    assert [job.look(1), job.look(5)] == [[], [{"w": "w"}]]
    job.write(MARK)
    job.write("out/step-2/w", "written over, in place")
    assert [job.look(1), job.look(100)] == [[], []], "the link in the outbox had the same bytes"
    (job.work / MARK).unlink()
    assert [job.look(1), job.look(5)] == [[], [{"w": "written over, in place"}]]


def test_each_change_makes_it_wait_anew_however_long_that_goes_on(job: Job) -> None:
    for number in range(1, 30):
        job.write("out/step-1/w", "w" * number)
        assert job.look(4) == []
    assert job.look(4) == []
    assert len(job.look(1)) == 1


def test_one_whose_links_lead_to_what_never_rests_waits_ten_times_as_long(job: Job) -> None:
    job.write("log")
    job.write("out/step-1/w")
    job.link("out/step-1/log", "../../log")
    assert job.look(1) == []
    for number in range(2, 11):
        job.write("log", "w" * number)
        assert job.look(QUIET_S) == []
    job.write("log", "w" * 20)
    assert job.look(QUIET_S) == [{"w": "w"}]


def test_a_link_that_is_turned_to_another_name_of_its_file_makes_it_wait_anew(job: Job) -> None:
    job.write("one")
    (job.work / "two").hardlink_to(job.work / "one")
    job.write("out/step-1/v")
    job.link("out/step-1/w", "../../one")
    job.look(1)
    job.link("out/step-1/w", "../../two")
    assert [job.look(4), job.look(4)] == [[], []]
    assert len(job.look(1)) == 1


def test_what_is_written_under_the_same_name_later_is_another_one(job: Job) -> None:
    job.write("out/step-1/w", "1")
    job.look(1)
    job.look(5)
    replace(job, "out/step-1/w", "2")
    job.look(1)
    assert job.look(5) == [{"w": "1"}, {"w": "2"}]


def test_one_that_gets_another_name_is_another_one(job: Job) -> None:
    job.write("out/step-1/w")
    job.look(1)
    job.look(5)
    (job.work / "out/step-1").rename(job.work / "out/step-2")
    job.look(1)
    assert job.look(5) == [{"w": "w"}, {"w": "w"}]
    assert job.watch.last_step == 2


def test_an_empty_folder_is_no_checkpoint(job: Job) -> None:
    (job.work / "out/step-1").mkdir(parents=True)
    assert [job.look(1), job.look(5)] == [[], []]


def test_one_without_a_number_follows_the_last_step(job: Job) -> None:
    for name, step in (("first", 1), ("step-500", 500), ("last", 501)):
        job.write(f"out/{name}/w", name)
        job.look(1)
        job.look(5)
        assert job.watch.last_step == step


def test_each_is_known_by_its_own_digest(job: Job) -> None:
    for step in (1, 2):
        job.write(f"out/step-{step}/w", str(step))
    job.look(1)
    assert job.look(5) == [{"w": "1"}, {"w": "2"}]
    shutil.rmtree(job.work / "out")
    newest = find_resumable(job.paths)
    assert newest is not None
    assert (Path(newest[0], "w").read_text(), newest[1]) == ("2", 2)
    shutil.rmtree(newest[0])
    before = find_resumable(job.paths)
    assert before is not None
    assert (Path(before[0], "w").read_text(), before[1]) == ("1", 1)


def test_a_jobs_own_file_of_armadas_name_is_not_counted_and_is_named(job: Job) -> None:
    job.write("out/step-1/w", "123")
    job.write("out/step-1/MANIFEST.json", "its own")
    for after_s in (1, 5):
        job.now += after_s
        job.watch.look()
    (folder,) = job.paths.announced()
    assert json.loads(Path(folder, ".announce.json").read_text())["size_bytes"] == 3
    (said,) = findings(job)
    assert said.startswith("out/step-1 comes home without MANIFEST.json")


@pytest.mark.parametrize(("is_trusted", "taken"), [(True, 1), (False, 0)])
def test_what_was_written_last_counts_only_where_the_job_ended_well(job: Job, is_trusted: bool, taken: int) -> None:
    job.write("out/step-1/w")
    job.look(1)
    job.watch.note_end()
    for _ in range(2):
        job.watch.finish(is_trusted)
        assert len(job.paths.announced()) == taken
    assert len(findings(job)) == 1 - taken
    begin_again(job)
    assert (len(job.look(1)), len(job.look(100))) == (taken, taken)


def test_what_was_quiet_when_the_job_died_is_taken(job: Job) -> None:
    job.write("out/step-1/w")
    os.utime(job.work / "out/step-1/w", (1000.0, 1000.0))
    (job.work / "second name").hardlink_to(job.work / "out/step-1/w")  # then only its date counts
    job.watch.note_end(1000.0 + QUIET_S)
    job.watch.finish(is_trusted=False)
    assert (len(job.paths.announced()), findings(job)) == (1, [])


@pytest.mark.parametrize(("is_trusted", "names"), [(True, {"w", "common"}), (False, {"w"})])
def test_what_a_link_leads_to_counts_only_as_it_was_when_the_job_ended_well(
    job: Job, is_trusted: bool, names: set[str]
) -> None:
    job.write("out/step-1/w")
    os.utime(job.work / "out/step-1/w", (1000.0, 1000.0))
    (job.work / "second name").hardlink_to(job.work / "out/step-1/w")  # then only its date counts
    job.write("common")
    job.link("out/step-1/common", "../../common")
    job.watch.note_end()
    job.watch.finish(is_trusted)
    (folder,) = job.paths.announced()
    assert {path.name for path in Path(folder).iterdir()} == {*names, ".announce.json"}


def test_the_next_attempt_keeps_nothing_aside_that_was_taken_or_came_with_the_code(job: Job) -> None:
    job.write("out/step-1/w", "of the code")
    job.watch.begin()
    job.write("out/step-2/w", "of the job")
    job.look(1)
    assert job.look(5) == [{"w": "of the job"}]
    begin_again(job)
    assert (Path(job.paths.left).exists(), findings(job)) == (False, [])
    assert [job.look(1), job.look(100)] == [[{"w": "of the job"}]] * 2


def test_what_came_with_the_code_is_not_what_a_dead_job_left(job: Job) -> None:
    job.write("out/step-1/w", "of the code")
    job.watch.begin()
    job.write("out/step-2/w", "of the job")
    record = Path(job.paths.checkpoint_watch)
    record.write_text(json.dumps({**json.loads(record.read_text()), "left": {}}))
    job.watch = CheckpointWatch(job.paths, job.settings, Journal(job.paths, 1), lambda: job.now)
    assert job.watch.left_behind(1e12) == ["out/step-2"]
    assert job.watch.left_behind(1000.0) == []


def test_what_may_be_half_is_kept_aside_until_a_later_one_is_whole(job: Job) -> None:
    job.watch.begin()
    Path(job.paths.output).touch()
    for step in (1, 2, 3):
        job.write(f"out/step-{step}/w", str(step))
    job.write("out/best/w", "best")
    begin_again(job)
    aside = Path(job.paths.left, "before-attempt-1", "out")
    assert sorted(path.name for path in aside.iterdir()) == ["best", "step-1", "step-2", "step-3"]
    assert [job.look(1), job.look(100)] == [[], []]
    begin_again(job)
    assert len(list(aside.iterdir())) == 4  # nothing later is whole yet
    replace(job, "out/step-2/w", "2 again")
    job.look(1)
    assert job.look(5) == [{"w": "2 again"}]
    begin_again(job)
    assert sorted(path.name for path in aside.iterdir()) == ["best", "step-2", "step-3"]


def test_what_leads_out_of_the_run_is_said_once_and_counted_while_it_is_there(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_outside(job.paths) == []
    job.write("out/step-1/w")
    for number in (1, 2):
        (tmp_path / f"scratch-{number}").mkdir()
        job.link(f"out/step-1/link-{number}", str(tmp_path / f"scratch-{number}"))
    monkeypatch.setattr(checkpoint_watch, "_MOST_OUTSIDE", 1)
    for _ in range(3):
        job.look(1)
    assert [said.count("out/step-1/link-") for said in findings(job)] == [2]
    (counted,) = find_outside(job.paths)
    (job.work / counted).unlink()
    assert find_outside(job.paths) == []


@pytest.mark.parametrize("change", ["a file comes to it", "what a link of it leads to is written anew"])
def test_one_that_changes_while_it_is_linked_waits(job: Job, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    job.write("common", "old")
    job.write("out/step-1/w")
    job.link("out/step-1/common", "../../common")
    job.look(1)
    linked: list[str] = []
    real = os.link

    def link(source: str, target: str, **options: Any) -> None:
        real(source, target, **options)
        linked.append(target)
        if len(linked) == 2:
            job.write("out/step-1/more") if change == "a file comes to it" else replace(job, "common", "new")

    monkeypatch.setattr(os, "link", link)
    assert job.look(5) == []
    assert len(linked) == 2
    job.look(1)
    (taken,) = job.look(5)
    assert taken == {"w": "w", **({"common": "old", "more": "w"} if "comes" in change else {"common": "new"})}


def test_a_link_that_is_turned_away_while_it_is_kept_aside_brings_nothing(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("secret")
    job.watch.begin()
    Path(job.paths.output).touch()
    job.write("w")
    job.link("out/step-1/w", "../../w")
    real = os.makedirs

    def makedirs(path: str, *rest: Any, **options: Any) -> None:
        real(path, *rest, **options)
        if path.startswith(job.paths.left):
            job.link("out/step-1/w", str(tmp_path / "secret"))

    monkeypatch.setattr(os, "makedirs", makedirs)
    begin_again(job)
    assert [path for path in Path(job.paths.left).rglob("*") if path.is_file()] == []
    (said,) = findings(job)
    assert said.startswith("out/step-1 may be incomplete, and cannot be copied")


def touch(job: Job, name: str, moment: float) -> None:
    os.utime(job.work / name, (moment, moment))


def test_a_checkpoint_that_was_only_touched_stays_and_is_linked_as_before(job: Job) -> None:
    job.write("out/step-1/w", "one")
    job.write("out/step-1/v", "two")
    job.look()
    (taken,) = job.look(QUIET_S)
    for moment in (5.0, 6.0):
        touch(job, "out/step-1/w", moment)
        assert job.look() == [taken]
        assert job.look(QUIET_S) == [taken]  # and it is not taken once more
    (digest,) = job.paths.checkpoints()
    assert (job.work / "out/step-1/w").samefile(job.paths.checkpoint(digest, "w"))
    assert findings(job) == []
    job.write("out/step-1/w", "eno")
    assert job.look() == []  # other bytes of the same length
    assert "overwrote out/step-1 in place" in findings(job)[0]


def test_a_checkpoint_that_was_touched_and_got_a_new_file_stays_and_is_taken_again(job: Job) -> None:
    job.write("out/step-1/w", "one")
    job.write("out/step-1/v", "two")
    job.look()
    job.look(QUIET_S)
    touch(job, "out/step-1/w", 5.0)
    replace(job, "out/step-1/v", "three")
    assert job.look() == [{"w": "one", "v": "two"}]
    assert {each["v"] for each in job.look(QUIET_S)} == {"two", "three"}


@pytest.mark.parametrize("broken", ["not hashed", "manifest", "file"])
def test_a_touched_checkpoint_of_which_nobody_knows_the_bytes_is_withdrawn(job: Job, broken: str) -> None:
    job.write("out/step-1/w", "one")
    if broken == "not hashed":
        job.watch.look()
        job.now += QUIET_S
        job.watch.look()
        (folder,) = job.paths.announced()
    else:
        job.look()
        job.look(QUIET_S)
        (digest,) = job.paths.checkpoints()
        folder = job.paths.checkpoint(digest)
        Path(folder, "MANIFEST.json" if broken == "manifest" else "w").unlink()
    touch(job, "out/step-1/w", 5.0)
    job.watch.look()
    assert not Path(folder).exists()
    assert "overwrote out/step-1 in place" in findings(job)[0]
