"""Logs and the files that an experiment names come home."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from armada.sync.outputs.listing import INDEX
from armada.sync.transfer.block_writer import BLOCK_BYTES
from armada.sync.transfer.stream_transfer import Fetcher
from tests.sync.conftest import Place, random_bytes


def test_logs_and_chosen_files_come_home_and_only_what_changed_comes_again(place: Place) -> None:
    place.create(outputs=["results/**", "*.csv"])
    remote = place.remote
    (remote / "output.log").write_text("line 1\n")
    for name in ("results/deep/a.txt", "table.csv", "not-this.bin"):
        (remote / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (remote / "work" / name).write_text(name)
    (remote / "wandb").mkdir()
    (remote / "wandb" / "run.wandb").write_bytes(b"w")
    (remote / "secrets.env").write_text("{}")
    fetched = set(place.sync().outputs.fetched)
    assert fetched == {"output.log", "work/results/deep/a.txt", "work/table.csv", "wandb/run.wandb", "spec.json"}
    assert (place.outputs / "work" / "results" / "deep" / "a.txt").read_text() == "results/deep/a.txt"
    with (remote / "output.log").open("a") as stream:
        stream.write("line 2\n")
    assert place.sync().outputs.fetched == ("output.log",)
    assert (place.outputs / "output.log").read_text() == "line 1\nline 2\n"
    assert place.sync().outputs.fetched == ()


def test_tensorboards_and_wandbs_files_come_home_without_being_named(place: Place) -> None:
    place.create()
    names = (
        "logs/events.out.tfevents.1.vm",
        "deep/wandb/offline-run-1-a/run-a.wandb",
        "wandb/run-2-b/files/config.yaml",
    )
    others = ("wandb/settings", "events.txt", "runs/wandb.txt")
    for name in (*names, *others):
        (place.remote / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (place.remote / "work" / name).write_text(name)
    old = place.remote / "work" / names[0]
    os.utime(old, (1, 1))  # as `cp -p` leaves it: the run wrote it all the same
    fetched = set(place.sync().outputs.fetched)
    assert {name for name in fetched if name.startswith("work/")} == {f"work/{name}" for name in names}


def test_a_long_log_that_grew_and_one_that_was_begun_anew_come_right(place: Place) -> None:
    place.create()
    log = place.remote / "output.log"
    log.write_bytes(random_bytes(BLOCK_BYTES + 5))
    place.sync()
    with log.open("ab") as stream:
        stream.write(random_bytes(BLOCK_BYTES))
    place.sync()
    assert (place.outputs / "output.log").read_bytes() == log.read_bytes()
    log.write_bytes(random_bytes(3 * BLOCK_BYTES))  # other bytes from the beginning on
    place.sync()
    assert (place.outputs / "output.log").read_bytes() == log.read_bytes()


def test_output_names_that_could_mean_something_else_are_left_there_and_said(place: Place) -> None:
    place.create(outputs=["**"])
    names = [b"plain", b"two\nlines", b"\xff\xfe", b"esc\x1b[2J"]
    for name in names:
        (place.remote / "work").joinpath(os.fsdecode(name)).write_bytes(b"x")
    outputs = place.sync().outputs
    assert "work/plain" in outputs.fetched
    assert len(outputs.skipped) == 3
    assert [p.name for p in (place.outputs / "work").iterdir()] == ["plain"]


def kept(place: Place) -> dict[str, str]:
    """What was not replaced, by its name."""
    folder = place.home.run(place.run_id) / "replaced"
    return {str(at.relative_to(folder)).partition("/")[2]: at.read_text() for at in folder.rglob("*") if at.is_file()}


def test_what_a_disk_that_was_put_back_has_no_more_stays_at_home(place: Place) -> None:
    place.create(outputs=["results/**"])
    log, table = place.remote / "output.log", place.remote / "work" / "results" / "table.csv"
    table.parent.mkdir()
    snapshot = place.remote.parent.parent / "snapshot"
    log.write_text("1\n")
    table.write_text("first")
    shutil.copytree(place.remote, snapshot)
    log.write_text("1\n2\n")
    table.write_text("later")
    os.utime(table, (2e9, 2e9))
    place.sync()
    shutil.rmtree(place.remote)
    snapshot.rename(place.remote)
    assert set(place.sync().outputs.kept) == {"output.log", "work/results/table.csv"}
    assert kept(place) == {"output.log": "1\n2\n", "work/results/table.csv": "later"}
    assert (place.outputs / "output.log").read_text() == "1\n"
    assert (place.outputs / "work" / "results" / "table.csv").read_text() == "first"
    with log.open("a") as stream:
        stream.write("another\n")
    assert place.sync().outputs.kept == ()


def replaced(place: Place) -> list[str]:
    """The texts of all that was not replaced, over all syncs."""
    folder = place.home.run(place.run_id) / "replaced"
    return sorted(at.read_text() for at in folder.rglob("*") if at.is_file())


def put(path: Path, text: str, moment: float) -> None:
    """Write a file of the host at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (moment, moment))


