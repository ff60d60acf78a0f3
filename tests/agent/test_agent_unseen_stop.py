"""A request to stop that cannot be read now: nobody knows whether there is one, so nothing is ended and nothing is started."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.foundation.session import Call, Session
from armada_agent.host import detached
from armada_agent.paths import RunPaths, SweepPaths
from armada_agent.records.stop_request import StopReader, read_stop_request
from armada_agent.runs import dispatcher, submissions

from tests.agent.batch_worker import NO_RESUME, Worker
from tests.agent.refusing_disk import RefusingDisk
from tests.waiting import eventually

ERRORS = (errno.ESTALE, errno.EIO, errno.EACCES, errno.ENOTCONN, errno.ETIMEDOUT, errno.EMFILE)
WAITS = "trap 'echo TERM; exit 5' TERM; touch up; while [ ! -e go ]; do sleep 0.05; done; exit 0"
STOP = json.dumps({"time": 1.0, "grace_s": 5.0, "submission": 1})


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    made = RunPaths(str(tmp_path), "unseen-1")
    Path(made.folder).mkdir(parents=True)
    return made


def refuse(monkeypatch: pytest.MonkeyPatch, path: str, number: int) -> None:
    real = os.open

    def refusing(at: str, *words: int) -> int:
        if at == path:
            raise OSError(number, os.strerror(number), path)
        return real(at, *words)

    monkeypatch.setattr(os, "open", refusing)


@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
def test_an_error_says_nothing_of_a_stop(paths: RunPaths, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    reader = StopReader(paths)
    with monkeypatch.context() as patch:
        refuse(patch, paths.stop, number)
        with pytest.raises(files.UnseenError, match=r"stop\.json"):
            read_stop_request(paths)
        assert (reader.look(), reader.is_known) == (None, False)
    assert (reader.look(), reader.is_known) == (None, True)
    Path(paths.stop).write_text(STOP)
    assert reader.look() == json.loads(STOP)
    refuse(monkeypatch, paths.stop, number)
    assert (reader.look(), reader.is_known) == (json.loads(STOP), False)


def test_what_was_read_and_is_damaged_is_a_stop_and_what_is_no_file_is_none(paths: RunPaths) -> None:
    Path(paths.stop).write_text("{")
    assert read_stop_request(paths) == {}
    Path(paths.stop).unlink()
    Path(paths.stop).symlink_to("elsewhere")
    assert read_stop_request(paths) is None
    Path(paths.stop).unlink()
    os.mkfifo(paths.stop)
    assert read_stop_request(paths) is None


@pytest.mark.parametrize("kind", ["direct", "slurm"])
def test_a_job_goes_on_while_its_stop_request_cannot_be_read(worker: Callable[[str], Worker], kind: str) -> None:
    there = worker(kind)
    disk = RefusingDisk(there)
    there.hand_over("u-1", WAITS, watch=NO_RESUME)
    folder = there.host.folder("u-1")
    there.begin("u-1")
    eventually((folder / "work/up").exists)
    disk.refuse(folder / "stop.json", errno.ESTALE)
    disk.await_refusals()
    disk.answer()
    (folder / "work/go").touch()
    assert there.host.await_end("u-1")["state"] == "succeeded"
    assert "TERM" not in there.host.output("u-1")


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_job_starts_only_once_it_is_known_whether_it_was_stopped(
    worker: Callable[[str], Worker], is_stopped: bool
) -> None:
    there = worker("direct")
    disk = RefusingDisk(there)
    there.hand_over("u-2", "exit 0", watch=NO_RESUME)
    folder = there.host.folder("u-2")
    if is_stopped:
        (folder / "stop.json").write_text(STOP)
    disk.refuse(folder / "stop.json", errno.EIO)
    there.begin("u-2")
    disk.await_refusals()
    assert not (folder / "attempts/1").exists()
    disk.answer()
    ended = there.host.await_end("u-2")
    assert (ended["state"], ended["attempt"]) == (("cancelled", 0) if is_stopped else ("succeeded", 1))


def test_nothing_is_submitted_and_no_cell_is_over_while_it_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = RunPaths(str(tmp_path), "grid-1-001")
    claim = Path(paths.submission(1, "claim.json"))
    claim.parent.mkdir(parents=True)
    Path(paths.spec).write_text("{}")
    call = Call(Session(str(tmp_path), "", 1, sys.stdin.buffer, 0), 1)
    with monkeypatch.context() as patch:
        refuse(patch, paths.stop, errno.ESTALE)
        with pytest.raises((files.UnseenError, AgentError), match=r"stop\.json"):
            submissions.submit(call, {"run_id": paths.run_id, "submission": 1})
    assert not claim.exists()
    claim.write_text("{}")
    (tmp_path / "sweeps/grid-1").mkdir(parents=True)
    sweep = SweepPaths(str(tmp_path), "grid-1")
    files.write_json(sweep.cells, {"cells": [paths.run_id], "parallel": 1})
    started: list[str] = []
    monkeypatch.setattr(detached, "start", lambda *words: started.append(words[0]))
    made = dispatcher.Dispatcher(sweep, "")
    with monkeypatch.context() as patch:
        refuse(patch, paths.stop, errno.ESTALE)
        made.step(0.0)
    assert started == []
    made.step(1.0)
    assert started == ["supervise"]
