"""A run's folder that cannot be seen, and a folder of runs that is away: neither is an absence."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from armada_agent.engines import array_records
from armada_agent.engines.engine import HandedArray
from armada_agent.errors import AgentError
from armada_agent.foundation.session import Call, Session
from armada_agent.host import roots
from armada_agent.paths import RunPaths, SweepPaths, list_run_ids
from armada_agent.records.place import is_gone, require_there
from armada_agent.runs import folders, observation, orphaned_processes, outputs, submissions
from armada_agent.runs.wipe import wipe
from armada_agent.supervisor import used_data

from tests.leftovers import marked_processes

RUN = "unseen-1"
OTHER = "unseen-2"


@pytest.fixture
def call(tmp_path: Path) -> Call:
    root = tmp_path / "armada"
    root.mkdir()
    return Call(Session(str(root), "", 1, sys.stdin.buffer, 0), 1)


def make(call: Call, run_id: str = RUN) -> RunPaths:
    paths = RunPaths(call.root, run_id)
    Path(paths.folder).mkdir(parents=True)
    Path(paths.spec).write_text(json.dumps({"run_id": run_id}))
    return paths


def runs_of(call: Call) -> Path:
    return Path(call.root, "runs")


def refuse(monkeypatch: pytest.MonkeyPatch, path: str, number: int) -> None:
    """Have the system refuse to say what is at a path, or to list it."""
    for verb in ("stat", "lstat", "scandir", "listdir"):
        real = getattr(os, verb)

        def refusing(at: Any, *words: Any, real: Any = real, **more: Any) -> Any:
            if os.fspath(at) == path if not isinstance(at, int) else False:
                raise OSError(number, os.strerror(number), path)
            return real(at, *words, **more)

        monkeypatch.setattr(os, verb, refusing)


def asked(call: Call, run_id: str = RUN) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a host says of a run: how it is, and what it has."""
    watched = observation.observe(call, {"runs": [{"run_id": run_id, "metrics_offset": 0, "events_offset": 0}]})
    return watched, outputs.look(call, {"runs": [{"run_id": run_id}]})


class TestFolder:
    """Whether a run's folder is there."""

    def test_it_is_missing_where_the_folder_of_runs_was_read_or_never_was(self, call: Call) -> None:
        paths = RunPaths(call.root, RUN)
        assert not paths.is_there()
        make(call, OTHER)
        assert not paths.is_there()
        assert is_gone(paths)
        make(call)
        assert paths.is_there()

    @pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
    @pytest.mark.parametrize("at", ["the run's folder", "the folder of runs"])
    def test_an_error_is_no_absence(self, call: Call, monkeypatch: pytest.MonkeyPatch, number: int, at: str) -> None:
        make(call, OTHER)
        paths = RunPaths(call.root, RUN)
        refuse(monkeypatch, paths.folder if at == "the run's folder" else str(runs_of(call)), number)
        with pytest.raises(OSError, match=os.strerror(number)):
            require_there(paths)

    def test_a_link_whose_disk_is_away_is_no_absence(self, call: Call, tmp_path: Path) -> None:
        make(call, OTHER)
        Path(call.root, "runs", RUN).symlink_to(tmp_path / "away")
        with pytest.raises(OSError, match="a file system may not be mounted"):
            is_gone(RunPaths(call.root, RUN))
        assert list_run_ids(call.root) == [RUN, OTHER]
        shutil.rmtree(runs_of(call))
        runs_of(call).symlink_to(tmp_path / "away")
        with pytest.raises(OSError, match="a file system may not be mounted"):
            is_gone(RunPaths(call.root, OTHER))
        with pytest.raises(OSError, match="a file system may not be mounted"):
            folders.list_runs(call, {})


class TestAnswers:
    """What home hears of a run whose folder cannot be seen."""

    @pytest.fixture
    def away(self, call: Call, tmp_path: Path) -> Call:
        make(call)
        runs_of(call).rename(tmp_path / "disk")
        runs_of(call).symlink_to(tmp_path / "away")
        return call

    def test_it_is_not_said_to_be_missing(self, away: Call) -> None:
        for answer in asked(away):
            (run,) = answer["runs"]
            assert (run["exists"], run["outbox"]) == (True, [])
            assert "a file system may not be mounted" in run.get("problem", "") + "".join(run.get("findings", ()))
            assert answer["root"] is None

    def test_its_processes_are_not_said_to_have_lost_it(self, away: Call) -> None:
        with marked_processes(away.root) as start:
            start(RUN_ID=RUN)
            (run,) = orphaned_processes.find(away, {})["runs"]
            assert (run["exists"], run["has_ended"]) == (True, None)

    def test_it_is_neither_removed_nor_stopped_nor_wiped(self, away: Call) -> None:
        for method, params in (
            (folders.remove, {"run_id": RUN}),
            (submissions.stop, {"run_id": RUN, "grace_s": 1.0}),
            (wipe, {}),
        ):
            with pytest.raises(OSError, match="a file system may not be mounted"):
                method(away, params)

    def test_its_array_is_still_needed(self, away: Call) -> None:
        sweep = SweepPaths(away.root, "grid-1")
        array_records.write(HandedArray(sweep, 1, [RUN], 1, None), {"job.sub": ""})
        assert not array_records.is_all_stopped(sweep, 1)


def test_a_run_that_cannot_be_seen_may_use_data(call: Call, tmp_path: Path) -> None:
    mine = make(call)
    Path(call.root, "runs", OTHER).symlink_to(tmp_path / "away")
    assert used_data._users(mine, "a" * 64) == [OTHER]  # noqa: SLF001  # its caller reads all of the data