def test_a_log_that_was_begun_anew_stays_at_home_and_what_a_run_writes_anew_does_not(place: Place) -> None:
    place.create(outputs=["**"])
    log, result = place.remote / "output.log", place.remote / "work" / "best.json"
    for number in range(3):
        put(result, f"result {number}", 1e9 + number)
        place.sync()
        log.write_text(f"log {number}\n")
        place.sync()
    assert replaced(place) == ["log 0\n", "log 1\n"]
    assert len(list((place.home.run(place.run_id) / "replaced").iterdir())) == 2, "one folder for each sync"
    assert (place.outputs / "work" / "best.json").read_text() == "result 2"


def test_a_disk_that_was_put_back_and_is_in_use_again_replaces_no_result(place: Place) -> None:
    place.create(outputs=["**"])
    log, table = place.remote / "output.log", place.remote / "work" / "metrics.csv"
    put(log, "1\n2\n", 1e9)
    put(table, "first\nsecond\n", 1e9)
    place.sync()
    put(log, "1\nanother\n", 1e9 + 5)
    put(table, "first\nother\n", 1e9 + 5)
    place.sync()
    assert replaced(place) == ["1\n2\n", "first\nsecond\n"]


@pytest.mark.parametrize("left", ["", "first\nsec"])
def test_what_is_left_of_a_torn_file_does_not_replace_it_whatever_its_time_is(place: Place, left: str) -> None:
    place.create(outputs=["**"])
    table = place.remote / "work" / "metrics.csv"
    put(table, "first\nsecond\n", 1e9)
    place.sync()
    put(table, left, 1e9 + 5)
    place.sync()
    assert kept(place) == {"work/metrics.csv": "first\nsecond\n"}
    assert (place.outputs / "work" / "metrics.csv").read_text() == left


def rewrite(path: Path, text: str) -> None:
    """Write a file anew and give it the times it had, as `cp -p` and `tar` do."""
    found = path.stat()
    assert len(text) == found.st_size
    path.write_text(text)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def test_a_result_written_anew_with_its_size_and_time_comes_home(place: Place) -> None:
    place.create(outputs=["**"])
    put(place.remote / "work" / "a.txt", "first", 1e9)
    place.sync()
    rewrite(place.remote / "work" / "a.txt", "other")
    assert place.sync().outputs.fetched == ("work/a.txt",)
    assert (place.outputs / "work" / "a.txt").read_text() == "other"
    assert place.sync().outputs.fetched == ()


def test_what_an_earlier_release_fetched_is_not_fetched_again(place: Place) -> None:
    place.create(outputs=["**"])
    put(place.remote / "work" / "a.txt", "first", 1e9)
    place.sync()
    index = place.outputs / ".index.json"
    index.write_text(json.dumps({path: entry[:6] for path, entry in json.loads(index.read_text()).items()}))
    assert place.sync().outputs.fetched == ()


