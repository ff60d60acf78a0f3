"""Whether a host can be destroyed, asked of a real agent: files that a script left beside its checkpoints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from armada.cli.release import _wipe
from armada.errors import ArmadaError, Conflict, LinkLost, OutcomeUnknown
from armada.protocol.records import Checkpoint
from armada.protocol.sync import HashFiles
from armada.store import checkpoints, hosts, run_sync, runs
from armada.sync.release.judge import judge_host, losses
from armada.sync.release.second_look import see_ground
from armada.verdicts.presence import AWAY_WORDS
from tests.sync.conftest import Place

WEIGHTS = b"weights" * 1000


@pytest.fixture
def script(place: Place) -> Place:
    """A run that left its checkpoint where it wrote it, a copy of it as the best one, and notes; the checkpoint is home."""
    place.create(keep_home={"last": 5})
    place.save(3, {"model.bin": WEIGHTS})
    work = place.remote / "work" / "out" / "checkpoint-3"
    work.mkdir(parents=True)
    (work / "model.bin").write_bytes(WEIGHTS)
    (place.remote / "work" / "best.bin").write_bytes(WEIGHTS)
    place.sync()
    place.end()
    place.sync()
    return place


def lost(place: Place) -> list[str]:
    return [item.what for item in losses(judge_host(place.context))]


def test_files_whose_very_bytes_are_home_as_a_checkpoint_do_not_keep_a_host(script: Place) -> None:
    assert lost(script) == []


def test_files_that_only_look_like_those_at_home_keep_a_host(script: Place) -> None:
    (script.remote / "work" / "other.bin").write_bytes(b"WEIGHTS" * 1000)
    (script.remote / "work" / "notes.txt").write_bytes(b"notes")
    (said,) = lost(script)
    assert said == "2 files it wrote (7.0 kB), that no sync.outputs names: work/notes.txt, work/other.bin"


def test_an_empty_file_is_named_and_not_those_that_are_home(script: Place) -> None:
    (script.remote / "work" / "waits").touch()
    assert lost(script) == ["1 file it wrote (0 B), that no sync.outputs names: work/waits"]


def test_a_copy_at_home_that_is_damaged_counts_for_nothing(script: Place) -> None:
    (path,) = script.published.glob("checkpoint-3/model.bin")
    path.chmod(0o644)
    path.write_bytes(b"x" * len(WEIGHTS))
    damaged, unnamed = lost(script)
    assert damaged.startswith("checkpoint-3 is damaged at home")
    assert unnamed.startswith("2 files it wrote (14.0 kB)")


def test_what_a_script_puts_beside_its_work_folder_keeps_the_host_until_a_person_says_it_does_not_count(
    script: Place,
) -> None:
    assert lost(script) == []
    (script.remote / "model.pt").write_bytes(WEIGHTS)
    (said,) = lost(script)
    assert said == "1 file it wrote (7.0 kB), that no sync.outputs names: model.pt"


RESULTS = b"a,b\n" * 500


@pytest.fixture
def results(place: Place) -> Place:
    """A run whose results are home as an output, and that left a copy of them which nobody named."""
    place.create(outputs=["results/**"])
    (place.remote / "work" / "results").mkdir(parents=True)
    (place.remote / "work" / "results" / "table.csv").write_bytes(RESULTS)
    (place.remote / "work" / "copy.csv").write_bytes(RESULTS)
    place.end()
    place.sync()
    return place


def test_files_whose_very_bytes_are_home_as_an_output_do_not_keep_a_host(results: Place) -> None:
    assert lost(results) == []
    (results.remote / "work" / "other.csv").write_bytes(b"b,a\n" * 500)  # as long
    (said,) = lost(results)
    assert said == "1 file it wrote (2.0 kB), that no sync.outputs names: work/other.csv"


@pytest.mark.fault("an output at home changes, and a copy of it is on the host", "the copy counts as lost")
def test_an_output_at_home_that_was_touched_counts_for_nothing(results: Place) -> None:
    path = results.outputs / "work" / "results" / "table.csv"
    before = path.stat()
    path.chmod(0o644)
    path.write_bytes(b"x" * len(RESULTS))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    stale, unnamed = lost(results)
    assert stale.startswith("not home of its logs and outputs: 1 file")
    assert unnamed.startswith("1 file it wrote (2.0 kB), that no sync.outputs names: work/copy.csv")


def test_an_output_whose_time_of_change_alone_is_another_is_read_and_keeps_no_host(results: Place) -> None:
    there = results.remote / "work" / "results" / "table.csv"
    before = there.stat()
    os.link(there, there.with_name("same"))
    there.with_name("same").unlink()
    assert there.stat().st_ctime_ns != before.st_ctime_ns
    assert lost(results) == []


@pytest.mark.parametrize("keeps_its_times", [False, True])
def test_an_output_that_the_host_has_in_another_version_counts_for_nothing(
    results: Place, keeps_its_times: bool
) -> None:
    there = results.remote / "work" / "results" / "table.csv"
    before = there.stat()
    there.write_bytes(RESULTS.upper())  # the next sync replaces the one at home
    if keeps_its_times:
        os.utime(there, ns=(before.st_atime_ns, before.st_mtime_ns))
    stale, unnamed = lost(results)
    assert stale.startswith("not home of its logs and outputs: 1 file")
    assert unnamed.startswith("1 file it wrote (2.0 kB), that no sync.outputs names: work/copy.csv")


def test_an_output_that_is_gone_from_the_host_counts_for_nothing(results: Place) -> None:
    (results.remote / "work" / "results" / "table.csv").unlink()
    (unnamed,) = lost(results)
    assert unnamed.startswith("1 file it wrote (2.0 kB), that no sync.outputs names: work/copy.csv")


@pytest.mark.fault("a file on the host grows between its listing and its hash", "it counts as lost")
@pytest.mark.parametrize("more", [b"!", b"the only measurement" * 1000])
def test_a_file_that_grew_after_it_was_listed_keeps_a_host(
    script: Place, monkeypatch: pytest.MonkeyPatch, more: bytes
) -> None:
    best, call = script.remote / "work" / "best.bin", script.session.call

    def grow_first(request: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(request, HashFiles):
            best.write_bytes(WEIGHTS + more)
        return call(request, *arguments, **options)

    monkeypatch.setattr(script.session, "call", grow_first)
    (said,) = lost(script)
    assert "that no sync.outputs names: work/best.bin" in said


class TestFolderOfRuns:
    """The folder of runs, which may be a disk of its own."""

    @pytest.fixture
    def away(self, script: Place) -> Path:
        """That disk, which is no longer mounted: home misses a checkpoint that is on it."""
        script.save(4, {"model.bin": b"4"})
        folder = script.home.local_root / "runs"
        folder.rename(disk := script.home.local_root / "disk")
        folder.mkdir()
        return disk

    def test_without_its_disk_it_ends_no_sync_and_releases_no_host(self, script: Place, away: Path) -> None:
        run_sync.reopen(script.database, script.run_id)
        with pytest.raises(ArmadaError, match="a file system may not be mounted"):
            script.sync()
        (said,) = lost(script)
        assert said == AWAY_WORDS
        (script.home.local_root / "runs").rmdir()
        away.rename(script.home.local_root / "runs")
        assert script.sync().missing is None
        assert sorted(each.name for each in script.published.glob("checkpoint-*")) == ["checkpoint-3", "checkpoint-4"]

    def test_a_host_whose_wipe_was_refused_is_still_watched(self, script: Place) -> None:
        claim = script.remote / "submissions" / "7" / "claim.json"
        claim.parent.mkdir(parents=True)
        claim.write_text("{}")
        with pytest.raises(Conflict, match="may still start"):
            _wipe(script.context, see_ground(script.session))
        record = hosts.find(script.database, "local")
        assert record is not None
        assert record.released_at is None

    @pytest.mark.fault("a wipe fails half-way", "the host counts as before: watched, paid, and not wiped")
    def test_a_wipe_that_failed_does_not_count_as_done(self, script: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        ground = see_ground(script.session)
        lost, failed = LinkLost("the connection broke"), ArmadaError("[Errno 13] Permission denied: 'work'")
        for error, told in ((lost, OutcomeUnknown), (failed, ArmadaError), (KeyboardInterrupt(), KeyboardInterrupt)):
            with monkeypatch.context() as broken:
                broken.setattr(script.session, "call", Mock(side_effect=error))
                with pytest.raises(told):
                    _wipe(script.context, ground)
            record = hosts.find(script.database, "local")
            assert record is None or record.released_at is None
        assert runs.find(script.database, script.run_id).wiped_root is None

    @pytest.mark.fault(
        "the link breaks before the answer to a wipe arrives", "the same command records that it was done"
    )
    def test_a_wipe_whose_answer_was_lost_is_recorded_by_the_next_one(
        self, script: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ground, call = see_ground(script.session), script.session.call

        def lose(request: Any, *args: Any, **options: Any) -> Any:
            call(request, *args, **options)
            raise LinkLost("the connection broke")

        with monkeypatch.context() as broken:
            broken.setattr(script.session, "call", lose)
            with pytest.raises(OutcomeUnknown, match="it is unknown whether everything"):
                _wipe(script.context, ground)
        script.session.disconnect()
        _wipe(script.context, see_ground(script.session))
        run, record = runs.find(script.database, script.run_id), hosts.find(script.database, "local")
        assert run.wiped_root == run.root_id is not None
        assert record is not None
        assert record.released_at is not None
        assert not script.remote.parent.parent.exists()

    def test_after_a_wipe_nothing_is_left_of_what_a_person_gave_up(self, script: Place) -> None:
        (script.remote / "work" / "notes.txt").write_bytes(b"notes")
        script.sync()
        before = run_sync.find(script.database, script.run_id)
        assert (before.final_done, before.left_there) == (True, 3)
        _wipe(script.context, see_ground(script.session))
        assert run_sync.find(script.database, script.run_id).left_there == 0

    def test_a_wipe_says_nothing_of_what_is_on_a_disk_that_is_away(self, script: Place) -> None:
        spec = runs.spec(script.database, script.run_id)
        runs.insert(
            script.database,
            run_id="away-1",
            name="away",
            host="local",
            task="sft",
            experiment=None,
            spec=spec,
            root_id="x",
        )
        listed = Checkpoint(digest="a" * 64, step=3, size_bytes=7, file_count=1, created_at=1.0)
        checkpoints.record_outbox(script.database, "away-1", [listed])
        assert "runs" in _wipe(script.context, see_ground(script.session))
        there = {run.run_id: run.wiped_root is not None for run in runs.every(script.database, host="local")}
        assert there == {script.run_id: True, "away-1": False}
        (wiped,) = checkpoints.of_run(script.database, script.run_id)
        (kept,) = checkpoints.of_run(script.database, "away-1")
        assert (wiped.on_host, kept.on_host, kept.trouble) == (False, True, None)