class TestMark:
    """The mark of the folder of runs."""

    def mark(self, call: Call) -> Any:
        path = runs_of(call) / roots.MARK
        return json.loads(path.read_text())["id"] if path.exists() else None

    def test_a_root_without_runs_has_none_and_is_known_by_its_own_id(self, call: Call) -> None:
        own = roots.identify(call.root)
        assert own is not None
        runs_of(call).mkdir()
        assert (roots.identify(call.root), self.mark(call)) == (own, None)
        (runs_of(call) / "lost+found").mkdir()
        assert (roots.identify(call.root), self.mark(call)) == (own, None)

    def test_the_runs_of_a_former_armada_get_one_and_the_root_keeps_its_name(self, call: Call) -> None:
        own = roots.identify(call.root)
        make(call)
        assert (roots.identify(call.root), self.mark(call)) == (own, own)
        assert folders.list_runs(call, {}).get("strange") is None

    def test_an_empty_folder_in_its_place_is_not_it(self, call: Call, tmp_path: Path) -> None:
        make(call)
        own = roots.identify(call.root)
        runs_of(call).rename(tmp_path / "disk")
        for is_made in (False, True):
            if is_made:
                runs_of(call).mkdir()
            assert roots.identify(call.root) is None
            watched, listed = asked(call)
            assert (watched["root"], watched["runs"][0]["exists"]) == (None, False)
            assert (listed["root"], listed["runs"][0]["exists"]) == (None, False)
        runs_of(call).rmdir()
        (tmp_path / "disk").rename(runs_of(call))
        assert roots.identify(call.root) == own

    def test_what_is_launched_into_another_folder_has_a_name_of_its_own(self, call: Call, tmp_path: Path) -> None:
        make(call)
        own = roots.identify(call.root)
        runs_of(call).rename(tmp_path / "disk")
        make(call, OTHER)
        other = roots.identify(call.root)
        assert other not in (None, own)
        assert (roots.identify(call.root), self.mark(call)) == (other, other)
        runs_of(call).rename(tmp_path / "other")
        (tmp_path / "disk").rename(runs_of(call))
        assert roots.identify(call.root) == own

    def test_a_folder_that_its_owner_moved_keeps_its_name(self, call: Call, tmp_path: Path) -> None:
        make(call)
        own = roots.identify(call.root)
        shutil.move(runs_of(call), tmp_path / "larger")
        runs_of(call).symlink_to(tmp_path / "larger")
        assert roots.identify(call.root) == own

    def test_what_was_copied_without_it_is_seen_under_a_new_name(self, call: Call, tmp_path: Path) -> None:
        make(call)
        own = roots.identify(call.root)
        (runs_of(call) / roots.MARK).unlink()
        other = roots.identify(call.root)
        assert other not in (None, own)
        assert asked(call)[1]["runs"][0]["exists"]

    def test_a_disk_that_takes_no_mark_changes_nothing(self, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        own = roots.identify(call.root)
        make(call)
        monkeypatch.setattr(os, "link", _raise(OSError(errno.EROFS, "Read-only file system")))
        assert (roots.identify(call.root), self.mark(call)) == (own, None)

    def test_an_unreadable_one_proves_nothing(self, call: Call) -> None:
        make(call)
        roots.identify(call.root)
        (runs_of(call) / roots.MARK).write_text("{}")
        assert roots.identify(call.root) is None

    def test_a_mount_while_a_host_looks_leaves_its_answer_without_a_name(
        self, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make(call)
        roots.identify(call.root)
        runs_of(call).rename(tmp_path / "disk")
        runs_of(call).mkdir()
        is_there = RunPaths.is_there

        def mounted_then(paths: RunPaths) -> bool:
            found = is_there(paths)
            if (tmp_path / "disk").exists():
                runs_of(call).rmdir()
                (tmp_path / "disk").rename(runs_of(call))
            return found

        monkeypatch.setattr(RunPaths, "is_there", mounted_then)
        answer = outputs.look(call, {"runs": [{"run_id": RUN}]})
        assert (answer["root"], answer["runs"][0]["exists"]) == (None, False)

    def test_a_wipe_takes_it_and_what_comes_afterwards_is_another_root(self, call: Call) -> None:
        make(call)
        own = roots.identify(call.root)
        assert Path(call.root, roots.RECORD).exists()
        answer = wipe(call, {})
        assert (answer["root"], answer["left"], Path(call.root).exists()) == (own, [], False)
        assert roots.identify(call.root) not in (None, own)

    def test_the_record_of_a_root_that_a_former_armada_wiped_says_nothing_of_the_next(self, call: Call) -> None:
        make(call)
        roots.identify(call.root)
        shutil.rmtree(runs_of(call))
        Path(call.root, roots.NAME).unlink()  # a former armada leaves runs.json
        assert roots.identify(call.root) is not None

    def test_a_run_that_is_created_marks_it(self, call: Call) -> None:
        own = roots.identify(call.root)
        spec = {
            "format": 1, "run_id": RUN, "job": {"argv": ["true"], "env": {}, "code": None}, "gpus": 0, "stop_grace_s": 1.0,
            "outbox": {"keep": 1, "disk_floor_bytes": 0},
        }  # fmt: skip
        folders.create(call, {"run_id": RUN, "spec": spec, "files": {}, "secrets": {}})
        assert self.mark(call) == own


def _raise(error: Exception) -> Any:
    def raising(*_: object, **__: object) -> None:
        raise error

    return raising


def test_a_run_that_was_removed_is_still_not_found(call: Call) -> None:
    make(call, OTHER)
    with pytest.raises(AgentError, match="no run unseen-1"):
        require_there(RunPaths(call.root, RUN))