def test_an_output_that_vanished_here_while_it_was_noted_comes_again(place: Place) -> None:
    place.create(outputs=["**"])
    put(place.remote / "work" / "a.txt", "first", 1e9)
    place.sync()
    index = place.outputs / ".index.json"
    known = json.loads(index.read_text())
    known["work/a.txt"] = [*known["work/a.txt"][:2], *known["work/a.txt"][6:]]
    index.write_text(json.dumps(known))
    (place.outputs / "work" / "a.txt").unlink()
    assert place.sync().outputs.fetched == ("work/a.txt",)


def test_a_persons_edit_is_kept_although_its_size_and_time_are_as_they_were(place: Place) -> None:
    place.create(outputs=["**"])
    put(place.remote / "work" / "a.txt", "theirs", 1e9)
    place.sync()
    here = place.outputs / "work" / "a.txt"
    found = here.stat()
    here.write_text("my own")
    os.utime(here, ns=(found.st_atime_ns, found.st_mtime_ns))
    put(place.remote / "work" / "a.txt", "their next", 1e9 + 5)
    place.sync()
    assert kept(place) == {"work/a.txt": "my own"}


@pytest.mark.parametrize(
    "index",
    [
        '{"work/a.txt": 5}',
        '{"work/a.txt": ["x"]}',
        '{"work/a.txt": [5]}',
        '{"work/a.txt": [5, "x", 1, 2]}',
        "[" * 200_000,
        "[]",
    ],
)
def test_an_index_that_something_else_wrote_is_as_none(place: Place, index: str) -> None:
    place.create(outputs=["**"])
    put(place.remote / "work" / "a.txt", "first", 1e9)
    place.sync()
    (place.outputs / ".index.json").write_text(index)
    put(place.remote / "work" / "a.txt", "second", 1e9 + 5)
    assert place.sync().outputs.kept == ("work/a.txt",)
    assert (place.outputs / "work" / "a.txt").read_text() == "second"


@pytest.mark.parametrize("begun", ["big", "big/0"])
def test_what_a_killed_sync_had_received_does_not_block_what_has_its_name_now(place: Place, begun: str) -> None:
    place.create(outputs=["**"])
    staged = place.outputs / ".staging" / "work" / begun
    staged.parent.mkdir(parents=True)
    staged.write_text("a part")
    put(place.remote / "work" / ("big/0" if begun == "big" else "big"), "now", 1e9)
    outcome = place.sync()
    assert not outcome.troubles
    assert (place.outputs / "work" / ("big/0" if begun == "big" else "big")).read_text() == "now"


