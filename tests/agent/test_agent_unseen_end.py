"""A folder that cannot be seen at the end of a run: its end, its secrets and its last checkpoints wait until it can be."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from armada_agent.foundation import files
from armada_agent.paths import RunPaths
from armada_agent.records.ending import Ending
from armada_agent.records.journal import Journal
from armada_agent.records.place import await_seen, is_seen_gone

from tests.agent.batch_worker import NO_RESUME, Worker
from tests.agent.refusing_disk import RefusingDisk
from tests.waiting import eventually

ERRORS = (errno.ESTALE, errno.EIO, errno.EACCES, errno.ENOTCONN)
SAVES = (
    "touch up; while [ ! -e go ]; do sleep 0.05; done; mkdir -p out/step-7; echo w > out/step-7/w; touch gone; exit 0"
)
WATCH: dict[str, Any] = {"checkpoints": {"pattern": "out/step-*", "quiet_s": 600.0}, "resume": []}


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    made = RunPaths(str(tmp_path), "unseen-1")
    Path(made.attempt(1)).mkdir(parents=True)
    Path(made.submission(1)).mkdir(parents=True)
    Path(made.spec).write_text("{}")
    Path(made.secrets).write_text("{}")
    Path(made.submission(1, "job.json")).write_text('{"submission": 1, "scheduler": "slurm", "job_id": "7"}')
    return made


@contextmanager
def refused(paths: RunPaths, number: int) -> Iterator[None]:
    """Have the system refuse all below a run's folder."""
    with pytest.MonkeyPatch.context() as patch:
        for verb in ("open", "stat", "lstat", "scandir", "listdir", "mkdir", "rename", "unlink"):
            real = getattr(os, verb)

            def refusing(at: Any, *words: Any, real: Any = real, **more: Any) -> Any:
                if not isinstance(at, int) and os.fspath(at).startswith(paths.folder):
                    raise OSError(number, os.strerror(number), at)
                return real(at, *words, **more)

            patch.setattr(os, verb, refusing)
        yield


@contextmanager
def led_in_a_circle(paths: RunPaths) -> Iterator[None]:
    """Have the system refuse all below the folder of runs with ELOOP."""
    runs = Path(paths.root, "runs")
    runs.rename(runs.with_suffix(".away"))
    runs.symlink_to("runs")
    yield
    runs.unlink()
    runs.with_suffix(".away").rename(runs)


@pytest.mark.parametrize("number", [*ERRORS, errno.ELOOP], ids=errno.errorcode.get)
def test_the_end_waits_until_the_folder_can_be_seen(paths: RunPaths, number: int) -> None:
    journal = Journal(paths, 1)
    journal.state["attempt"] = 1
    journal.update(state="running")
    with led_in_a_circle(paths) if number == errno.ELOOP else refused(paths, number):
        journal.close_attempt(Ending("succeeded").with_status(0))
        journal.update(state="succeeded")
        assert not journal.flush()
        assert journal.place.is_ours(at_once=True)
    journal.settle(pause=lambda _s: pytest.fail("the disk answers"))
    assert json.loads(Path(paths.attempt(1, "exit.json")).read_text())["state"] == "succeeded"
    assert json.loads(Path(paths.state).read_text())["state"] == "succeeded"


def test_a_folder_that_was_seen_to_be_gone_ends_the_waiting(paths: RunPaths) -> None:
    journal = Journal(paths, 1)
    shutil.rmtree(paths.folder)
    assert is_seen_gone(paths)
    journal.update(state="succeeded")
    journal.settle(pause=lambda _s: pytest.fail("there is nowhere to write"))
    assert not Path(paths.folder).exists()


def test_who_looks_waits_for_the_folder_and_not_for_what_a_job_put_into_it(paths: RunPaths) -> None:
    waited: list[float] = []
    with refused(paths, errno.EIO) as _:

        def pause(seconds: float) -> None:
            waited.append(seconds)
            if len(waited) == 7:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            await_seen(paths, paths.attempts, pause)
    shutil.rmtree(Path(paths.folder, "attempts"))
    Path(paths.folder, "attempts").symlink_to("elsewhere")
    waited.clear()
    with pytest.raises(OSError, match="it is a link"):
        await_seen(paths, paths.attempts, waited.append)
    assert len(waited) < 7
    Path(paths.state).symlink_to("elsewhere")
    with pytest.raises(files.UnseenError):
        await_seen(paths, lambda: files.read_json(paths.state), waited.append)


@pytest.mark.parametrize("kind", ["direct", "slurm"])
@pytest.mark.parametrize("number", [errno.ESTALE, errno.EACCES], ids=errno.errorcode.get)
def test_a_supervisor_writes_the_end_and_takes_the_last_checkpoint_once_it_sees_the_folder(
    worker: Callable[[str], Worker], kind: str, number: int
) -> None:
    there = worker(kind)
    disk = RefusingDisk(there)
    there.hand_over("u-3", SAVES, watch=WATCH, secrets={"TOKEN": "x"})
    folder = there.host.folder("u-3")
    there.begin("u-3")
    eventually((folder / "work/up").exists)
    disk.refuse(folder, number)
    (folder / "work/go").touch()
    eventually((folder / "work/gone").exists)
    disk.await_refusals(30)
    disk.answer()
    ended = there.host.await_end("u-3")
    assert (ended["state"], ended["exit_code"]) == ("succeeded", 0)
    assert there.exit_of("u-3", 1)["state"] == "succeeded"
    assert not (folder / "secrets.env").exists()
    assert [entry["step"] for entry in there.host.look("u-3")["outbox"]] == [7]


def test_a_guardian_takes_the_job_over_once_it_sees_the_folder(worker: Callable[[str], Worker]) -> None:
    there = worker("direct")
    disk = RefusingDisk(there)
    there.hand_over("u-4", "touch up; while [ ! -e go ]; do sleep 0.05; done; exit 3", watch=NO_RESUME)
    folder = there.host.folder("u-4")
    there.begin("u-4")
    eventually((folder / "work/up").exists)
    there.host.await_state("u-4", "running")
    disk.refuse(folder, errno.EIO)
    os.kill(there.read("u-4", "submissions/1/job.json")["supervisor"]["pid"], signal.SIGKILL)
    disk.await_refusals(20)
    disk.answer()
    eventually((folder / "submissions/1/successor.json").exists)
    (folder / "work/go").touch()
    assert there.host.await_end("u-4")["reason"] == "exit_3"


def test_a_job_that_closes_its_own_work_folder_ends_and_says_that_nothing_can_be_taken(
    worker: Callable[[str], Worker],
) -> None:
    there = worker("direct")
    disk = RefusingDisk(there)
    there.hand_over("u-5", "touch up; while [ ! -e go ]; do sleep 0.05; done; exit 0", watch=WATCH)
    folder = there.host.folder("u-5")
    there.begin("u-5")
    eventually((folder / "work/up").exists)
    disk.refuse(folder / "work", errno.EACCES)
    (folder / "work/go").touch()
    assert there.host.await_end("u-5")["state"] == "succeeded"
    assert "the checkpoints that the job saved last cannot be taken" in str(there.host.events("u-5"))