def test_outputs_on_another_disk_are_kept_as_well(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create(outputs=["**"])
    put(place.remote / "work" / "a.txt", "later", 1e9)
    place.sync()
    real = os.rename

    def across(source: str, target: str, **more: Any) -> None:
        if "replaced" in os.fsdecode(target):
            raise OSError(errno.EXDEV, "Invalid cross-device link", source)
        real(source, target, **more)

    monkeypatch.setattr(os, "rename", across)
    put(place.remote / "work" / "a.txt", "older", 1e8)
    assert not place.sync().troubles
    assert kept(place) == {"work/a.txt": "later"}


def test_a_persons_link_in_the_place_of_a_folder_is_kept(place: Place, tmp_path: Path) -> None:
    place.create(outputs=["**"])
    put(place.remote / "work" / "results" / "a.txt", "first", 1e9)
    place.sync()
    (place.outputs / "work" / "results").rename(tmp_path / "mine")
    (place.outputs / "work" / "results").symlink_to(tmp_path / "mine")
    put(place.remote / "work" / "results" / "a.txt", "second", 1e9 + 5)
    assert place.sync().outputs.kept == ("work/results",)
    (link,) = (place.home.run(place.run_id) / "replaced").glob("*/work/results")
    assert link.is_symlink()
    assert (link / "a.txt").read_text() == "first"
    assert (place.outputs / "work" / "results" / "a.txt").read_text() == "second"


def test_what_a_person_wrote_into_an_output_at_home_is_kept_when_it_comes_again(place: Place) -> None:
    place.create(outputs=["**"])
    (place.remote / "work" / "table.csv").write_text("theirs")
    place.sync()
    (place.outputs / "work" / "table.csv").write_text("theirs, and my notes")
    assert place.sync().outputs.kept == ("work/table.csv",)
    assert kept(place) == {"work/table.csv": "theirs, and my notes"}
    assert (place.outputs / "work" / "table.csv").read_text() == "theirs"


def test_a_folder_that_became_a_file_and_a_file_that_became_a_folder_stay_at_home(place: Place) -> None:
    place.create(outputs=["**"])
    work = place.remote / "work"
    (work / "a").mkdir()
    (work / "a" / "one.txt").write_text("1")
    (work / "b").write_text("2")
    place.sync()
    shutil.rmtree(work / "a")
    (work / "a").write_text("a file now")
    (work / "b").unlink()
    (work / "b").mkdir()
    (work / "b" / "two.txt").write_text("a folder now")
    assert set(place.sync().outputs.kept) == {"work/a", "work/b"}
    assert kept(place) == {"work/a/one.txt": "1", "work/b": "2"}
    assert (place.outputs / "work" / "a").read_text() == "a file now"
    assert (place.outputs / "work" / "b" / "two.txt").read_text() == "a folder now"


def test_a_copy_of_home_keeps_nothing_twice(place: Place) -> None:
    place.create(outputs=["**"])
    result = place.remote / "work" / "best.json"
    result.write_text("first")
    place.sync()
    here = place.outputs / "work" / "best.json"
    shutil.copy2(here, here.with_name("copy"))
    here.with_name("copy").replace(here)  # another inode, as in a copy of home
    result.write_text("second")
    os.utime(result, (2e9, 2e9))
    assert place.sync().outputs.kept == ()
    assert here.read_text() == "second"


def test_what_is_in_the_place_of_the_folder_for_what_is_kept_is_named(place: Place) -> None:
    place.create(outputs=["**"])
    put(place.remote / "work" / "a.txt", "later", 1e9)
    place.sync()
    (place.home.run(place.run_id) / "replaced").write_text("a file")
    put(place.remote / "work" / "a.txt", "older", 1e8)
    (trouble,) = place.sync().troubles
    assert "replaced is no folder" in trouble.error.message
    assert trouble.error.hint == "move it away, then armada sync now"
    assert (place.outputs / "work" / "a.txt").read_text() == "later"
    (place.home.run(place.run_id) / "replaced").unlink()
    assert place.sync().outputs.kept == ("work/a.txt",)


@pytest.mark.parametrize("edited", ["edited by a person", "edited"])
def test_what_a_person_changes_while_others_are_fetched_is_not_recorded_as_it_came(
    place: Place, monkeypatch: pytest.MonkeyPatch, edited: str
) -> None:
    place.create(outputs=["*.txt"])
    work = place.remote / "work"
    work.mkdir(exist_ok=True)
    (work / "a.txt").write_text("origin")
    place.sync()
    (place.outputs / INDEX).unlink()  # it is written without fsync: a power cut may take it
    (work / "b.txt").write_text("more")
    fetch = Fetcher.fetch

    def meanwhile(self: Fetcher, *words: Any, **more: Any) -> None:
        (place.outputs / "work" / "a.txt").write_text(edited)
        fetch(self, *words, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Fetcher, "fetch", meanwhile)
        outcome = place.sync()
    assert outcome.outputs.unsettled == ("work/a.txt",)
    assert "work/b.txt" in outcome.outputs.fetched
    again = place.sync()
    assert again.outputs.fetched == ("work/a.txt",)
    (kept,) = (place.home.run(place.run_id) / "replaced").rglob("a.txt")
    assert ((place.outputs / "work" / "a.txt").read_text(), kept.read_text()) == ("origin", edited)
